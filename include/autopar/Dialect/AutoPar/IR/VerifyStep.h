// SPDX-License-Identifier: Apache-2.0
// What search, time and lowering take for granted of a function that is to become a program.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Error where an argument or result is no static tensor, a value has elements that programs have
/// no name for, or the next value of a donated argument is of another type than the argument. The
/// function has one block.
LogicalResult verifyStep(func::FuncOp function);

/// The same of a step on whole tensors: every operation gives some, for which a plan can say
/// something.
LogicalResult verifyWholeStep(func::FuncOp function);

} // namespace mlir::autopar
