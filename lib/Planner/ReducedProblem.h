// SPDX-License-Identifier: Apache-2.0
// The cost graph as the engines work on it (Reduction.h makes it): nodes and edges with their
// costs, memory at the few time points that can matter.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "autopar/Planner/CostGraph.h"

#include "MemoryReduction.h"

namespace autopar::planner {

/// A dense matrix kept in both orientations, so that either end can stream through rows.
struct Matrix {
  int32_t rows = 0;
  int32_t columns = 0;
  std::vector<double> byRow;    ///< [row * columns + column]
  std::vector<double> byColumn; ///< [column * rows + row]
};
using MatrixRef = std::shared_ptr<const Matrix>;
/// From `values` by row, or by column.
MatrixRef makeMatrix(int32_t rows, int32_t columns, std::vector<double> values, bool byRow = true);

/// One end of an edge as its node sees it: `rows` = own strategies.
struct Arc {
  int32_t edge = 0;
  int32_t other = 0;
  bool forward = false; ///< this node is the edge's `a`
};

struct ReducedNode {
  int32_t original = 0; ///< the node that stands for the merged ones
  std::vector<double> cost;
  NodeMemory memory; ///< smallest bytes of each piece are 0
  std::vector<Arc> arcs;

  int32_t size() const { return static_cast<int32_t>(cost.size()); }
};

struct ReducedEdge {
  int32_t a = 0;
  int32_t b = 0; ///< a < b
  MatrixRef matrix;
};

/// The reduced problem: minimise `constant` + node costs + edge costs under room[t] per time point.
struct ReducedProblem {
  double constant = 0;
  std::vector<ReducedNode> nodes;
  std::vector<ReducedEdge> edges;
  /// What a forbidden pair costs here: more than any legal choice in total, yet small enough to
  /// add.
  double forbidden = kForbidden;
  std::vector<int64_t> room; ///< bytes left for the pieces at each kept time point; may be negative

  bool hasMemory() const { return !room.empty(); }
  /// Costs of own strategy `k` against all strategies of the other end.
  const double *row(const Arc &arc, int32_t k) const {
    const Matrix &matrix = *edges[static_cast<size_t>(arc.edge)].matrix;
    return arc.forward ? matrix.byRow.data() + static_cast<size_t>(k) * matrix.columns
                       : matrix.byColumn.data() + static_cast<size_t>(k) * matrix.rows;
  }
  /// Node and edge costs of a choice, with the constant.
  double costOf(const std::vector<int32_t> &choice) const;
  /// Number of matrix entries: the elementary steps of one sweep.
  int64_t sweepWork() const;
  /// Sums of 1e18 would swallow real costs: any number above the dearest legal choice does as well.
  void priceForbidden();
};

} // namespace autopar::planner
