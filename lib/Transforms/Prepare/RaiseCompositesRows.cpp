// SPDX-License-Identifier: Apache-2.0
// Patterns of autopar-raise-composites that recognize computations along rows: layer and RMS
// normalization, softmax and its logarithm.
#include "CompositeMatching.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

//===-- normalization ------------------------------------------------------------------------===//

/// x - mean(x) over `dims`.
struct Centered {
  Value x;
  SmallVector<int64_t> dims;
};

/// The mean may have other users (a running statistic), so it is not noted.
std::optional<Centered> readCentered(Value value) {
  BinaryOp sub = asBinary(value, BinaryKind::Sub);
  if (!sub)
    return std::nullopt;
  MatchedOps mean;
  Centered result;
  result.x = RowView(sub.getRhs(), mean).meanInput(result.dims);
  if (!result.x || result.x != sub.getLhs())
    return std::nullopt;
  return result;
}

/// What a normalization divides by, sqrt(mean(y^2) + epsilon).
struct Deviation {
  Value y;
  SmallVector<int64_t> dims;
  double epsilon = 0;
};

/// Reads the deviation, or (`inverted`) its reciprocal.
std::optional<Deviation> readDeviation(Value value, bool inverted, MatchedOps &matched) {
  RowView view(value, matched);
  if (inverted) {
    if (UnaryOp op = asUnary(view.get(), UnaryKind::Rsqrt)) {
      view.descend(op.getInput());
      inverted = false;
    } else if (UnaryOp op = asUnary(view.get(), UnaryKind::Reciprocal)) {
      view.descend(op.getInput());
    } else {
      return std::nullopt;
    }
    if (inverted) {
      UnaryOp root = asUnary(view.get(), UnaryKind::Sqrt);
      if (!root)
        return std::nullopt;
      view.descend(root.getInput());
    }
  } else {
    UnaryOp root = asUnary(view.get(), UnaryKind::Sqrt);
    if (!root)
      return std::nullopt;
    view.descend(root.getInput());
  }
  Deviation result;
  if (auto sum = withNumber(view.get(), BinaryKind::Add)) {
    result.epsilon = sum->second;
    view.descend(sum->first);
  }
  Value square = view.meanInput(result.dims);
  BinaryOp product = square ? asBinary(square, BinaryKind::Mul) : BinaryOp();
  if (!product || product.getLhs() != product.getRhs())
    return std::nullopt;
  matched.insert(square);
  result.y = product.getLhs();
  return result;
}

bool areTrailing(ArrayRef<int64_t> dims, int64_t rank) {
  return llvm::equal(dims, llvm::seq<int64_t>(rank - static_cast<int64_t>(dims.size()), rank));
}

/// `raise` of a quotient, or of a product with an inverted divisor on either side.
LogicalResult
raiseQuotient(BinaryOp root,
              function_ref<LogicalResult(Value over, Value divisor, bool inverted)> raise) {
  Value lhs = root.getLhs(), rhs = root.getRhs();
  if (root.getKind() == BinaryKind::Div)
    return raise(lhs, rhs, false);
  if (root.getKind() != BinaryKind::Mul)
    return failure();
  return success(succeeded(raise(lhs, rhs, true)) || succeeded(raise(rhs, lhs, true)));
}

/// (x - mean) / sqrt(variance + epsilon): Ba et al., "Layer Normalization" (2016); without mean
/// Zhang and Sennrich, "Root Mean Square Layer Normalization" (2019).
struct RaiseNormalize : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    if (!isa<FloatType>(root.getType().getElementType()))
      return failure();
    return raiseQuotient(root, [&](Value over, Value divisor, bool inverted) {
      return raise(root, over, divisor, inverted, rewriter);
    });
  }

private:
  static LogicalResult raise(BinaryOp root, Value y, Value divisor, bool inverted,
                             PatternRewriter &rewriter) {
    MatchedOps matched;
    std::optional<Deviation> deviation = readDeviation(divisor, inverted, matched);
    if (!deviation || !areTrailing(deviation->dims, root.getType().getRank()))
      return failure();
    std::optional<Centered> centered = readCentered(y);
    if (centered && centered->dims == deviation->dims) {
      std::optional<Centered> squared = y == deviation->y ? centered : readCentered(deviation->y);
      MatchedOps withMean = matched;
      withMean.insert(y);
      withMean.insert(deviation->y);
      if (squared && squared->x == centered->x && squared->dims == centered->dims &&
          withMean.areDeadWithout(root)) {
        replace(root, centered->x, *deviation, false, rewriter);
        return success();
      }
    }
    if (y != deviation->y || !matched.areDeadWithout(root))
      return failure();
    replace(root, y, *deviation, true, rewriter);
    return success();
  }

  static void replace(BinaryOp root, Value x, const Deviation &deviation, bool rms,
                      PatternRewriter &rewriter) {
    replaceKeepingId<NormalizeOp>(rewriter, root, root.getType(), x, deviation.dims,
                                  APFloat(deviation.epsilon), rms);
  }
};

