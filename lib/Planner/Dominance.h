// SPDX-License-Identifier: Apache-2.0
// Which strategies of a node another strategy beats whatever the neighbours choose.
#pragma once

#include <cstdint>
#include <vector>

#include "MemoryReduction.h"

namespace autopar::planner {

/// Compares the strategies of one node; what it is given must outlive it.
class Dominance {
public:
  /// An edge of the node.
  struct Edge {
    const double *values; ///< row-major, rows = own strategies
    size_t columns;
    std::vector<int32_t> cheapest; ///< per row: column of its least entry; filled by Dominance
  };
  Dominance(const std::vector<double> &cost, const NodeMemory &memory, std::vector<Edge> sides);

  /// `winner` costs no more than `loser` and holds no more at any time, whatever the neighbours
  /// choose.
  bool holds(size_t winner, size_t loser) const {
    return optimistic[winner] <= optimistic[loser] && holdsForAll(winner, loser);
  }

private:
  bool holdsForAll(size_t winner, size_t loser) const;

  const std::vector<double> &cost;
  const NodeMemory &memory;
  std::vector<Edge> sides;
  std::vector<double> optimistic; ///< own cost plus the cheapest entry of each row
};

} // namespace autopar::planner
