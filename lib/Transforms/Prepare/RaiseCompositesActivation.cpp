// SPDX-License-Identifier: Apache-2.0
// Patterns of autopar-raise-composites that recognize activations: gelu in both forms, silu,
// sigmoid.
#include "CompositeMatching.h"

#include "mlir/IR/TypeUtilities.h"
#include <array>
#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Coefficients of 1, x, x^2, x^3.
using Cubic = std::array<double, 4>;

/// Reads `expression` as a polynomial in `x`; nothing for anything else or of higher degree.
class CubicReader {
public:
  CubicReader(Value x, MatchedOps &matched) : x(x), matched(matched) {}

  std::optional<Cubic> read(Value expression, int depth = 8) {
    if (expression == x)
      return Cubic{0, 1, 0, 0};
    if (std::optional<double> number = splatValue(expression))
      return Cubic{*number, 0, 0, 0};
    auto op = expression.getDefiningOp<BinaryOp>();
    if (!op || depth == 0 || ++steps > 16)
      return std::nullopt;
    matched.insert(expression);
    std::optional<Cubic> lhs = read(op.getLhs(), depth - 1), rhs;
    if (lhs)
      rhs = read(op.getRhs(), depth - 1);
    return rhs ? combine(op.getKind(), *lhs, *rhs) : std::nullopt;
  }

private:
  static bool isNumber(const Cubic &p) { return p[1] == 0 && p[2] == 0 && p[3] == 0; }

  static std::optional<Cubic> product(const Cubic &a, const Cubic &b) {
    Cubic result{};
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j) {
        if (double term = a[i] * b[j]; i + j < 4)
          result[i + j] += term;
        else if (term != 0)
          return std::nullopt;
      }
    return result;
  }

  static std::optional<Cubic> combine(BinaryKind kind, Cubic a, const Cubic &b) {
    switch (kind) {
    case BinaryKind::Add:
    case BinaryKind::Sub:
      for (int i = 0; i < 4; ++i)
        a[i] += kind == BinaryKind::Add ? b[i] : -b[i];
      return a;
    case BinaryKind::Mul:
      return product(a, b);
    case BinaryKind::Div:
      if (!isNumber(b) || b[0] == 0)
        return std::nullopt;
      for (double &coefficient : a)
        coefficient /= b[0];
      return a;
    case BinaryKind::Pow: {
      if (!isNumber(b) || (b[0] != 1 && b[0] != 2 && b[0] != 3))
        return std::nullopt;
      std::optional<Cubic> power = a;
      for (int i = 1; power && i < b[0]; ++i)
        power = product(*power, a);
      return power;
    }
    default:
      return std::nullopt;
    }
  }

  Value x;
  MatchedOps &matched;
  int steps = 0;
};

/// A product taken apart: one number and the other factors.
struct Product {
  double number = 1;
  SmallVector<Value> factors;

  /// Follows products with one user, and divisions by numbers; false when there are too many
  /// factors.
  bool collect(Value value, MatchedOps &matched, bool isRoot = true) {
    if (factors.size() > 2)
      return false;
    if (std::optional<double> splat = splatValue(value)) {
      number *= *splat;
      return true;
    }
    if (isRoot || value.hasOneUse()) {
      if (auto quotient = withNumber(value, BinaryKind::Div)) {
        matched.insert(value);
        number /= quotient->second;
        return collect(quotient->first, matched, false);
      }
      if (BinaryOp op = asBinary(value, BinaryKind::Mul)) {
        matched.insert(value);
        return collect(op.getLhs(), matched, false) && collect(op.getRhs(), matched, false);
      }
    }
    factors.push_back(value);
    return true;
  }
};

/// What opens and closes a gelu: number * (1 + kind(inner)).
struct Gate {
  UnaryKind kind;
  Value inner;
  double number;
};

