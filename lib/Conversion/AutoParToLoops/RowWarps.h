// SPDX-License-Identifier: Apache-2.0
// How the warps of a GPU share rows along one dimension, for kernels with loops of their own: a
// warp has some rows alone, or all warps of a block share one.
#pragma once

#include "GpuThreads.h"
#include "RowAddress.h"

namespace mlir::autopar {

/// Which part of which row a thread works on.
struct RowMember {
  Value lane, warp; ///< of the warp; of those that share the row
  Value row;
  Value exists; ///< whether there is such a row, the same for all lanes of a warp; none: always
};

struct RowWarps {
  /// For rows of which a lane holds about `bytesPerLane` at once. None where rows are so many, and
  /// lie so in memory, that a thread per row does as well.
  static std::optional<RowWarps> choose(const RowAddress &address, Type element,
                                        int64_t bytesPerLane);

  GpuGrid grid() const {
    return {(rows + rowsPerBlock - 1) / rowsPerBlock, warps * rowsPerBlock * kWarpThreads};
  }
  /// Vectors of a row that its warps take together before they go on.
  int64_t vectorsPerRound() const { return warps * kWarpThreads * perRound; }
  int64_t rounds() const { return (vectors + vectorsPerRound() - 1) / vectorsPerRound(); }
  bool isExact() const { return vectors == vectorsPerRound() * rounds(); }

  RowMember locate(OpBuilder &builder, Location loc) const;
  /// The vector that `member` takes as the `number`th of its vectors in a round. Those of a warp
  /// are neighbours.
  Value vectorOf(OpBuilder &builder, Location loc, const RowMember &member, Value round,
                 int64_t number) const;

  int64_t rows = 1;
  int64_t width = 1;        ///< neighbouring elements that a lane takes at once: a vector
  int64_t vectors = 1;      ///< of a row
  int64_t perRound = 1;     ///< vectors that a lane takes before it goes on
  int64_t warps = 1;        ///< that share a row; a power of two
  int64_t rowsPerBlock = 1; ///< more than one only where a warp has its row alone
};

} // namespace mlir::autopar
