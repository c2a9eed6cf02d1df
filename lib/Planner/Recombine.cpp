// SPDX-License-Identifier: Apache-2.0
// Parts by a walk over differing neighbours; then greedily, the part that saves most first.
#include "Recombine.h"

#include <algorithm>
#include <numeric>

#include "MemoryPrices.h"

namespace autopar::planner {
namespace {

struct Part {
  std::vector<int32_t> nodes;
  double saved = 0; ///< cost that taking it from the other choice saves
};

class Recombination {
public:
  Recombination(const ReducedProblem &problem, const std::vector<int32_t> &base,
                const std::vector<int32_t> &other)
      : problem(problem), now(base), other(other), held(heldBytes(problem, base)),
        change(problem.room.size() + 1, 0) {}

  std::vector<int32_t> run() {
    findParts();
    std::sort(parts.begin(), parts.end(), [](const Part &a, const Part &b) {
      return a.saved != b.saved ? a.saved > b.saved : a.nodes.front() < b.nodes.front();
    });
    // What one part frees, another may use: three looks at those not yet taken.
    for (int pass = 0; pass < 3 && !parts.empty(); ++pass)
      std::erase_if(parts, [&](const Part &part) { return take(part); });
    return std::move(now);
  }

private:
  void findParts();
  double savedBy(const std::vector<int32_t> &nodes) const;
  bool take(const Part &part);

  const ReducedProblem &problem;
  std::vector<int32_t> now;
  const std::vector<int32_t> &other;
  std::vector<int64_t> held, change; ///< per time point
  std::vector<Part> parts;
};

void Recombination::findParts() {
  std::vector<bool> seen(now.size(), false);
  for (size_t i = 0; i < now.size(); ++i) {
    if (seen[i] || now[i] == other[i])
      continue;
    Part part;
    part.nodes.push_back(static_cast<int32_t>(i));
    seen[i] = true;
    for (size_t at = 0; at < part.nodes.size(); ++at)
      for (const Arc &arc : problem.nodes[static_cast<size_t>(part.nodes[at])].arcs) {
        auto next = static_cast<size_t>(arc.other);
        if (seen[next] || now[next] == other[next])
          continue;
        seen[next] = true;
        part.nodes.push_back(arc.other);
      }
    part.saved = savedBy(part.nodes);
    parts.push_back(std::move(part));
  }
}

/// Neighbours that differ are in the same part; edges inside it are met from both ends.
double Recombination::savedBy(const std::vector<int32_t> &nodes) const {
  double saved = 0;
  for (int32_t node : nodes) {
    auto i = static_cast<size_t>(node);
    const ReducedNode &own = problem.nodes[i];
    saved += own.cost[static_cast<size_t>(now[i])] - own.cost[static_cast<size_t>(other[i])];
    for (const Arc &arc : own.arcs) {
      auto j = static_cast<size_t>(arc.other);
      double share = now[j] == other[j] ? 1.0 : 0.5;
      saved += share * (problem.row(arc, now[i])[now[j]] - problem.row(arc, other[i])[other[j]]);
    }
  }
  return saved;
}

/// Takes the part where that mends what is forbidden, or lowers the overfill without breaking
/// anything, or the cost at equal overfill.
bool Recombination::take(const Part &part) {
  auto first = static_cast<int32_t>(problem.room.size()), last = int32_t{0};
  for (int32_t node : part.nodes) {
    auto i = static_cast<size_t>(node);
    const NodeMemory &memory = problem.nodes[i].memory;
    size_t count = problem.nodes[i].cost.size();
    for (size_t p = 0; p < memory.pieces.size(); ++p) {
      int64_t more = memory.bytes[p * count + static_cast<size_t>(other[i])] -
                     memory.bytes[p * count + static_cast<size_t>(now[i])];
      change[static_cast<size_t>(memory.pieces[p].begin)] += more;
      change[static_cast<size_t>(memory.pieces[p].end)] -= more;
      first = std::min(first, memory.pieces[p].begin);
      last = std::max(last, memory.pieces[p].end);
    }
  }
  int64_t over = 0, sum = 0;
  for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
    sum += change[t];
    over += std::max<int64_t>(0, held[t] + sum - problem.room[t]) -
            std::max<int64_t>(0, held[t] - problem.room[t]);
  }
  bool mends = part.saved > problem.forbidden / 2, breaks = part.saved < -problem.forbidden / 2;
  bool better = mends || (!breaks && (over < 0 || (over == 0 && part.saved > 0)));
  sum = 0;
  for (auto t = static_cast<size_t>(first); t < static_cast<size_t>(last); ++t) {
    sum += change[t];
    change[t] = 0;
    held[t] += better ? sum : 0;
  }
  change[static_cast<size_t>(last)] = 0;
  if (better)
    for (int32_t node : part.nodes)
      now[static_cast<size_t>(node)] = other[static_cast<size_t>(node)];
  return better;
}

} // namespace

std::vector<int32_t> recombine(const ReducedProblem &problem, const std::vector<int32_t> &base,
                               const std::vector<int32_t> &other) {
  std::vector<int32_t> mixed = Recombination(problem, base, other).run();
  Standing best = standingOf(problem, mixed);
  // Mending one of several broken rules may cost memory.
  for (const std::vector<int32_t> *whole : {&base, &other})
    if (Standing standing = standingOf(problem, *whole); standing < best) {
      mixed = *whole;
      best = standing;
    }
  return mixed;
}

} // namespace autopar::planner
