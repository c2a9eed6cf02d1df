// SPDX-License-Identifier: Apache-2.0
// What the arguments of a function are.
#pragma once

#include "mlir/IR/Value.h"

#include <string>

namespace mlir::autopar {

/// As the model has it, else by its place: `arg0`.
std::string nameOfArgument(BlockArgument argument);
/// Whether it has its values from the model.
bool isParameter(Value value);
/// Whether whoever runs the program gives it at each step: neither a parameter, nor state, nor
/// something the runtime sets.
bool isFed(BlockArgument argument);

} // namespace mlir::autopar
