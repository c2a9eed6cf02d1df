// SPDX-License-Identifier: Apache-2.0
// Algebra of operand maps: simplification of index arithmetic with knowledge of ranges. Addresses
// of fused operations are compositions of reshapes, slices and transpositions; in most groups they
// collapse to a sum of loop variables with constant strides, and then loops merge and vectorize.
#pragma once

#include "mlir/IR/AffineExpr.h"
#include "mlir/IR/AffineMap.h"
#include "llvm/ADT/SmallVector.h"

namespace mlir::autopar {

/// Extent of an atom whose range is not known.
constexpr int64_t unknownExtent = -1;

/// constant + sum of coefficient * term. A term is a dimension, or a division or remainder that
/// could not be resolved. Terms are sorted and distinct, so that equal expressions have equal
/// forms.
struct LinearForm {
  int64_t constant = 0;
  SmallVector<std::pair<AffineExpr, int64_t>, 4> terms;

  /// Coefficient of dimension `position`; 0 where it does not appear on its own.
  int64_t coefficientOf(unsigned position) const;
  /// Whether dimension `position` occurs inside a term that is not the bare dimension.
  bool isNonlinearIn(unsigned position) const;
  AffineExpr toExpr(MLIRContext *context) const;
};

/// Brings an expression into linear form, given that dimension i lies in [0, extents[i]);
/// dimensions without an entry or with unknownExtent are unbounded. Indices are never negative.
LinearForm linearize(AffineExpr expr, ArrayRef<int64_t> extents);
/// The same, as an expression.
AffineExpr simplifyIndex(AffineExpr expr, ArrayRef<int64_t> extents);

/// Row-major position of `indices` in a tensor of `shape`.
AffineExpr flatten(ArrayRef<AffineExpr> indices, ArrayRef<int64_t> shape, MLIRContext *context);
/// The map from an index of `to` to the index of `from` with the same row-major position.
/// Dimensions of equal extent at equal strides are passed through.
AffineMap reshapeMap(ArrayRef<int64_t> from, ArrayRef<int64_t> to, MLIRContext *context);
/// Applies a map to index expressions.
SmallVector<AffineExpr> applyMap(AffineMap map, ArrayRef<AffineExpr> indices);

/// Whether both indices name the same row-major position, given the extents of the dimensions.
bool isSamePosition(ArrayRef<AffineExpr> a, ArrayRef<int64_t> shapeA, ArrayRef<AffineExpr> b,
                    ArrayRef<int64_t> shapeB, ArrayRef<int64_t> extents);

} // namespace mlir::autopar
