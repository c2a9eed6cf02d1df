// SPDX-License-Identifier: Apache-2.0
// Factories and registration of the passes on programs.
#pragma once

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "mlir/Pass/Pass.h"

namespace mlir::exec {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"

} // namespace mlir::exec
