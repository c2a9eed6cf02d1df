// SPDX-License-Identifier: Apache-2.0
// The pass autopar-align-products: tensor cores are fed by accesses of 16 bytes, so products of
// matrices whose rows do not begin at multiples of them run on slow kernels, and of 8 bits on none.
// Dimensions that make rows of an odd size (a vocabulary of 50257) are padded with zeros.
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/Passes.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_ALIGNPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Elements of f16 and bf16 in 16 bytes, and of floats of 8 bits.
constexpr int64_t kUnit = 8, kByteUnit = 16;
/// Terms or columns from which on a product takes longer than copying one of its matrices.
constexpr int64_t leastReuse = 512;

/// A dimension of the product and where it stands in lhs, rhs and result; -1: nowhere.
struct Factor {
  int64_t places[3] = {-1, -1, -1};
  int64_t extent = 1;
};

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Every dimension but those of the batch.
SmallVector<Factor> factorsOf(DotGeneralOp op) {
  SmallVector<Factor> factors;
  RankedTensorType lhs = op.getLhs().getType(), rhs = op.getRhs().getType();
  int64_t next = op.getLhsBatch().size();
  for (int64_t dim : op.getLhsFree())
    factors.push_back({{dim, -1, next++}, lhs.getDimSize(dim)});
  for (int64_t dim : op.getRhsFree())
    factors.push_back({{-1, dim, next++}, rhs.getDimSize(dim)});
  for (auto [left, right] : llvm::zip(op.getLhsContract(), op.getRhsContract()))
    factors.push_back({{left, right, -1}, lhs.getDimSize(left)});
  return factors;
}

/// How often each element of `matrix` (0 lhs, 1 rhs, 2 result) is used: the dimensions it lacks.
int64_t reuseOf(ArrayRef<Factor> factors, int matrix) {
  int64_t reuse = 1;
  for (const Factor &factor : factors)
    if (factor.places[matrix] < 0)
      reuse *= factor.extent;
  return reuse;
}

struct AlignProductsPass : mlir::autopar::impl::AlignProductsPassBase<AlignProductsPass> {
  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) { products.push_back(op); });
    for (DotGeneralOp op : products)
      align(op);
  }

private:
  void align(DotGeneralOp op) {
    Type element = op.getLhs().getType().getElementType();
    bool isOfBytes = isa<Float8E4M3FNType>(element);
    if ((!element.isBF16() && !element.isF16() && !isOfBytes) ||
        op.getRhs().getType().getElementType() != element)
      return;
    SmallVector<Factor> factors = factorsOf(op);
    Value matrices[3] = {op.getLhs(), op.getRhs(), op.getResult()};
    SmallVector<int64_t> shapes[3];
    for (int i = 0; i < 3; ++i)
      shapes[i] = llvm::to_vector(typeOf(matrices[i]).getShape());
    bool changes = false;
    int64_t unit = isOfBytes ? kByteUnit : kUnit;
    for (const Factor &factor : factors) {
      if (factor.extent % unit == 0 ||
          !makesOddRows(factor, factors, matrices, isOfBytes ? 0 : leastReuse))
        continue;
      changes = true;
      for (int i = 0; i < 3; ++i)
        if (factor.places[i] >= 0)
          shapes[i][factor.places[i]] = llvm::alignTo(factor.extent, unit);
    }
    if (changes)
      rewrite(op, shapes);
  }

  /// Whether a matrix has rows along the factor, and padding it pays for both that have it, whose
  /// elements are used `least` times or more.
  static bool makesOddRows(const Factor &factor, ArrayRef<Factor> factors, const Value *matrices,
                           int64_t least) {
    bool isInner = false;
    for (int i = 0; i < 3; ++i) {
      if (factor.places[i] < 0)
        continue;
      if (reuseOf(factors, i) < least)
        return false;
      // Rows of a transposed operand lie along another dimension.
      isInner |= factor.places[i] + 1 == typeOf(matrices[i]).getRank() &&
                 !matrices[i].getDefiningOp<TransposeOp>();
    }
    return isInner;
  }

  void rewrite(DotGeneralOp op, const SmallVector<int64_t> *shapes) {
    OpBuilder builder(op);
    auto named = [&](Operation *made, const Twine &suffix) { return madeFrom(op, made, suffix); };
    for (int i = 0; i < 2; ++i) {
      Value operand = op->getOperand(i);
      RankedTensorType type = typeOf(operand), padded = type.clone(shapes[i]);
      if (padded == type)
        continue;
      // Products that read one value padded alike share it.
      Value &known = paddedValues[{operand, padded}];
      if (!known) {
        OpBuilder::InsertionGuard guard(builder);
        builder.setInsertionPointAfterValue(operand);
        auto scalar = RankedTensorType::get({}, type.getElementType());
        Value zero = named(ConstantOp::create(builder, op.getLoc(),
                                              cast<ElementsAttr>(builder.getZeroAttr(scalar))),
                           "/zero." + Twine(i));
        known = named(PadOp::create(builder, op.getLoc(), padded, operand, zero,
                                    SmallVector<int64_t>(type.getRank(), 0)),
                      "/padded." + Twine(i));
      }
      op->setOperand(i, known);
    }
    RankedTensorType type = op.getType(), padded = type.clone(shapes[2]);
    if (padded == type)
      return;
    op.getResult().setType(padded);
    builder.setInsertionPointAfter(op);
    SmallVector<int64_t> starts(type.getRank(), 0), steps(type.getRank(), 1);
    Value slice = named(SliceOp::create(builder, op.getLoc(), type, op.getResult(), starts, steps),
                        "/unpadded");
    op.getResult().replaceAllUsesExcept(slice, slice.getDefiningOp());
  }

  DenseMap<std::pair<Value, Type>, Value> paddedValues;
};

} // namespace
