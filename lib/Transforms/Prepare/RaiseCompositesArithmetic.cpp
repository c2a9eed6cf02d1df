// SPDX-License-Identifier: Apache-2.0
// Patterns of autopar-raise-composites on single arithmetic operations: powers by small numbers,
// exact divisions, neutral operands, casts that cancel.
#include "CompositeMatching.h"

#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// x^1, x^2, x^3, x^0.5, x^-1, x^-0.5.
struct SimplifyPower : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    std::optional<double> exponent;
    if (root.getKind() != BinaryKind::Pow || !(exponent = splatValue(root.getRhs())))
      return failure();
    Value x = root.getLhs();
    if (*exponent == 1) {
      rewriter.replaceOp(root, x);
      return success();
    }
    if (*exponent == 2) {
      replaceKeepingId<BinaryOp>(rewriter, root, x.getType(), BinaryKind::Mul, x, x);
      return success();
    }
    if (*exponent == 3) {
      auto square = BinaryOp::create(rewriter, root.getLoc(), x.getType(), BinaryKind::Mul, x, x);
      nameAfter(square, root, "square");
      replaceKeepingId<BinaryOp>(rewriter, root, x.getType(), BinaryKind::Mul, square, x);
      return success();
    }
    if (!isa<FloatType>(root.getType().getElementType()))
      return failure();
    for (auto [number, kind] :
         {std::pair(0.5, UnaryKind::Sqrt), {-1.0, UnaryKind::Reciprocal}, {-0.5, UnaryKind::Rsqrt}})
      if (*exponent == number) {
        replaceKeepingId<UnaryOp>(rewriter, root, x.getType(), kind, x);
        return success();
      }
    return failure();
  }
};

/// x / 2^k becomes a product, 1 / x a reciprocal.
struct SimplifyDivision : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    auto element = dyn_cast<FloatType>(root.getType().getElementType());
    if (root.getKind() != BinaryKind::Div || !element)
      return failure();
    if (splatValue(root.getLhs()) == 1.0) {
      replaceKeepingId<UnaryOp>(rewriter, root, root.getType(), UnaryKind::Reciprocal,
                                root.getRhs());
      return success();
    }
    std::optional<double> divisor = splatValue(root.getRhs());
    if (!divisor)
      return failure();
    APFloat number(*divisor), inverse(0.0);
    bool lossy;
    number.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    if (lossy || !number.getExactInverse(&inverse))
      return failure();
    auto scalar = RankedTensorType::get({}, element);
    Value constant =
        ConstantOp::create(rewriter, root.getLoc(), DenseElementsAttr::get(scalar, inverse));
    if (root.getType().getRank() != 0) {
      auto broadcast = BroadcastOp::create(rewriter, root.getLoc(), root.getType(), constant,
                                           ArrayRef<int64_t>());
      nameAfter(broadcast, root, "inverse");
      constant = broadcast;
    }
    replaceKeepingId<BinaryOp>(rewriter, root, root.getType(), BinaryKind::Mul, root.getLhs(),
                               constant);
    return success();
  }
};

/// x * 1, x / 1, x + 0, x - 0.
struct DropNeutralOperand : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    for (auto [kind, neutral] : {std::pair(BinaryKind::Mul, 1.0),
                                 {BinaryKind::Div, 1.0},
                                 {BinaryKind::Add, 0.0},
                                 {BinaryKind::Sub, 0.0}}) {
      auto match = withNumber(root, kind);
      if (match && match->second == neutral && !root.getType().getElementType().isInteger(1)) {
        rewriter.replaceOp(root, match->first);
        return success();
      }
    }
    return failure();
  }
};

/// Whether every value of `from` is one of `to`.
bool isLossless(Type from, Type to) {
  if (auto narrow = dyn_cast<FloatType>(from)) {
    auto wide = dyn_cast<FloatType>(to);
    return wide && narrow.getFPMantissaWidth() <= wide.getFPMantissaWidth() &&
           APFloat::semanticsMaxExponent(narrow.getFloatSemantics()) <=
               APFloat::semanticsMaxExponent(wide.getFloatSemantics());
  }
  auto narrow = dyn_cast<IntegerType>(from);
  auto wide = dyn_cast<IntegerType>(to);
  if (narrow && narrow.getWidth() == 1)
    return true; // 0 and 1 are numbers of every type.
  return narrow && wide && narrow.isUnsigned() == wide.isUnsigned() &&
         narrow.getWidth() <= wide.getWidth();
}

/// A cast of a cast that loses nothing. One that saturates keeps an infinity from being merged.
struct MergeCasts : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp root, PatternRewriter &rewriter) const override {
    auto inner = root.getInput().getDefiningOp<CastOp>();
    bool saturates = isByteFloat(root.getType().getElementType()) && !root.getOverflows();
    if (!inner || saturates ||
        !isLossless(inner.getInput().getType().getElementType(), inner.getType().getElementType()))
      return failure();
    if (inner.getInput().getType() == root.getType())
      rewriter.replaceOp(root, inner.getInput());
    else
      rewriter.modifyOpInPlace(root, [&] { root.setOperand(inner.getInput()); });
    return success();
  }
};

} // namespace

void mlir::autopar::populateArithmeticPatterns(RewritePatternSet &patterns) {
  patterns.add<SimplifyPower, SimplifyDivision, DropNeutralOperand, MergeCasts>(
      patterns.getContext());
}
