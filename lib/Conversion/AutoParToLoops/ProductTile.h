// SPDX-License-Identifier: Apache-2.0
// A tile of a matrix product on a GPU's tensor cores.
#pragma once

#include "GpuThreads.h"

namespace mlir::autopar {

constexpr int64_t kProductTile = 128;    ///< rows and columns of a tile
constexpr int64_t kProductTerms = 32;    ///< terms of its sums that one step adds
constexpr int64_t kProductThreads = 128; ///< of the block that computes it
constexpr int64_t kLinesOfThread = 4;    ///< of each side that a thread copies in a step

/// Eight neighbouring elements of an operand: where the first stands in its flat memref, and
/// whether they exist (i1). Others are zero.
struct TileVector {
  Value element, exists;
};

/// A side of the product, f16 or bf16: lines of neighbouring elements in memory.
struct TileSide {
  Value memref;
  /// Whether a line runs along the terms of the sums, one for each row (column) of the tile; else
  /// it runs along these, one for each term of a step.
  bool alongTerms = false;
  /// The vector at `position` of `line` of step `step`, a line that is the thread's `nth`.
  std::function<TileVector(OpBuilder &, Value step, int64_t nth, Value line, Value position)> at;
};

/// The thread's `nth` line of each step.
Value emitLineOfThread(OpBuilder &builder, Location loc, bool alongTerms, int64_t nth);

/// A row of the tile's sums, as one thread has them: two neighbours (f32) at each of `columns`.
struct TileRow {
  Value row;
  SmallVector<Value> columns;
  SmallVector<std::pair<Value, Value>> sums;
};

/// Emits the product of two sides of a tile, of `steps` times kProductTerms terms, for a block of
/// kProductThreads; `store` is called for each row that the thread has.
void emitProductTile(OpBuilder &builder, Location loc, const TileSide &lhs, const TileSide &rhs,
                     Value steps, function_ref<void(OpBuilder &, const TileRow &)> store);

/// Bytes of dynamic shared memory that emitProductTile takes.
int64_t sharedBytesOfProductTile(const TileSide &lhs, const TileSide &rhs);

} // namespace mlir::autopar
