// SPDX-License-Identifier: Apache-2.0
// The marks of autopar-reduce-few-rows.
#pragma once

#include "mlir/IR/Operation.h"

namespace mlir::autopar {

/// On a sum of products for few rows: its kernel makes what the rows share once for all of them,
/// however much that costs, and has its name.
constexpr llvm::StringLiteral kFewRows = "autopar.few_rows";

/// On a sum of products for rows of which one, or a few, meet a matrix of their own: its kernel has
/// its name, and reads the matrix once for all of them.
constexpr llvm::StringLiteral kRowsOfBatch = "autopar.rows_of_batch";

/// Whether a sum has one of these marks: GPUs, and names of kernels, treat them alike.
inline bool meetsFewRows(Operation *sum) {
  return sum->hasAttr(kFewRows) || sum->hasAttr(kRowsOfBatch);
}

/// On a transposition: it is computed rather than looked through, so that whoever reads it reads
/// what lies side by side.
constexpr llvm::StringLiteral kLaidOut = "autopar.laid_out";
inline bool isLaidOut(Value value) {
  return value.getDefiningOp() && value.getDefiningOp()->hasAttr(kLaidOut);
}

} // namespace mlir::autopar
