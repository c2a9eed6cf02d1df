// SPDX-License-Identifier: Apache-2.0
// What autopar-evaluate-step leaves in a module.
#pragma once

#include "llvm/ADT/StringRef.h"

namespace mlir::autopar {

/// Microseconds of a step.
constexpr llvm::StringLiteral kStepTimeAttribute = "autopar.step_us";
/// Of an operation: microseconds that its kernel takes, or a collective or message the queue that
/// it is on.
constexpr llvm::StringLiteral kOpTimeAttribute = "autopar.us";
/// Microseconds that each mesh of a pipeline works in the rows of a step.
constexpr llvm::StringLiteral kMeshTimesAttribute = "autopar.mesh_us";
/// The most that a mesh of them waits for collectives while none of its kernels runs.
constexpr llvm::StringLiteral kRowWaitsAttribute = "autopar.row_waits_us";

} // namespace mlir::autopar
