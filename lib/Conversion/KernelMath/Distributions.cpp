// SPDX-License-Identifier: Apache-2.0
// (1 + tanh u) / 2 and (1 + erf u) / 2 in f32 on NVIDIA's GPUs, which gelu and its gradient are
// made of: s = 1 / (1 + 2^-l) with two instructions, which needs no clamps, and is exact to the
// last bits where s is small, where 1 + tanh u cancels. Coefficients: weighted least squares fit of
// our own.
#include "Formulas.h"

#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;

namespace autopar::kernelmath {
namespace {

constexpr double log2e = 1.4426950408889634;

std::optional<double> constantOf(Value value) {
  APFloat constant(0.0);
  if (!matchPattern(value, m_ConstantFloat(&constant)))
    return std::nullopt;
  bool lost = false;
  constant.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  return constant.convertToDouble();
}

/// An operation of a value and a constant.
struct WithConstant {
  Value value;
  double constant;
};
template <class Op>
std::optional<WithConstant> withConstant(Value value) {
  auto op = value.getDefiningOp<Op>();
  if (!op)
    return std::nullopt;
  if (std::optional<double> constant = constantOf(op.getRhs()))
    return WithConstant{op.getLhs(), *constant};
  if (std::optional<double> constant = constantOf(op.getLhs()))
    return WithConstant{op.getRhs(), *constant};
  return std::nullopt;
}
template <class Op>
bool isWith(Value value, Value operand, double constant) {
  std::optional<WithConstant> found = withConstant<Op>(value);
  return found && found->value == operand && found->constant == constant;
}

/// k u, with k in the constants of u = c x (a y + b) where it has that form.
Expr scaled(Expr u, double k) {
  ImplicitLocOpBuilder &builder = u.getBuilder();
  if (auto product = withConstant<arith::MulFOp>(u.value()))
    return scaled({builder, product->value}, k * product->constant);
  if (auto product = u.value().getDefiningOp<arith::MulFOp>())
    for (auto [x, bend] : {std::pair(product.getLhs(), product.getRhs()),
                           std::pair(product.getRhs(), product.getLhs())})
      if (auto sum = withConstant<arith::AddFOp>(bend))
        if (auto scale = withConstant<arith::MulFOp>(sum->value)) {
          Expr y(builder, scale->value);
          return Expr(builder, x) * fma(y, scale->constant * k, k * sum->constant);
        }
  return u * k;
}

/// -l of erf: l = log2(s / (1 - s)), odd in u. s is off by 7e-8, where it is small by 8e-4 of it.
Expr exponentOfErf(Expr u) {
  double scale = 1;
  if (auto product = withConstant<arith::MulFOp>(u.value())) {
    scale = product->constant;
    u = Expr(u.getBuilder(), product->value);
  }
  constexpr double fit[] = {
      2.2567605992989925,     0.2055180960336057,      -0.0003338245854075858,
      -0.0012881098623845743, 0.00019689990663916988,  -1.5961298064380423e-05,
      7.437867824670597e-07,  -1.8498237014482563e-08, 1.8773593681199435e-10};
  Expr z = u * u;
  int power = 2 * std::size(fit) - 1;
  auto coefficient = [&](double value) { return -log2e * value * std::pow(scale, power); };
  Expr sum = z.constant(coefficient(*std::rbegin(fit)));
  for (auto next = std::rbegin(fit) + 1; next != std::rend(fit); ++next) {
    power -= 2;
    sum = fma(sum, z, coefficient(*next));
  }
  return u * sum;
}

/// What is made of t = 2 s - 1: 2 s, s, and 4 s (1 - s).
struct Uses {
  SmallVector<arith::AddFOp> doubled;
  SmallVector<arith::AddFOp> halved;
  SmallVector<arith::AddFOp> slopes; ///< 1 - t^2
};

/// The one user of `value`, if it is an Op of it and a constant.
template <class Op>
Op onlyUser(Value value, double constant) {
  if (!value.hasOneUse())
    return {};
  auto user = dyn_cast<Op>(*value.user_begin());
  return user && isWith<Op>(user.getResult(), value, constant) ? user : Op();
}

bool findUses(Value t, Uses &uses) {
  return llvm::all_of(t.getUsers(), [&](Operation *user) {
    if (auto sum = dyn_cast<arith::AddFOp>(user)) {
      uses.doubled.push_back(sum);
      return isWith<arith::AddFOp>(sum.getResult(), t, 1);
    }
    auto product = dyn_cast<arith::MulFOp>(user);
    if (!product)
      return false;
    bool isSquare = product.getLhs() == t && product.getRhs() == t;
    auto minus = isSquare ? onlyUser<arith::MulFOp>(product.getResult(), -1) : product;
    auto sum =
        minus ? onlyUser<arith::AddFOp>(minus.getResult(), isSquare ? 1 : 0.5) : arith::AddFOp();
    if (!sum || (!isSquare && !isWith<arith::MulFOp>(product.getResult(), t, 0.5)))
      return false;
    SmallVector<arith::AddFOp> &found = isSquare ? uses.slopes : uses.halved;
    if (!llvm::is_contained(found, sum))
      found.push_back(sum);
    return true;
  });
}

/// With everything that is made of it, which nobody reads any more.
void eraseWithUsers(Operation *op) {
  while (!op->use_empty())
    eraseWithUsers(*op->user_begin());
  op->erase();
}

/// (x / 2) 2 s is x s.
void replaceDoubled(arith::AddFOp doubled, Expr s) {
  for (Operation *user : llvm::make_early_inc_range(doubled->getUsers())) {
    auto product = dyn_cast<arith::MulFOp>(user);
    if (!product)
      continue;
    Value other = product.getLhs() == doubled ? product.getRhs() : product.getLhs();
    auto half = withConstant<arith::MulFOp>(other);
    if (!half || half->constant != 0.5)
      continue;
    ImplicitLocOpBuilder builder(user->getLoc(), user);
    Expr whole = Expr(builder, half->value) * Expr(builder, s.value());
    product.replaceAllUsesWith(whole.value());
  }
  ImplicitLocOpBuilder builder(doubled->getLoc(), doubled);
  doubled.replaceAllUsesWith((Expr(builder, s.value()) * 2.0).value());
}

} // namespace

bool replaceDistribution(Operation *op, bool isErf) {
  Uses uses;
  Value t = op->getResult(0);
  if (!t.getType().isF32() || t.use_empty() || !findUses(t, uses))
    return false;
  ImplicitLocOpBuilder builder(op->getLoc(), op);
  Expr u(builder, op->getOperand(0));
  Expr s = cudaReciprocal(cudaExp2(isErf ? exponentOfErf(u) : scaled(u, -2 * log2e)) + 1.0);
  for (arith::AddFOp doubled : uses.doubled)
    replaceDoubled(doubled, s);
  for (arith::AddFOp halved : uses.halved)
    halved.replaceAllUsesWith(s.value());
  for (arith::AddFOp slope : uses.slopes) {
    ImplicitLocOpBuilder at(slope->getLoc(), slope);
    Expr here(at, s.value());
    slope.replaceAllUsesWith((fma(-here, here, here) * 4.0).value());
  }
  eraseWithUsers(op);
  return true;
}

} // namespace autopar::kernelmath
