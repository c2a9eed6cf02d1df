// SPDX-License-Identifier: Apache-2.0
// Live intervals, reduced to the time points at which the limit can be broken at all. What every
// strategy of a node holds is taken off the room once; only differences between strategies stay.
#pragma once

#include <cstdint>
#include <vector>

#include "autopar/Planner/CostGraph.h"

namespace autopar::planner {

/// Time points [begin, end) of the reduced problem.
struct Piece {
  int32_t begin = 0;
  int32_t end = 0;
};

/// What a node holds: bytes[piece * strategies + strategy].
struct NodeMemory {
  std::vector<Piece> pieces;
  std::vector<int64_t> bytes;
};

struct MemoryReduction {
  std::vector<NodeMemory> nodes;
  std::vector<int64_t> room; ///< per kept time point; empty where no limit can bind
};

/// Pieces for all nodes of a verified graph.
MemoryReduction reduceMemory(const CostGraph &graph);

/// Joins equal pieces, takes each piece's smallest bytes off the room, drops pieces that are then
/// the same for all `strategies`.
void normaliseMemory(NodeMemory &memory, size_t strategies, std::vector<int64_t> &room);

/// Drops time points that no choice can overfill and those whose live pieces are all live at a
/// neighbouring point with no more room; renumbers the pieces. `strategies[i]` belongs to
/// `nodes[i]`.
void dropSlackTimes(const std::vector<NodeMemory *> &nodes, const std::vector<size_t> &strategies,
                    std::vector<int64_t> &room);

} // namespace autopar::planner
