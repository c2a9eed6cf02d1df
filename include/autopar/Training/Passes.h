// SPDX-License-Identifier: Apache-2.0
// Factories and registration of the training passes.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Pass/Pass.h"

namespace mlir::autopar {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "autopar/Training/Passes.h.inc"

} // namespace mlir::autopar
