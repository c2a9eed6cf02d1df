// SPDX-License-Identifier: Apache-2.0
// Makes a training step of a drawn module: the law holds for derivatives and updates too.
#pragma once

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>

namespace autopar_law {

/// Where states come from: they are inputs, steps hand them on, some of those that steps hand on
/// lie in host memory, or all of them have 16 bits.
enum class StateKind { Given, Kept, Offloaded, Narrow };

/// Adds to @main of a drawn module a loss (a weighted sum of its float results), the derivatives of
/// the loss by all float arguments and the update of each by an optimizer drawn from `seed`; loss,
/// parameters and states become results. False, and the module is of no more use, where an
/// operation in between has no gradient.
bool addTrainingStep(mlir::ModuleOp module, uint64_t seed, StateKind states = StateKind::Given);

} // namespace autopar_law
