// SPDX-License-Identifier: Apache-2.0
// Which of the copies of a block, as a cost graph marks them, are truly equal.
#pragma once

#include "autopar/Planner/FoldBlocks.h"

#include <map>
#include <vector>

namespace autopar {

/// An edge as one copy of a block sees it; `what` says where its other end is.
struct BlockEdge {
  enum What : int32_t { Inside, Next, Previous, Outside } what = Inside;
  int32_t own = 0;   ///< position
  int32_t other = 0; ///< position, or outside node
  int32_t matrix = 0;
  bool rowsAreOwn = true;
  auto operator<=>(const BlockEdge &) const = default;
};

/// Everything that makes two copies equal.
struct Signature {
  std::vector<int32_t> strategies; ///< class of each node's strategy list
  std::vector<BlockEdge> edges;    ///< sorted
  auto operator<=>(const Signature &) const = default;
};

class BlockFinder {
public:
  explicit BlockFinder(const CostGraph &graph) : graph(graph) {}

  /// Per kind: the largest set of equal copies, in instance order, and their common signature.
  void run(int64_t leastCopies);

  std::vector<FoldedBlock> blocks;
  std::vector<Signature> signatures;           ///< per block
  std::vector<std::vector<int32_t>> instances; ///< per block: instance number of each copy
  /// Equal matrices share a class; the class names one of them.
  std::vector<int32_t> matrixClass;

private:
  struct Copy {
    std::vector<int32_t> nodes; ///< by position
    Signature signature;
    bool special = false; ///< a user constraint names one of its nodes
  };

  void collect();
  void addEdges();
  void addEdge(int32_t own, int32_t other, int32_t matrix, bool rowsAreOwn);

  const CostGraph &graph;
  std::map<std::pair<int32_t, int32_t>, Copy> copies; ///< by (kind, instance)
  std::vector<Copy *> copyOf;                         ///< by node; null in no block
};

} // namespace autopar
