// SPDX-License-Identifier: Apache-2.0
// What the lanes of a warp do with one item each: bitonic networks of shuffles.
#pragma once

#include "GpuThreads.h"
#include "RankedItems.h"

namespace mlir::autopar {

class WarpSort {
public:
  WarpSort(const RankedRows &rows, OpBuilder &builder, Value lane);

  /// Sorts the items of each `lanes` neighbouring lanes, a power of two.
  RankedItem sort(OpBuilder &builder, RankedItem item, int64_t lanes, bool isBestFirst) const;
  /// The 32 best of two warps of items, best first: one sorted best first, one worst first.
  RankedItem merge(OpBuilder &builder, const RankedItem &bestFirst,
                   const RankedItem &worstFirst) const;

private:
  /// Keeps the better or the worse of the own item and that of another lane.
  RankedItem exchange(OpBuilder &builder, const RankedItem &item, int64_t mask,
                      Value keepsWorse) const;

  const RankedRows &rows;
  SmallVector<Value> bits; ///< of the lane's number
};

} // namespace mlir::autopar
