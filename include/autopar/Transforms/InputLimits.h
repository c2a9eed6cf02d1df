// SPDX-License-Identifier: Apache-2.0
// What an input of integers may hold: positions in a table, labels of classes.
#pragma once

#include "mlir/IR/Value.h"

#include <optional>

namespace mlir::autopar {

/// Where `value` is an input of the function, as it is or cast, reshaped, transposed or repeated:
/// writes down that the input holds [least, most], besides `exception`, together with what was
/// known before
/// (`autopar.limits`, `autopar.exception`).
void limitInput(Value value, int64_t least, int64_t most,
                std::optional<int64_t> exception = std::nullopt);

} // namespace mlir::autopar
