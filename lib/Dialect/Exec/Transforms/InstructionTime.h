// SPDX-License-Identifier: Apache-2.0
// How long instructions take, for passes that order and place them by it.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::exec {

/// As the cost model has it; 0 where nobody asked it.
inline double microseconds(Operation *op) {
  auto us = op->getAttrOfType<FloatAttr>("us");
  return us ? us.getValueAsDouble() : 0;
}

} // namespace mlir::exec
