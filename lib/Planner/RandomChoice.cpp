// SPDX-License-Identifier: Apache-2.0
// Draws strategies node by node; where none goes with those of the nodes before, some of these are
// drawn again.
#include "autopar/Planner/RandomChoice.h"

#include <algorithm>
#include <random>

namespace autopar {
namespace {

/// So often at most a node may be found without a strategy.
constexpr int kMostDeadEnds = 1000;

class Draw {
public:
  Draw(const CostGraph &graph, uint64_t seed)
      : graph(graph), seed(seed), generator(seed), before(graph.nodes.size()),
        deadEnds(graph.nodes.size()) {
    for (const CostEdge &edge : graph.edges)
      before[static_cast<size_t>(std::max(edge.a, edge.b))].push_back(edge);
  }

  Result<std::vector<int32_t>> run() {
    for (int found = 0; choice.size() < graph.nodes.size();) {
      std::vector<int32_t> legal = legalStrategies();
      if (!legal.empty())
        choice.push_back(pick(legal));
      else if (before[choice.size()].empty() || ++found > kMostDeadEnds)
        return refusal();
      else
        stepBack();
    }
    return choice;
  }

private:
  /// Those of the next node that go with the choices so far.
  std::vector<int32_t> legalStrategies() const {
    size_t node = choice.size();
    std::vector<int32_t> legal;
    for (size_t k = 0; k < graph.nodes[node].strategies.size(); ++k) {
      auto forbids = [&](const CostEdge &edge) { return isForbidden(costOf(edge, k)); };
      if (!isForbidden(graph.nodes[node].strategies[k].timeUs) &&
          std::none_of(before[node].begin(), before[node].end(), forbids))
        legal.push_back(static_cast<int32_t>(k));
    }
    return legal;
  }

  /// Of an edge to the next node, if that takes strategy `k`.
  double costOf(const CostEdge &edge, size_t k) const {
    auto taken = [&](int32_t node) {
      return static_cast<size_t>(node) == choice.size()
                 ? k
                 : static_cast<size_t>(choice[static_cast<size_t>(node)]);
    };
    size_t columns = graph.nodes[static_cast<size_t>(edge.b)].strategies.size();
    return graph
        .matrices[static_cast<size_t>(edge.matrix)][taken(edge.a) * columns + taken(edge.b)];
  }

  /// Full replication comes first; it is taken seldom.
  int32_t pick(const std::vector<int32_t> &legal) {
    bool replicate = legal.size() == 1 || generator() % 8 == 0;
    return legal[replicate ? 0 : 1 + generator() % (legal.size() - 1)];
  }

  /// The last neighbour is drawn again, and at each further dead end twice as many nodes before it.
  void stepBack() {
    size_t node = choice.size(), last = 0;
    for (const CostEdge &edge : before[node])
      last = std::max(last, static_cast<size_t>(std::min(edge.a, edge.b)));
    size_t further = (size_t(1) << std::min(deadEnds[node]++, 40)) - 1;
    choice.resize(last - std::min(last, further));
  }

  Status refusal() const {
    return Status::badInput("a random plan of seed " + std::to_string(seed) + ": node '" +
                            graph.nodes[choice.size()].id +
                            "' has no strategy that goes with those of the nodes before it; "
                            "expected another seed or fewer demands");
  }

  const CostGraph &graph;
  uint64_t seed;
  std::mt19937_64 generator;
  std::vector<std::vector<CostEdge>> before; ///< per node, edges to earlier ones
  std::vector<int> deadEnds;                 ///< per node, how often it had no strategy
  std::vector<int32_t> choice;
};

} // namespace

Result<std::vector<int32_t>> drawChoice(const CostGraph &graph, uint64_t seed) {
  return Draw(graph, seed).run();
}

} // namespace autopar