/// Normalization in f32 between casts from and to half precision: the operation computes so anyway.
template <typename OpTy>
struct NarrowNormalize : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(CastOp root, PatternRewriter &rewriter) const override {
    auto normalize = root.getInput().getDefiningOp<OpTy>();
    if (!normalize || !normalize->hasOneUse() || !normalize.getType().getElementType().isF32())
      return failure();
    auto widen = normalize.getInput().template getDefiningOp<CastOp>();
    if (!widen || widen.getInput().getType() != root.getType() ||
        !isa<Float16Type, BFloat16Type>(root.getType().getElementType()))
      return failure();
    auto op = OpTy::create(rewriter, normalize.getLoc(), root.getType(), widen.getInput(),
                           normalize.getDims(), normalize.getEpsilon(), normalize.getRms());
    standFor(op, normalize, getOpId(normalize));
    rewriter.replaceOp(root, op);
    return success();
  }
};

//===-- softmax ------------------------------------------------------------------------------===//

/// x of x - max(x) along `dim`, or `value` itself where nothing is subtracted.
Value readShifted(Value value, int64_t dim, MatchedOps &matched) {
  BinaryOp sub = asBinary(value, BinaryKind::Sub);
  if (!sub)
    return value;
  MatchedOps inner = matched;
  SmallVector<int64_t> dims;
  Value x = RowView(sub.getRhs(), inner).reducedInput(ReduceKind::Max, dims);
  if (!x || x != sub.getLhs() || dims != ArrayRef<int64_t>(dim))
    return value;
  inner.insert(value);
  matched = inner;
  return x;
}

/// Replaces what ends in `root` by the softmax along `dim` of what is exponentiated.
LogicalResult replaceBySoftmax(PatternRewriter &rewriter, BinaryOp root, Value exponent,
                               int64_t dim, bool log, MatchedOps &matched) {
  Value x = readShifted(exponent, dim, matched);
  if (!matched.areDeadWithout(root))
    return failure();
  replaceKeepingId<SoftmaxOp>(rewriter, root, root.getType(), x, dim, log);
  return success();
}

/// exp(x - max) / sum, also as a product with the reciprocal.
struct RaiseSoftmax : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    return raiseQuotient(root, [&](Value over, Value divisor, bool inverted) {
      return raise(root, over, divisor, inverted, rewriter);
    });
  }

private:
  static LogicalResult raise(BinaryOp root, Value weights, Value divisor, bool inverted,
                             PatternRewriter &rewriter) {
    UnaryOp exp = asUnary(weights, UnaryKind::Exp);
    if (!exp)
      return failure();
    MatchedOps matched;
    RowView view(divisor, matched);
    if (inverted) {
      UnaryOp reciprocal = asUnary(view.get(), UnaryKind::Reciprocal);
      if (!reciprocal)
        return failure();
      view.descend(reciprocal.getInput());
    }
    SmallVector<int64_t> dims;
    if (view.reducedInput(ReduceKind::Sum, dims) != weights || dims.size() != 1)
      return failure();
    matched.insert(weights);
    return replaceBySoftmax(rewriter, root, exp.getInput(), dims[0], false, matched);
  }
};

/// shifted - log(sum(exp(shifted))).
struct RaiseLogSoftmax : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    if (root.getKind() != BinaryKind::Sub)
      return failure();
    MatchedOps matched;
    RowView view(root.getRhs(), matched);
    UnaryOp log = asUnary(view.get(), UnaryKind::Log);
    if (!log)
      return failure();
    view.descend(log.getInput());
    SmallVector<int64_t> dims;
    Value sum = view.reducedInput(ReduceKind::Sum, dims);
    UnaryOp exp = sum ? asUnary(sum, UnaryKind::Exp) : UnaryOp();
    if (!exp || dims.size() != 1 || exp.getInput() != root.getLhs())
      return failure();
    matched.insert(sum);
    return replaceBySoftmax(rewriter, root, root.getLhs(), dims[0], true, matched);
  }
};

/// log(softmax(x)).
struct MergeLogSoftmax : OpRewritePattern<UnaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(UnaryOp root, PatternRewriter &rewriter) const override {
    auto softmax = root.getInput().getDefiningOp<SoftmaxOp>();
    if (root.getKind() != UnaryKind::Log || !softmax || softmax.getLog() || !softmax->hasOneUse())
      return failure();
    replaceKeepingId<SoftmaxOp>(rewriter, root, root.getType(), softmax.getInput(),
                                softmax.getDim(), true);
    return success();
  }
};

} // namespace

void mlir::autopar::populateRowPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseNormalize, NarrowNormalize<NormalizeOp>, NarrowNormalize<NormalizeAgainOp>,
               RaiseSoftmax, RaiseLogSoftmax, MergeLogSoftmax>(patterns.getContext());
}
