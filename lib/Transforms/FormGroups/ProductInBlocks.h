// SPDX-License-Identifier: Apache-2.0
// A product whose left side is rounded to 8 bits in blocks (autopar-round-in-blocks), and how it is
// written: for few rows as a kernel's sums of products of bytes (MultiplyBlocksOfFewRows.cpp), for
// many by the kernel for tiles (MultiplyBlocksInTiles.cpp).
#pragma once

#include "Stages/MadeFrom.h"
#include "autopar/Transforms/ByteSums.h"

namespace mlir::autopar {

/// A left side [rows, blocks, block] as whole numbers.
struct RoundedRows {
  Value bytes;  ///< i8 [rows, parts, blocks, block / parts]: first that of each byte's first number
  Value scales; ///< f32 [rows, blocks]
  Value sums;   ///< of bytes, f32 [rows, blocks]
  Value floats; ///< what bytes and scales stand for, as the product reads it; null before
};

/// Weights [columns, blocks, block] as whole numbers that few bytes are made of.
struct WeightsInBlocks {
  Value numbers; ///< of 8 bits without a sign, [columns, blocks, block / parts, parts]
  Value zeros;   ///< f32 [columns, blocks], or one for all; null: none
  Value scales;  ///< f32 [columns, blocks], or one for all
  int64_t parts() const {
    return mlir::cast<RankedTensorType>(numbers.getType()).getShape().back();
  }
};

class ProductInBlocks {
public:
  ProductInBlocks(DotGeneralOp product, ByteDots dots)
      : product(product), dots(dots), builder(product), loc(product.getLoc()),
        block(*product.getByteBlocks()) {}

  int64_t rows() { return typeOf(product.getLhs()).getNumElements() / (blocks() * block); }
  int64_t columns() {
    int64_t columns = 1;
    for (int64_t dim : product.getRhsFree())
      columns *= typeOf(product.getRhs()).getDimSize(dim);
    return columns;
  }
  int64_t blocks() {
    return typeOf(product.getLhs()).getDimSize(product.getLhsContract().front()) / block;
  }

  std::optional<WeightsInBlocks> weights();
  RoundedRows round(int64_t parts);
  /// The left side of rounded numbers, as the product reads it.
  Value roundedLhs(const RoundedRows &rounded);
  void multiplyBytes(const RoundedRows &lhs, const WeightsInBlocks &rhs);
  /// The bytes that hold the weights, as the kernel for many rows takes them; null if there is
  /// none.
  Value bytesOf(const WeightsInBlocks &weights);
  /// The same by that kernel.
  void multiplyInTiles(const RoundedRows &lhs, const WeightsInBlocks &rhs, Value bytes);

private:
  static RankedTensorType typeOf(Value value) {
    return mlir::cast<RankedTensorType>(value.getType());
  }
  Value made(Operation *op, const Twine &suffix) { return madeFrom(product, op, suffix); }
  Value binary(BinaryKind kind, Value a, Value b, const Twine &suffix) {
    return made(BinaryOp::create(builder, loc, kind, a, b), suffix);
  }
  Value unary(UnaryKind kind, Value value, const Twine &suffix) {
    return made(UnaryOp::create(builder, loc, kind, value), suffix);
  }
  Value cast(Value value, Type element, const Twine &suffix) {
    return made(CastOp::create(builder, loc, typeOf(value).clone(element), value), suffix);
  }
  Value reshaped(Value value, ArrayRef<int64_t> shape, const Twine &suffix) {
    if (typeOf(value).getShape() == shape)
      return value;
    return made(ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value), suffix);
  }
  Value transposed(Value value, ArrayRef<int64_t> order, const Twine &suffix) {
    if (llvm::is_sorted(order))
      return value;
    return made(TransposeOp::create(builder, loc, value, order), suffix);
  }
  Value repeated(Value value, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims,
                 const Twine &suffix) {
    return made(BroadcastOp::create(builder, loc, typeOf(value).clone(shape), value, dims), suffix);
  }
  Value reduced(ReduceKind kind, Value value, ArrayRef<int64_t> dims, const Twine &suffix) {
    SmallVector<int64_t> kept;
    for (auto [dim, extent] : llvm::enumerate(typeOf(value).getShape()))
      if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
        kept.push_back(extent);
    return made(ReduceOp::create(builder, loc, typeOf(value).clone(kept), kind, value, dims),
                suffix);
  }
  Value number(float number, Value like, const Twine &suffix) {
    return made(
        ConstantOp::create(builder, loc,
                           DenseElementsAttr::get(typeOf(like), builder.getF32FloatAttr(number))),
        suffix);
  }
  Value whole(int64_t number, Value like, const Twine &suffix) {
    Type element = typeOf(like).getElementType();
    return made(ConstantOp::create(
                    builder, loc,
                    DenseElementsAttr::get(typeOf(like), builder.getIntegerAttr(element, number))),
                suffix);
  }
  SmallVector<int64_t> lhsOrder() {
    SmallVector<int64_t> order(product.getLhsBatch());
    llvm::append_range(order, product.getLhsFree());
    order.push_back(product.getLhsContract().front());
    return order;
  }
  Value perBlock(Value value, ArrayRef<int64_t> shape);
  Value byteSums(Value bytes, Value numbers, const Twine &suffix);
  Value inLanes(Value perBlock, const Twine &suffix);
  Value zerosInLanes(const WeightsInBlocks &weights);
  void replaceProduct(Value result);

  DotGeneralOp product;
  ByteDots dots;
  OpBuilder builder;
  Location loc;
  int64_t block;
};

} // namespace mlir::autopar
