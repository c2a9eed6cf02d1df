// SPDX-License-Identifier: Apache-2.0
// The phase of a training step that an operation stands in: forward, backward, update.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// Asked for the operations of a block in their order: what bears no mark is in the phase around
/// it.
class StepPhase {
public:
  StringRef of(Operation *next) {
    auto own = next->getAttrOfType<StringAttr>("autopar.phase");
    if (own && next->getNumOperands() > 0) // constants stand in front of all phases
      phase = own.getValue();
    return phase;
  }

private:
  StringRef phase = "forward";
};

} // namespace mlir::autopar
