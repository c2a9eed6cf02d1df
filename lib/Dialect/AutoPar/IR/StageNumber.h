// SPDX-License-Identifier: Apache-2.0
// What may be the number of a stage: tables of stages have that many rows, wherever it was read.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"

namespace mlir::autopar {

constexpr int64_t kLastStage = 65535;

inline bool isStageNumber(Attribute value) {
  auto number = dyn_cast<IntegerAttr>(value);
  return number && number.getType().isInteger(64) && number.getInt() >= 0 &&
         number.getInt() <= kLastStage;
}

} // namespace mlir::autopar
