// SPDX-License-Identifier: Apache-2.0
// Running combinations on a GPU.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Emits the body of a kernel; returns its blocks and threads, or nothing where a thread per row
/// does as well.
SmallVector<int64_t> emitGpuScan(OpBuilder &builder, CumulativeOp op, Value input, Value output);

} // namespace mlir::autopar
