// SPDX-License-Identifier: Apache-2.0
// The question that a search engine answers: nodes with strategies, costs between neighbours'
// strategies, and a memory limit over live intervals. Plain structs, so that the planner knows
// nothing of the IR that the question came from.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"

namespace autopar {

/// A cost that forbids a choice or a pair of choices. Everything from kForbiddenFrom up counts.
inline constexpr double kForbidden = 1e18;
inline constexpr double kForbiddenFrom = 1e17;
inline bool isForbidden(double cost) { return cost >= kForbiddenFrom; }

/// One way to run a node.
struct Strategy {
  double timeUs = 0;           ///< >= 0; kForbidden = never
  int64_t liveBytes = 0;       ///< held while the node is live
  int64_t persistentBytes = 0; ///< held always (parameters, optimizer state)
  auto operator<=>(const Strategy &) const = default;
};

/// Half-open: [begin, end) in the schedule's time points. Empty intervals hold nothing.
struct LiveInterval {
  int64_t begin = 0;
  int64_t end = 0;
  bool operator==(const LiveInterval &) const = default;
};

/// One decision. Intervals of a node must not overlap each other.
struct CostNode {
  std::string id;
  std::vector<Strategy> strategies; ///< at least one
  std::vector<LiveInterval> live;
};

/// Cost between the choices of two nodes; parallel edges add up. `matrix` is an index into
/// CostGraph::matrices, row-major over (strategy of a, strategy of b), microseconds.
struct CostEdge {
  int32_t a = 0;
  int32_t b = 0;
  int32_t matrix = 0;
};

/// Which copy of which repeated block a node belongs to. Two nodes with the same kind and position
/// are the same decision in two copies (layers); annotation is a hint, equality is checked.
struct BlockPlace {
  int32_t kind = -1; ///< -1: in no block
  int32_t instance = 0;
  int32_t position = 0;
  bool operator==(const BlockPlace &) const = default;
};

struct CostGraph {
  std::vector<CostNode> nodes;
  std::vector<CostEdge> edges;
  /// Shared by edges: copies of a layer need no copies of its matrices.
  std::vector<std::vector<double>> matrices;
  /// No point in time may hold more; <= 0: no limit.
  int64_t memoryLimitBytes = 0;
  /// Held at every time by nothing that is decided here.
  int64_t constantBytes = 0;
  /// Empty, or one per node.
  std::vector<BlockPlace> blocks;

  int32_t addNode(CostNode node);
  int32_t addMatrix(std::vector<double> matrix);
  /// Adds matrix and edge.
  void addEdge(int32_t a, int32_t b, std::vector<double> matrix);
  void addEdge(int32_t a, int32_t b, int32_t matrix) { edges.push_back({a, b, matrix}); }

  /// Sizes, ranges, negative or non-finite numbers; names the node or edge.
  Status verify() const;
};

/// What a choice of one strategy per node costs; the only judge of solutions.
struct Evaluation {
  double timeUs = 0;     ///< sum of node and edge costs
  int64_t peakBytes = 0; ///< most memory held at any time, constantBytes included
  int64_t peakAt = 0;    ///< the first time point of that peak
  bool legal = true;     ///< no forbidden or missing choice
  bool fits = true;      ///< peakBytes within the limit
  std::string whyNot;    ///< the first reason, where not legal
};

/// No choice holds less than this at its peak.
int64_t fewestBytes(const CostGraph &graph);

/// `choice` holds one strategy index per node.
Evaluation evaluate(const CostGraph &graph, std::span<const int32_t> choice);

} // namespace autopar
