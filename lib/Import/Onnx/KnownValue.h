// SPDX-License-Identifier: Apache-2.0
// What is known at compile time of a value that is being imported.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

#include <functional>
#include <optional>

namespace mlir::autopar {

/// The tensor of a value that is no constant, where there is one (a parameter).
using LookUpValue = std::function<std::optional<DenseElementsAttr>(Value)>;

/// The value of a constant, of what `lookUp` (which may be empty) knows and, with `evaluates`, of
/// what a few operations make of these.
std::optional<DenseElementsAttr> knownValue(Value value, const LookUpValue &lookUp, bool evaluates);

/// The elements as integers; nothing if they are of another type.
std::optional<SmallVector<int64_t>> integersIn(DenseElementsAttr values);
std::optional<SmallVector<double>> floatsIn(DenseElementsAttr values);

} // namespace mlir::autopar
