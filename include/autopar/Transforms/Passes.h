// SPDX-License-Identifier: Apache-2.0
// Factories and registration of the transformation passes.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/ByteSums.h"
#include "autopar/Transforms/Target.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mlir::autopar {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "autopar/Transforms/Passes.h.inc"

} // namespace mlir::autopar
