// SPDX-License-Identifier: Apache-2.0
// What lowering computes once, before the first step, and what planning may know of that.
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// Whether a value is a parameter on the device that keeps its values.
bool isFixedParameter(Value value);

/// Whether an operation or group runs once if all that it reads is known at load: it is no
/// collective, no library call and nothing random, and its results, which stay in memory for good,
/// are not much larger than what they are made of.
bool mayRunAtLoad(Operation *groupOrOp);

/// The last of it: whether tensors of the types `made` may stay in memory besides those `from`
/// which they are made.
bool mayBeMadeAtLoad(TypeRange from, TypeRange made);

} // namespace mlir::autopar
