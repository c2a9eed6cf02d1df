// SPDX-License-Identifier: Apache-2.0
// Arguments that a training step adds to the signature of a model.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Adds an argument named `name` at the end of the signature, with more attributes where given.
BlockArgument addArgument(func::FuncOp function, RankedTensorType type, const Twine &name,
                          ArrayRef<NamedAttribute> attributes = {});
/// The same for many arguments at once.
ArrayRef<BlockArgument> addArguments(func::FuncOp function, TypeRange types,
                                     ArrayRef<std::string> names,
                                     ArrayRef<NamedAttribute> attributes = {});

} // namespace mlir::autopar
