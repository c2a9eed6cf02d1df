// SPDX-License-Identifier: Apache-2.0
// Building and recognising the slice of a rank's own shard.
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

Value mlir::autopar::i64Scalar(OpBuilder &builder, Location loc, int64_t value) {
  auto type = RankedTensorType::get({}, builder.getI64Type());
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, value));
}

static bool isConstant(Value value, int64_t expected) {
  DenseIntElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.getNumElements() == 1 &&
         (*elements.begin()).getSExtValue() == expected;
}

std::optional<OwnShard> mlir::autopar::matchOwnShard(DynamicSliceOp slice) {
  auto whole = slice.getInput().getType(), part = slice.getType();
  std::optional<OwnShard> found;
  for (auto [dim, start] : llvm::enumerate(slice.getStarts())) {
    if (whole.getDimSize(dim) == part.getDimSize(dim) && isConstant(start, 0))
      continue;
    auto product = start.getDefiningOp<BinaryOp>();
    auto index = product ? product.getLhs().getDefiningOp<ShardIndexOp>() : ShardIndexOp();
    if (found || !index || index.getNumbers() || product.getKind() != BinaryKind::Mul ||
        !isConstant(product.getRhs(), part.getDimSize(dim)))
      return std::nullopt;
    found = OwnShard{static_cast<int64_t>(dim), index};
  }
  return found;
}

Value mlir::autopar::buildOwnShard(OpBuilder &builder, Location loc, Value input, int64_t dim,
                                   int64_t extent, FlatSymbolRefAttr mesh, ArrayAttr axes) {
  auto type = cast<RankedTensorType>(input.getType());
  auto scalar = RankedTensorType::get({}, builder.getI64Type());
  Value index = ShardIndexOp::create(builder, loc, scalar, mesh, axes);
  SmallVector<Value> starts(type.getRank(), i64Scalar(builder, loc, 0));
  starts[dim] =
      BinaryOp::create(builder, loc, BinaryKind::Mul, index, i64Scalar(builder, loc, extent));
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = extent;
  return DynamicSliceOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()),
                                input, starts);
}
