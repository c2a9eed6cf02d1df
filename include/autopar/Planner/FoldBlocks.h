// SPDX-License-Identifier: Apache-2.0
// Identical blocks (layers) solved once: the copies of a block become single nodes whose strategies
// are a Pareto set of block solutions (time, memory, boundary), and the search over them chooses
// how many copies take each. A thousand layers cost little more than ten.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "autopar/Planner/CostGraph.h"
#include "autopar/Planner/SearchEngine.h"

namespace autopar {

/// One solution of a whole block.
struct BlockOption {
  std::vector<int32_t> choice; ///< per node of the block, by position
  double timeUs = 0;           ///< nodes and edges inside the block
  int64_t persistentBytes = 0;
  int64_t liveBytes = 0; ///< sum over the block's nodes
};

/// All equal copies of one kind of block.
struct FoldedBlock {
  int32_t kind = 0;
  std::vector<std::vector<int32_t>> copies; ///< per folded copy: its nodes by position
  std::vector<BlockOption> options;         ///< no option is beaten in time and memory by another
};

/// A small graph for a large one.
struct FoldedGraph {
  CostGraph graph;
  std::vector<FoldedBlock> blocks;
  std::vector<int32_t> keptNodes; ///< original nodes that are the first nodes of `graph`
  int64_t workUnits = 0;

  /// One strategy per original node.
  std::vector<int32_t> expand(const std::vector<int32_t> &choice) const;

  /// Per block and copy, the node of `graph` that stands for it.
  std::vector<std::vector<int32_t>> copyNodes;
};

/// Folds copies that are annotated and truly equal (strategies, inner edges, edges to the next copy
/// and to outside nodes); the others stay as they are. What does not depend on the memory limit is
/// found once.
class BlockFolder {
public:
  /// `graph`, which verifies, `engine`, which solves one block under a row of memory prices, and
  /// `options` outlive it.
  BlockFolder(const CostGraph &graph, const SearchEngine &engine, const SearchOptions &options,
              int64_t leastCopies = 4);
  ~BlockFolder();

  /// `memoryLimitBytes` stands for the graph's own. Nothing when no kind has as many equal copies
  /// as asked for, or when all copies together are less than half of the graph.
  std::optional<FoldedGraph> fold(int64_t memoryLimitBytes);
  /// No legal choice of the original graph costs less (memory not counted), where something was
  /// folded.
  double lowerBoundUs() const;

private:
  class Impl;
  std::unique_ptr<Impl> impl;
};

} // namespace autopar
