// SPDX-License-Identifier: Apache-2.0
// A chain of identical layers between an embedding and a head, as auto-sharding poses it:
// parameters that may be split, activations that follow, resharding between disagreeing neighbours.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "autopar/Planner/CostGraph.h"

namespace autopar::testing {

inline constexpr int32_t kLayerNodes = 6;

struct LayerChainShape {
  int layers = 10;
  int strategies = 8;
  /// Limit as a share of what the cheapest choice per node would hold; 0: no limit.
  double memoryShare = 0;
};

/// Nodes 0 .. kLayerNodes * layers - 1 are the layers; embedding and head come last.
inline CostGraph layerChain(const LayerChainShape &shape) {
  std::mt19937_64 random(42);
  auto below = [&](uint64_t bound) { return static_cast<int64_t>(random() % bound); };
  CostGraph graph;
  auto count = static_cast<size_t>(shape.strategies);
  // Per position: strategies where less memory costs more time.
  std::vector<std::vector<Strategy>> strategies(kLayerNodes);
  for (auto &list : strategies)
    for (size_t k = 0; k < count; ++k) {
      int64_t share = 1 + below(8);
      list.push_back({static_cast<double>(100 / share + 8 * share + below(20)),
                      below(2) ? 400 / share : 0, 800 / (9 - share)});
    }
  std::vector<int32_t> matrices;
  for (int m = 0; m < 2 * kLayerNodes; ++m) {
    std::vector<double> matrix;
    for (size_t a = 0; a < count; ++a)
      for (size_t b = 0; b < count; ++b)
        matrix.push_back(a % 4 == b % 4 ? 0 : static_cast<double>(5 + below(40)));
    matrices.push_back(graph.addMatrix(std::move(matrix)));
  }
  int64_t cheapest = 0;
  for (int32_t layer = 0; layer < shape.layers; ++layer)
    for (int32_t p = 0; p < kLayerNodes; ++p) {
      int64_t at = int64_t(layer) * kLayerNodes + p;
      graph.addNode({"l" + std::to_string(layer) + "." + std::to_string(p),
                     strategies[static_cast<size_t>(p)],
                     {{at, at + 2}}});
      graph.blocks.push_back({0, layer, p});
      auto best = std::min_element(strategies[static_cast<size_t>(p)].begin(),
                                   strategies[static_cast<size_t>(p)].end(),
                                   [](auto &a, auto &b) { return a.timeUs < b.timeUs; });
      cheapest += best->persistentBytes;
    }
  for (int32_t layer = 0; layer < shape.layers; ++layer) {
    int32_t first = layer * kLayerNodes;
    for (int32_t p = 0; p + 1 < kLayerNodes; ++p)
      graph.addEdge(first + p, first + p + 1, matrices[static_cast<size_t>(p)]);
    graph.addEdge(first, first + kLayerNodes - 2, matrices[kLayerNodes]); // residual
    if (layer + 1 < shape.layers)
      graph.addEdge(first + kLayerNodes - 1, first + kLayerNodes, matrices[kLayerNodes + 1]);
  }
  int64_t end = int64_t(shape.layers) * kLayerNodes;
  int32_t embedding = graph.addNode({"embedding", strategies[0], {{0, 1}}});
  int32_t head = graph.addNode({"head", strategies[1], {{end, end + 1}}});
  graph.blocks.resize(graph.nodes.size());
  graph.addEdge(embedding, 0, matrices[kLayerNodes + 2]);
  graph.addEdge(embedding - 1, head, matrices[kLayerNodes + 3]);
  if (shape.memoryShare > 0)
    graph.memoryLimitBytes =
        static_cast<int64_t>(shape.memoryShare * static_cast<double>(cheapest)) + 2000;
  return graph;
}

} // namespace autopar::testing
