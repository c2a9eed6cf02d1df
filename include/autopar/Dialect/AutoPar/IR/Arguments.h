// SPDX-License-Identifier: Apache-2.0
// What the arguments of a function are.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>
#include <string>

namespace mlir::autopar {

/// As the model has it, else by its place: `arg0`.
std::string nameOfArgument(BlockArgument argument);
/// Whether it has its values from the model.
bool isParameter(Value value);
/// Whether whoever runs the program gives it at each step: neither a parameter, nor state, nor
/// something the runtime sets.
bool isFed(BlockArgument argument);
/// The samples of a step: the first extent of the first fed argument that has one, before the batch
/// is split into micro-batches.
std::optional<int64_t> samplesOf(func::FuncOp function);

} // namespace mlir::autopar
