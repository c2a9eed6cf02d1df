// SPDX-License-Identifier: Apache-2.0
// What an operation on whole or local shapes costs on a device.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::autopar {

int64_t bytesOf(RankedTensorType type);

/// Microseconds, by the cost model, of an operation with operands and results of these types. A
/// light one is a pass over its result within another operation's kernel.
double opTimeUs(Operation *op, ArrayRef<RankedTensorType> operands,
                ArrayRef<RankedTensorType> results, const ::autopar::DeviceType &device);

} // namespace mlir::autopar
