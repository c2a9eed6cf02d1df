// SPDX-License-Identifier: Apache-2.0
// From the cost graph to the problem that the engines work on: forbidden strategies gone, nodes
// that follow another node merged into it, free nodes eliminated, memory reduced to the few time
// points that can matter. Every step is exact: the best choice there is the best choice here.
#pragma once

#include "MadeTables.h"
#include "ReducedProblem.h"

#include "autopar/Base/Status.h"

namespace autopar::planner {

/// A cost graph, reduced, and the way back.
class Reduction {
public:
  /// BadInput when some node has no legal strategy left (names it). `graph` must outlive this.
  static Result<Reduction> of(const CostGraph &graph);

  const ReducedProblem &problem() const { return reduced; }
  /// One strategy per node of the original graph.
  std::vector<int32_t> expand(const std::vector<int32_t> &choice) const;
  /// The reduced choice that expands to `choice`, as far as one exists (-1 where none does).
  std::vector<int32_t> shrink(const std::vector<int32_t> &choice) const;

private:
  friend class Reducer;

  /// A node that was minimised away. Later steps renumber strategies, so neighbours' strategies are
  /// kept in the original numbering.
  struct Elimination {
    int32_t node = 0;
    std::vector<int32_t> neighbours;             ///< 0, 1 or 2 original nodes
    std::vector<std::vector<int32_t>> originals; ///< their strategies then, originally numbered
    IndexList best;                              ///< [x0 * size1 + x1] own strategy
  };

  ReducedProblem reduced;
  size_t originalCount = 0;
  std::vector<Elimination> eliminations;        ///< in the order they were made
  std::vector<int32_t> follows;                 ///< per original node: whom, or itself
  std::vector<std::vector<int32_t>> toOriginal; ///< per original node: strategy per leader's
  std::vector<int32_t> indexOf;                 ///< per original node: reduced index or -1
};

} // namespace autopar::planner
