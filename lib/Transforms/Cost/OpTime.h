// SPDX-License-Identifier: Apache-2.0
// What an operation on whole or local shapes costs on a device.
#pragma once

#include "KernelTraffic.h"

#include "autopar/Cost/Cluster.h"
#include "autopar/Interfaces/CostInterface.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::autopar {

/// Bytes of result `index` of an operation with results of these types, as measured or by type.
int64_t bytesOf(Operation *op, unsigned index, ArrayRef<RankedTensorType> results);

/// What the FLOPs of an operation are to the cost model.
::autopar::Work workOf(CostOpInterface op);

/// Microseconds, by the cost model, of an operation with operands and results of these types, of
/// which `traffic` passes through memory. A light one is part of another operation's kernel; one
/// that a product takes (autopar.in_product), what that reads for it. Of a measured operation
/// what was measured: infinite where nobody did, or, if it may be scaled, a guess from other sizes.
double opTimeUs(Operation *op, ArrayRef<RankedTensorType> operands,
                ArrayRef<RankedTensorType> results, const KernelTraffic &traffic,
                const ::autopar::DeviceType &device, bool mayScale = false);
/// Of an operation on the tensors that it has; what nobody measured is guessed from other sizes.
double wholeTimeUs(Operation *op, const ::autopar::DeviceType &device);

} // namespace mlir::autopar
