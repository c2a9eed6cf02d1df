// SPDX-License-Identifier: Apache-2.0
// The best elements of rows on a GPU.
#pragma once

#include "GpuThreads.h"
#include "RankedItems.h"

namespace mlir::autopar {

/// Emits the body of a kernel; none where a thread per row does as well.
std::optional<GpuGrid> emitGpuTopK(OpBuilder &builder, const RankedRows &rows);
/// The body that keeps the row's best in shared memory, for more results than a warp has lanes.
GpuGrid emitGpuBlockSort(OpBuilder &builder, const RankedRows &rows);

} // namespace mlir::autopar
