// SPDX-License-Identifier: Apache-2.0
// Sequential tree-reweighted message passing over the nodes in their order, which is the order of
// the program, and decoding along it.
#include "DualBound.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <random>

#include "LeastOf.h"
#include "MemoryUse.h"

namespace autopar::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

/// Rows that are added at once, so that results are not stored for each of them.
constexpr int32_t kRows = 4;

AUTOPAR_VECTOR_CLONES
void lowerTo(double *__restrict result, const double *row, double start, int32_t count) {
  for (int32_t x = 0; x < count; ++x)
    result[x] = lower(result[x], start + row[x]);
}

AUTOPAR_VECTOR_CLONES
void lowerTo(double *__restrict result, const std::array<const double *, kRows> &rows,
             const double *start, int32_t count) {
  auto [first, second, third, fourth] = rows;
  for (int32_t x = 0; x < count; ++x) {
    double least = lower(result[x], start[0] + first[x]);
    least = lower(least, start[1] + second[x]);
    least = lower(least, start[2] + third[x]);
    result[x] = lower(least, start[3] + fourth[x]);
  }
}

} // namespace

void minPlus(const ReducedProblem &problem, const Arc &arc, const double *start, int32_t count,
             double *result, int32_t resultCount) {
  std::fill(result, result + resultCount, kInfinite);
  int32_t k = 0;
  for (; k + kRows <= count; k += kRows)
    lowerTo(result,
            {problem.row(arc, k), problem.row(arc, k + 1), problem.row(arc, k + 2),
             problem.row(arc, k + 3)},
            start + k, resultCount);
  for (; k < count; ++k)
    lowerTo(result, problem.row(arc, k), start[k], resultCount);
}

void addPricedBytes(const ReducedNode &node, const std::vector<double> &prefix, double *cost) {
  const int64_t *bytes = node.memory.bytes.data();
  size_t count = node.cost.size();
  for (const Piece &piece : node.memory.pieces) {
    double price =
        prefix[static_cast<size_t>(piece.end)] - prefix[static_cast<size_t>(piece.begin)];
    if (price > 0)
      for (size_t k = 0; k < count; ++k)
        cost[k] += price * static_cast<double>(bytes[k]);
    bytes += count;
  }
}

DualBound::DualBound(const ReducedProblem &problem) : problem(problem) {
  size_t at = 0;
  for (const ReducedEdge &edge : problem.edges) {
    offset.push_back(at);
    at += static_cast<size_t>(edge.matrix->rows);
    offset.push_back(at);
    at += static_cast<size_t>(edge.matrix->columns);
  }
  messages.assign(at, 0.0);
  setPrices(std::vector<double>(problem.room.size(), 0.0));
}

void DualBound::setPrices(const std::vector<double> &prices) {
  price = prices;
  std::vector<double> prefix(price.size() + 1, 0.0);
  pricedRoom = 0;
  for (size_t t = 0; t < price.size(); ++t) {
    prefix[t + 1] = prefix[t] + price[t];
    pricedRoom += price[t] * static_cast<double>(problem.room[t]);
  }
  priced.resize(problem.nodes.size());
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    priced[i] = problem.nodes[i].cost;
    addPricedBytes(problem.nodes[i], prefix, priced[i].data());
    steps += static_cast<int64_t>(problem.nodes[i].memory.bytes.size());
  }
}

/// Own costs plus all incoming messages.
void DualBound::gather(size_t node, std::vector<double> &sum) const {
  sum = priced[node];
  for (const Arc &arc : problem.nodes[node].arcs) {
    const double *in = message(arc.edge, arc.forward);
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] += in[k];
  }
}

