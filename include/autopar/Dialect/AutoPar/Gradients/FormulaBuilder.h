// SPDX-License-Identifier: Apache-2.0
// Short spellings for formulas (gradients, losses, optimizers): operations of the dialect at one
// location, on tensors.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

class FormulaBuilder {
public:
  FormulaBuilder(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}
  FormulaBuilder(OpBuilder &builder, Operation *op) : builder(builder), loc(op->getLoc()) {}

  OpBuilder &builder;
  Location loc;

  static RankedTensorType typeOf(Value value) {
    return llvm::cast<RankedTensorType>(value.getType());
  }

  /// A tensor of `type` that holds `number` everywhere.
  Value splat(RankedTensorType type, double number);
  Value splatLike(Value value, double number) { return splat(typeOf(value), number); }
  Value zeros(RankedTensorType type) { return splat(type, 0); }

  Value unary(UnaryKind kind, Value x);
  Value binary(BinaryKind kind, Value a, Value b);
  Value add(Value a, Value b) { return binary(BinaryKind::Add, a, b); }
  Value sub(Value a, Value b) { return binary(BinaryKind::Sub, a, b); }
  Value mul(Value a, Value b) { return binary(BinaryKind::Mul, a, b); }
  Value div(Value a, Value b) { return binary(BinaryKind::Div, a, b); }
  Value scale(Value a, double number) { return mul(a, splatLike(a, number)); }
  Value shift(Value a, double number) { return add(a, splatLike(a, number)); }
  Value square(Value a) { return mul(a, a); }
  Value compare(ComparePredicate predicate, Value a, Value b);
  Value select(Value condition, Value onTrue, Value onFalse);
  /// `x` where the condition holds, else 0.
  Value where(Value condition, Value x);
  Value cast(Value x, Type element);

  Value sum(Value x, ArrayRef<int64_t> dims);
  /// Puts back dimensions that a reduction of a `type` over `dims` took away.
  Value unreduce(Value x, RankedTensorType type, ArrayRef<int64_t> dims);
  Value mean(Value x, ArrayRef<int64_t> dims);
  Value reshape(Value x, ArrayRef<int64_t> shape);
  /// Nothing is made for the identity.
  Value transpose(Value x, ArrayRef<int64_t> permutation);
  Value slice(Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps, ArrayRef<int64_t> shape);
  /// Zeros before (`low`) and after, up to `shape`.
  Value pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> shape);
  /// Reverses the order along dimensions.
  Value reverse(Value x, ArrayRef<int64_t> dims);
  /// Puts `steps[i]` - 1 zeros between neighbours along every dimension.
  Value spread(Value x, ArrayRef<int64_t> steps);
  /// Positions along a dimension of extent `extent` as gather reads them: from the end if negative,
  /// at the nearest end if outside.
  Value clampPositions(Value indices, Value extents);
};

/// The inverse of a permutation.
SmallVector<int64_t> inverted(ArrayRef<int64_t> permutation);

} // namespace mlir::autopar
