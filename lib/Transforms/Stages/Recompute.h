// SPDX-License-Identifier: Apache-2.0
// What the choice of recomputed operations and the pass that clones them must see alike.
#pragma once

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// The function attribute that names operations of the forward pass which the backward pass
/// computes again: `autopar.recompute = ["fc1", "fc1/reshard"]`.
constexpr StringLiteral kRecomputeAttribute = "autopar.recompute";

/// The function attribute that names operations of the forward pass whose results wait for the
/// backward pass in host memory: `autopar.offload_activations = ["fc1"]`.
constexpr StringLiteral kOffloadActivationsAttribute = "autopar.offload_activations";

/// Behind the id of an operation: its result, resharded.
constexpr StringLiteral kReshardSuffix = "/reshard";
/// Behind the id of a scaled product: the operations as which it is written.
constexpr StringLiteral kScaledInfix = "/scaled/";
/// The same in those that a grouped product is expanded to.
constexpr StringLiteral kGroupedInfix = "/grouped/";

/// Whether an operation, or a group, only says where elements of its first operand are: it is
/// computed again with what it looks at, at no cost.
bool isLookedThrough(Operation *op);

/// Whether the plan names the operation itself as one to compute again.
bool isComputedAgain(Operation *op);

/// Why an operation of the forward pass does not give the same again wherever it runs; empty if it
/// does.
StringRef whyNotRecomputed(Operation *op);
inline bool mayRecompute(Operation *op) { return whyNotRecomputed(op).empty(); }

} // namespace mlir::autopar