/// Updates the message along `arc`; returns what normalising it to minimum 0 took off.
double DualBound::send(const Arc &arc, double share, const std::vector<double> &sum) {
  const double *back = message(arc.edge, arc.forward);
  double *out = message(arc.edge, !arc.forward);
  thread_local std::vector<double> start;
  start.resize(sum.size());
  for (size_t k = 0; k < sum.size(); ++k)
    start[k] = share * sum[k] - back[k];
  int32_t count = problem.nodes[static_cast<size_t>(arc.other)].size();
  minPlus(problem, arc, start.data(), static_cast<int32_t>(sum.size()), out, count);
  double least = leastOf(out, static_cast<size_t>(count));
  for (int32_t x = 0; x < count; ++x)
    out[x] -= least;
  steps += static_cast<int64_t>(sum.size()) * count;
  return least;
}

double DualBound::sweep() {
  auto count = problem.nodes.size();
  std::vector<double> sum;
  std::vector<double> shares(count);
  for (size_t i = 0; i < count; ++i) {
    auto ahead = std::count_if(problem.nodes[i].arcs.begin(), problem.nodes[i].arcs.end(),
                               [](const Arc &arc) { return arc.forward; });
    auto behind = static_cast<std::ptrdiff_t>(problem.nodes[i].arcs.size()) - ahead;
    shares[i] = 1.0 / static_cast<double>(std::max<std::ptrdiff_t>({ahead, behind, 1}));
    gather(i, sum);
    for (const Arc &arc : problem.nodes[i].arcs)
      if (arc.forward)
        send(arc, shares[i], sum);
  }
  double bound = problem.constant - pricedRoom;
  for (size_t i = count; i-- > 0;) {
    gather(i, sum);
    double least = leastOf(sum.data(), sum.size());
    for (double &cost : sum)
      cost -= least;
    bound += least;
    for (const Arc &arc : problem.nodes[i].arcs)
      if (!arc.forward)
        bound += send(arc, shares[i], sum);
  }
  return bound;
}

/// Costs given the neighbours decided before, and messages from those decided later.
void DualBound::conditional(size_t node, const std::vector<int32_t> &choice,
                            std::vector<double> &sum) const {
  sum = priced[node];
  for (const Arc &arc : problem.nodes[node].arcs) {
    const double *in = message(arc.edge, arc.forward);
    if (!arc.forward) {
      Arc back{arc.edge, static_cast<int32_t>(node), true};
      in = problem.row(back, choice[static_cast<size_t>(arc.other)]);
    }
    for (size_t k = 0; k < sum.size(); ++k)
      sum[k] += in[k];
  }
}

std::vector<int32_t> DualBound::decode() const {
  std::vector<int32_t> choice(problem.nodes.size(), 0);
  std::vector<double> sum;
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    conditional(i, choice, sum);
    choice[i] = static_cast<int32_t>(std::min_element(sum.begin(), sum.end()) - sum.begin());
    steps += static_cast<int64_t>(sum.size() * (problem.nodes[i].arcs.size() + 1));
  }
  return choice;
}

std::vector<int32_t> DualBound::decodeWithinRoom(double noise, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::vector<int32_t> choice(problem.nodes.size(), 0);
  std::vector<double> sum;
  std::vector<int32_t> order;
  MemoryUse use(problem.room);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ReducedNode &node = problem.nodes[i];
    conditional(i, choice, sum);
    if (noise > 0)
      for (double &cost : sum)
        cost += noise * static_cast<double>(random() >> 11) * 0x1p-53;
    order.resize(sum.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      return sum[static_cast<size_t>(a)] != sum[static_cast<size_t>(b)]
                 ? sum[static_cast<size_t>(a)] < sum[static_cast<size_t>(b)]
                 : a < b;
    });
    int64_t least = std::numeric_limits<int64_t>::max();
    choice[i] = order.front();
    for (int32_t k : order) {
      // A dearer strategy that is illegal here is no way out of a full memory.
      if (sum[static_cast<size_t>(k)] >= problem.forbidden && k != order.front())
        break;
      int64_t over = use.overAfter(node, k);
      if (over < least) {
        least = over;
        choice[i] = k;
      }
      if (over <= 0)
        break;
    }
    use.add(node, choice[i], 1);
    steps += static_cast<int64_t>(sum.size() * (node.arcs.size() + 1) + node.memory.bytes.size());
  }
  return choice;
}

} // namespace autopar::planner
