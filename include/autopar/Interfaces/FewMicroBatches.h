// SPDX-License-Identifier: Apache-2.0
// A step that was written out to be measured.
#pragma once

#include "mlir/Support/LLVM.h"

namespace mlir::autopar {

/// The module attribute of a step with fewer micro-batches than it is to have (autopar-schedule
/// few-micro-batches). It computes something else: no artifact is made of it.
constexpr StringLiteral kFewMicroBatchesAttribute = "autopar.few_micro_batches";

} // namespace mlir::autopar
