// SPDX-License-Identifier: Apache-2.0
// The spellings: see the header.
#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

Value FormulaBuilder::splat(RankedTensorType type, double number) {
  Type element = type.getElementType();
  Attribute value = isa<FloatType>(element)
                        ? Attribute(builder.getFloatAttr(element, number))
                        : Attribute(builder.getIntegerAttr(element, static_cast<int64_t>(number)));
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, value));
}

Value FormulaBuilder::unary(UnaryKind kind, Value x) {
  return UnaryOp::create(builder, loc, x.getType(), kind, x);
}
Value FormulaBuilder::binary(BinaryKind kind, Value a, Value b) {
  return BinaryOp::create(builder, loc, a.getType(), kind, a, b);
}
Value FormulaBuilder::compare(ComparePredicate predicate, Value a, Value b) {
  return CompareOp::create(builder, loc, typeOf(a).clone(builder.getI1Type()), predicate, a, b);
}
Value FormulaBuilder::select(Value condition, Value onTrue, Value onFalse) {
  return SelectOp::create(builder, loc, condition, onTrue, onFalse);
}
Value FormulaBuilder::where(Value condition, Value x) {
  return select(condition, x, splatLike(x, 0));
}
Value FormulaBuilder::cast(Value x, Type element) {
  if (typeOf(x).getElementType() == element)
    return x;
  return CastOp::create(builder, loc, typeOf(x).clone(element), x);
}

//===-- Shapes -------------------------------------------------------------------------------===//

Value FormulaBuilder::sum(Value x, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  return ReduceOp::create(builder, loc, ReduceKind::Sum, x, dims);
}

Value FormulaBuilder::unreduce(Value x, RankedTensorType type, ArrayRef<int64_t> dims) {
  if (dims.empty())
    return x;
  SmallVector<int64_t> kept;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (!llvm::is_contained(dims, dim))
      kept.push_back(dim);
  return BroadcastOp::create(builder, loc, type.clone(typeOf(x).getElementType()), x, kept);
}

Value FormulaBuilder::mean(Value x, ArrayRef<int64_t> dims) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(typeOf(x).getDimSize(dim));
  return scale(sum(x, dims), 1 / count);
}

Value FormulaBuilder::reshape(Value x, ArrayRef<int64_t> shape) {
  if (typeOf(x).getShape() == shape)
    return x;
  return ReshapeOp::create(builder, loc, typeOf(x).clone(shape), x);
}

Value FormulaBuilder::transpose(Value x, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return x;
  return TransposeOp::create(builder, loc, x, permutation);
}

Value FormulaBuilder::slice(Value x, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps,
                            ArrayRef<int64_t> shape) {
  bool whole = typeOf(x).getShape() == shape &&
               llvm::all_of(starts, [](int64_t s) { return !s; }) &&
               llvm::all_of(steps, [](int64_t s) { return s == 1; });
  return whole ? x : Value(SliceOp::create(builder, loc, typeOf(x).clone(shape), x, starts, steps));
}

Value FormulaBuilder::pad(Value x, ArrayRef<int64_t> low, ArrayRef<int64_t> shape) {
  if (typeOf(x).getShape() == shape)
    return x;
  Value zero = splat(typeOf(x).clone(ArrayRef<int64_t>{}), 0);
  return PadOp::create(builder, loc, typeOf(x).clone(shape), x, zero, low);
}

Value FormulaBuilder::reverse(Value x, ArrayRef<int64_t> dims) {
  ArrayRef<int64_t> shape = typeOf(x).getShape();
  SmallVector<int64_t> starts(shape.size(), 0), steps(shape.size(), 1);
  for (int64_t dim : dims)
    if (shape[dim] > 1) {
      starts[dim] = shape[dim] - 1;
      steps[dim] = -1;
    }
  return slice(x, starts, steps, shape);
}

// [.., n, ..] -> [.., n, 1, ..] -> [.., n, step, ..] -> [.., n * step, ..], and the zeros after the
// last element go.
Value FormulaBuilder::spread(Value x, ArrayRef<int64_t> steps) {
  if (llvm::all_of(steps, [](int64_t step) { return step == 1; }))
    return x;
  SmallVector<int64_t> shape(typeOf(x).getShape()), apart, padded, joined, kept;
  for (auto [extent, step] : llvm::zip_equal(shape, steps)) {
    apart.append({extent, 1});
    padded.append({extent, step});
    joined.push_back(extent * step);
    kept.push_back(extent ? (extent - 1) * step + 1 : 0);
  }
  x = pad(reshape(x, apart), SmallVector<int64_t>(apart.size(), 0), padded);
  SmallVector<int64_t> zeros(shape.size(), 0), ones(shape.size(), 1);
  return slice(reshape(x, joined), zeros, ones, kept);
}

Value FormulaBuilder::clampPositions(Value indices, Value extents) {
  Value zero = splatLike(indices, 0);
  Value isNegative = compare(ComparePredicate::Lt, indices, zero);
  Value positions = select(isNegative, add(indices, extents), indices);
  positions = binary(BinaryKind::Max, positions, zero);
  return binary(BinaryKind::Min, positions, shift(extents, -1));
}

SmallVector<int64_t> mlir::autopar::inverted(ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> inverse(permutation.size());
  for (auto [to, from] : llvm::enumerate(permutation))
    inverse[from] = to;
  return inverse;
}
