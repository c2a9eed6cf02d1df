// SPDX-License-Identifier: Apache-2.0
// Which state lies in host memory, as a plan says it.
#pragma once

#include "autopar/Plan/Plan.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Puts the state that `plan` names into host memory and leaves all other on the devices, whatever
/// was said before. An error where it names what is no state of `function`.
LogicalResult offloadAsPlanned(func::FuncOp function, const ::autopar::Plan &plan);

} // namespace mlir::autopar
