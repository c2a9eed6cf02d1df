// SPDX-License-Identifier: Apache-2.0
// Which kernels store a result over an operand: lowering does it, and costs count what it saves.
#pragma once

#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

namespace mlir::autopar {

/// Whether a kernel may store result `output` where operand `input` lies: both are of one type, and
/// every element of the operand is read only where the element at its own position is computed, or
/// the operation changes the operand in some places.
bool mayStoreOver(Operation *groupOrOp, unsigned input, unsigned output);

/// Whether the first result is the first operand, changed in some places.
bool changesFirstOperand(Operation *groupOrOp);

/// The operand over which a kernel of the function's block stores a result, because nothing reads
/// the operand later and the result is its next value, or the kernel changes it in some places; -1
/// if there is none. In a step that may turn out not to count, and may be evaluated alone, the next
/// value waits elsewhere where others read what the kernel makes besides. `isKept`: of an operand
/// that an operation made, whether later steps read it too.
int64_t operandToReplace(Operation *groupOrOp, unsigned result, function_ref<bool(Value)> isKept);

/// The donated argument in whose place a kernel of the function's block stores a result that is its
/// next value, without reading it: everything that does comes before. Null if there is none.
/// `donors`: of the function's results.
BlockArgument placeOfNextValue(Operation *groupOrOp, unsigned result,
                               ArrayRef<BlockArgument> donors);

} // namespace mlir::autopar
