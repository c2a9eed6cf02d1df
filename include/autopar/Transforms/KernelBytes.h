// SPDX-License-Identifier: Apache-2.0
// What a kernel reads and writes: the bytes that costs count and instructions carry.
#pragma once

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// Bytes of operand `index` that an operation with operands and results of these types, or a group
/// (whose types they are), reads: the rows that are picked of a table.
int64_t touchedBytes(Operation *groupOrOp, unsigned index, ArrayRef<RankedTensorType> operands,
                     ArrayRef<RankedTensorType> results);

/// Bytes that it reads and writes. What is changed in some places is copied, unless it is done
/// `inPlace`.
int64_t kernelBytes(Operation *groupOrOp, ArrayRef<RankedTensorType> operands,
                    ArrayRef<RankedTensorType> results, bool inPlace);
/// On the types that it has, in place as lowering will have it.
int64_t kernelBytes(Operation *groupOrOp);

/// Whether a kernel that changes its first operand does so in place, as lowering will have it.
bool changesInPlace(Operation *groupOrOp);

} // namespace mlir::autopar