std::optional<Gate> readGate(Value value, MatchedOps &matched) {
  auto sum = withNumber(value, BinaryKind::Add);
  if (!sum)
    return std::nullopt;
  matched.insert(value);
  Value curve = sum->first;
  double scale = 1;
  if (auto product = withNumber(curve, BinaryKind::Mul)) {
    matched.insert(curve);
    curve = product->first;
    scale = product->second;
  }
  auto unary = curve.getDefiningOp<UnaryOp>();
  if (!unary || (unary.getKind() != UnaryKind::Erf && unary.getKind() != UnaryKind::Tanh) ||
      !isAbout(scale, sum->second, getElementTypeOrSelf(value.getType())))
    return std::nullopt;
  matched.insert(curve);
  return Gate{unary.getKind(), unary.getInput(), scale};
}

/// 0.5 x (1 + erf(x / sqrt(2))), or with tanh(sqrt(2 / pi) (x + 0.044715 x^3)): Hendrycks and
/// Gimpel, "Gaussian Error Linear Units" (2016). In whichever order the product is written.
struct RaiseGelu : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    if (root.getKind() != BinaryKind::Mul && root.getKind() != BinaryKind::Div)
      return failure();
    MatchedOps taken;
    Product product;
    if (!product.collect(root, taken) || product.factors.size() != 2)
      return failure();
    for (int i = 0; i < 2; ++i) {
      MatchedOps matched = taken;
      Value x = product.factors[i];
      std::optional<Gate> gate = readGate(product.factors[1 - i], matched);
      Type element = root.getType().getElementType();
      if (!gate || !isAbout(product.number * gate->number, 0.5, element))
        continue;
      std::optional<Cubic> inner = CubicReader(x, matched).read(gate->inner);
      bool isErf = gate->kind == UnaryKind::Erf;
      if (!inner || !isGeluArgument(*inner, isErf, element) || !matched.areDeadWithout(root))
        continue;
      replaceKeepingId<UnaryOp>(rewriter, root, x.getType(),
                                isErf ? UnaryKind::Gelu : UnaryKind::GeluTanh, x);
      return success();
    }
    return failure();
  }

private:
  static bool isGeluArgument(const Cubic &inner, bool isErf, Type element) {
    double slope = isErf ? std::sqrt(0.5) : std::sqrt(2 / M_PI);
    return inner[0] == 0 && inner[2] == 0 && isAbout(inner[1], slope, element) &&
           isAbout(inner[3], isErf ? 0 : slope * 0.044715, element);
  }
};

/// x * sigmoid(x).
struct RaiseSilu : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    if (root.getKind() != BinaryKind::Mul)
      return failure();
    for (auto [gate, x] : {std::pair(root.getRhs(), root.getLhs()), {root.getLhs(), root.getRhs()}})
      if (UnaryOp sigmoid = asUnary(gate, UnaryKind::Sigmoid);
          sigmoid && sigmoid.getInput() == x && gate.hasOneUse()) {
        replaceKeepingId<UnaryOp>(rewriter, root, x.getType(), UnaryKind::Silu, x);
        return success();
      }
    return failure();
  }
};

/// 1 / (1 + exp(-x)).
struct RaiseSigmoid : OpRewritePattern<UnaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(UnaryOp root, PatternRewriter &rewriter) const override {
    if (root.getKind() != UnaryKind::Reciprocal)
      return failure();
    auto sum = withNumber(root.getInput(), BinaryKind::Add);
    UnaryOp exp = sum && sum->second == 1 ? asUnary(sum->first, UnaryKind::Exp) : UnaryOp();
    UnaryOp neg = exp ? asUnary(exp.getInput(), UnaryKind::Neg) : UnaryOp();
    if (!neg || !root.getInput().hasOneUse() || !exp->hasOneUse())
      return failure();
    replaceKeepingId<UnaryOp>(rewriter, root, root.getType(), UnaryKind::Sigmoid, neg.getInput());
    return success();
  }
};

} // namespace

void mlir::autopar::populateActivationPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGelu, RaiseSilu, RaiseSigmoid>(patterns.getContext());
}
