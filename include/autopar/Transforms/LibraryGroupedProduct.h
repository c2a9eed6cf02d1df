// SPDX-License-Identifier: Apache-2.0
// Which grouped products a target's library, or a kernel of tiles, computes.
#pragma once

#include "autopar/Transforms/Target.h"
#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// Whether `op` is a grouped_dot, or its gradient by the matrices, that the library of `target`
/// computes: on CPUs of f32, bf16 or f16 (once products of f16 are widened), nothing empty.
bool isLibraryGroupedProduct(Operation *op, Target target);
/// Whether `op` is one that kernels of `target` compute in tiles (GroupedDotTilesOp): on GPUs of
/// f16 or bf16, operands and results in rows of a multiple of 8 elements.
bool isTiledGroupedProduct(Operation *op, Target target);

/// Whether only a grouped product reads the result of `op`, as it is or as views show it, which is
/// made of at most five eighths of its bytes: on CPUs it never stands in memory as a whole, as the
/// call has it made part by part.
bool isMadeInParts(Operation *op);

} // namespace mlir::autopar
