// SPDX-License-Identifier: Apache-2.0
// Small random cost graphs and the answer by trying everything: what all engines are held against.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "autopar/Planner/CostGraph.h"

namespace autopar::testing {

struct RandomGraphShape {
  int nodes = 7;
  int mostStrategies = 4;
  int edges = 9;
  double forbiddenShare = 0.1;
  bool memory = true;
  bool followers = true; ///< some edges tie two nodes together
};

inline CostGraph randomGraph(const RandomGraphShape &shape, uint64_t seed) {
  std::mt19937_64 random(seed);
  auto below = [&](uint64_t bound) { return static_cast<int>(random() % bound); };
  CostGraph graph;
  int64_t most = 0;
  for (int i = 0; i < shape.nodes; ++i) {
    CostNode node;
    node.id = "n" + std::to_string(i);
    int count = 1 + below(static_cast<uint64_t>(shape.mostStrategies));
    int64_t largest = 0;
    for (int k = 0; k < count; ++k) {
      Strategy strategy;
      strategy.timeUs = below(50);
      strategy.liveBytes = below(40);
      strategy.persistentBytes = below(4) == 0 ? below(20) : 0;
      largest = std::max(largest, strategy.liveBytes + strategy.persistentBytes);
      node.strategies.push_back(strategy);
    }
    most += largest;
    int begin = below(10);
    node.live.push_back({begin, begin + below(8)});
    if (below(4) == 0)
      node.live.push_back({begin + 10, begin + 12});
    graph.addNode(std::move(node));
  }
  for (int e = 0; e < shape.edges && shape.nodes > 1; ++e) {
    int a = below(static_cast<uint64_t>(shape.nodes)),
        b = below(static_cast<uint64_t>(shape.nodes));
    if (a == b)
      continue;
    size_t rows = graph.nodes[static_cast<size_t>(a)].strategies.size();
    size_t columns = graph.nodes[static_cast<size_t>(b)].strategies.size();
    bool tie = shape.followers && below(4) == 0;
    std::vector<double> matrix;
    for (size_t r = 0; r < rows; ++r)
      for (size_t c = 0; c < columns; ++c) {
        bool forbidden =
            tie ? c != r % columns : below(1000) < static_cast<int>(1000 * shape.forbiddenShare);
        matrix.push_back(forbidden ? kForbidden : below(60));
      }
    graph.addEdge(a, b, std::move(matrix));
  }
  if (shape.memory)
    graph.memoryLimitBytes = 1 + most / 4 + below(static_cast<uint64_t>(most / 2 + 1));
  return graph;
}

/// The cheapest legal choice within the limit; nothing where there is none.
inline std::optional<double> cheapestByTrying(const CostGraph &graph) {
  std::vector<int32_t> choice(graph.nodes.size(), 0);
  std::optional<double> best;
  while (true) {
    Evaluation evaluation = evaluate(graph, choice);
    if (evaluation.legal && evaluation.fits && (!best || evaluation.timeUs < *best))
      best = evaluation.timeUs;
    size_t at = 0;
    for (; at < choice.size(); ++at) {
      if (static_cast<size_t>(++choice[at]) < graph.nodes[at].strategies.size())
        break;
      choice[at] = 0;
    }
    if (at == choice.size())
      return best;
  }
}

} // namespace autopar::testing
