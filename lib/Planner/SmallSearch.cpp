// SPDX-License-Identifier: Apache-2.0
// Branch and bound: nodes in an order that keeps neighbours together; a node's bound is its own
// cost plus edges to decided neighbours, the rest is bounded by each node's and edge's minimum.
#include "SmallSearch.h"

#include <algorithm>
#include <numeric>

#include "MemoryUse.h"

namespace autopar::planner {
namespace {

class Search {
public:
  Search(const ReducedProblem &problem, double upper, int64_t steps)
      : problem(problem), use(problem.room), upper(upper), left(steps) {
    orderNodes();
    boundSuffixes();
    choice.assign(problem.nodes.size(), 0);
  }

  SmallSearchResult run() {
    int64_t before = left;
    descend(0, problem.constant);
    result.complete = left > 0;
    result.work = before - left;
    return std::move(result);
  }

private:
  void orderNodes();
  void boundSuffixes();
  void descend(size_t depth, double cost);

  const ReducedProblem &problem;
  MemoryUse use;
  double upper;
  int64_t left;
  std::vector<size_t> order;
  std::vector<int32_t> depthOf;
  std::vector<double> suffix; ///< least cost of what is decided from a depth on
  std::vector<int32_t> choice;
  SmallSearchResult result;
};

/// Always the node with most decided neighbours next.
void Search::orderNodes() {
  size_t count = problem.nodes.size();
  std::vector<int32_t> decided(count, 0);
  depthOf.assign(count, -1);
  for (size_t depth = 0; depth < count; ++depth) {
    size_t best = count;
    for (size_t i = 0; i < count; ++i)
      if (depthOf[i] < 0 && (best == count || decided[i] > decided[best]))
        best = i;
    depthOf[best] = static_cast<int32_t>(depth);
    order.push_back(best);
    for (const Arc &arc : problem.nodes[best].arcs)
      ++decided[static_cast<size_t>(arc.other)];
  }
}

void Search::boundSuffixes() {
  suffix.assign(order.size() + 1, 0);
  for (size_t depth = order.size(); depth-- > 0;) {
    const ReducedNode &node = problem.nodes[order[depth]];
    double least = *std::min_element(node.cost.begin(), node.cost.end());
    for (const Arc &arc : node.arcs)
      if (depthOf[static_cast<size_t>(arc.other)] < static_cast<int32_t>(depth)) {
        const std::vector<double> &all = problem.edges[static_cast<size_t>(arc.edge)].matrix->byRow;
        least += *std::min_element(all.begin(), all.end());
      }
    suffix[depth] = suffix[depth + 1] + least;
  }
}

void Search::descend(size_t depth, double cost) {
  if (depth == order.size()) {
    if (use.over() <= 0 && cost < upper) {
      upper = cost;
      result.found = true;
      result.best = choice;
    }
    return;
  }
  size_t at = order[depth];
  const ReducedNode &node = problem.nodes[at];
  std::vector<double> costs = node.cost;
  for (const Arc &arc : node.arcs)
    if (depthOf[static_cast<size_t>(arc.other)] < static_cast<int32_t>(depth)) {
      Arc back{arc.edge, static_cast<int32_t>(at), !arc.forward};
      const double *row = problem.row(back, choice[static_cast<size_t>(arc.other)]);
      for (size_t k = 0; k < costs.size(); ++k)
        costs[k] += row[k];
    }
  left -= static_cast<int64_t>(costs.size() * (node.arcs.size() + 2)) +
          static_cast<int64_t>(node.memory.pieces.size() * 8);
  std::vector<int32_t> tryOrder(costs.size());
  std::iota(tryOrder.begin(), tryOrder.end(), 0);
  std::sort(tryOrder.begin(), tryOrder.end(), [&](int32_t a, int32_t b) {
    return std::make_pair(costs[static_cast<size_t>(a)], a) <
           std::make_pair(costs[static_cast<size_t>(b)], b);
  });
  for (int32_t k : tryOrder) {
    double next = cost + costs[static_cast<size_t>(k)];
    if (left <= 0 || next + suffix[depth + 1] >= upper)
      return;
    choice[at] = k;
    use.add(node, k, 1);
    if (use.over() <= 0)
      descend(depth + 1, next);
    use.add(node, k, -1);
  }
}

} // namespace

SmallSearchResult searchSmall(const ReducedProblem &problem, double upper, int64_t steps) {
  return Search(problem, std::min(upper, problem.forbidden / 2), steps).run();
}

} // namespace autopar::planner
