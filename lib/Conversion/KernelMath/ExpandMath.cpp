// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-math: chooses the formula for each op of the math dialect. Ops that are a
// machine instruction on all targets (sqrt, fma, floor, ceil, trunc, round, roundeven, absf,
// copysign, bit counts, classification) stay.
#include "Formulas.h"

#include "autopar/Conversion/KernelMath.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

#include <optional>

using namespace mlir;

namespace autopar {
namespace {
using namespace kernelmath;

Allowance allowanceOf(Operation *op, bool isCuda) {
  Allowance allow;
  // A vector has no instruction of a GPU.
  allow.isCuda = isCuda && op->getResult(0).getType().isIntOrFloat();
  if (auto fast = dyn_cast<arith::ArithFastMathInterface>(op)) {
    arith::FastMathFlags flags = fast.getFastMathFlagsAttr().getValue();
    allow.approximate = arith::bitEnumContainsAll(flags, arith::FastMathFlags::afn);
    allow.noInfinities = arith::bitEnumContainsAll(flags, arith::FastMathFlags::ninf);
    allow.noNans = arith::bitEnumContainsAll(flags, arith::FastMathFlags::nnan);
  }
  return allow;
}

/// Powers with a constant exponent that need neither exp nor log.
std::optional<Expr> powWithConstantExponent(Expr x, Value exponent) {
  APFloat constant(0.0);
  if (!matchPattern(exponent, m_ConstantFloat(&constant)))
    return std::nullopt;
  bool lost = false;
  constant.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
  double y = constant.convertToDouble();
  if (y == static_cast<int64_t>(y) && y >= -4 && y <= 4)
    return integerPowerFormula(x, static_cast<int64_t>(y));
  if (y == 0.5) // adding 0 makes pow(-0, 0.5) = +0; pow(-inf, 0.5) = +inf is given up as NaN
    return sqrt(x + 0.0);
  if (y == -0.5)
    return rsqrtFormula(x + 0.0);
  return std::nullopt;
}

/// Functions of one float; nothing for ops that stay as they are.
std::optional<Expr> expandUnary(Operation *op, Expr x, bool isCuda) {
  using Result = std::optional<Expr>;
  Allowance allow = allowanceOf(op, isCuda);
  return TypeSwitch<Operation *, Result>(op)
      .Case<math::ExpOp>([&](auto) { return expFormula(x, allow); })
      .Case<math::Exp2Op>([&](auto) { return exp2Formula(x); })
      .Case<math::ExpM1Op>([&](auto) { return expm1Formula(x); })
      .Case<math::LogOp>([&](auto) { return logFormula(x, LogBase::E, allow); })
      .Case<math::Log2Op>([&](auto) { return logFormula(x, LogBase::Two, allow); })
      .Case<math::Log10Op>([&](auto) { return logFormula(x, LogBase::Ten, allow); })
      .Case<math::Log1pOp>([&](auto) { return log1pFormula(x); })
      .Case<math::SinhOp>([&](auto) { return sinhFormula(x); })
      .Case<math::CoshOp>([&](auto) { return coshFormula(x); })
      .Case<math::TanhOp>([&](auto) { return tanhFormula(x, allow); })
      .Case<math::AsinhOp>([&](auto) { return asinhFormula(x); })
      .Case<math::AcoshOp>([&](auto) { return acoshFormula(x); })
      .Case<math::AtanhOp>([&](auto) { return atanhFormula(x); })
      .Case<math::SinOp>([&](auto) { return sinFormula(x); })
      .Case<math::CosOp>([&](auto) { return cosFormula(x); })
      .Case<math::TanOp>([&](auto) { return tanFormula(x); })
      .Case<math::AsinOp>([&](auto) { return asinFormula(x); })
      .Case<math::AcosOp>([&](auto) { return acosFormula(x); })
      .Case<math::AtanOp>([&](auto) { return atanFormula(x); })
      .Case<math::ErfOp>([&](auto) { return erfFormula(x, allow); })
      .Case<math::ErfcOp>([&](auto) { return erfcFormula(x); })
      .Case<math::CbrtOp>([&](auto) { return cbrtFormula(x); })
      .Case<math::RsqrtOp>([&](auto) { return rsqrtFormula(x); })
      .Default([](Operation *) { return Result(); });
}

/// The result of `op` on operands already of f32 or f64; nothing for ops that stay.
std::optional<Expr> expandFloat(Operation *op, ArrayRef<Expr> operands, bool isCuda) {
  if (operands.size() == 1)
    return expandUnary(op, operands[0], isCuda);
  if (isa<math::PowFOp>(op)) {
    if (auto simple = powWithConstantExponent(operands[0], op->getOperand(1)))
      return simple;
    return powFormula(operands[0], operands[1]);
  }
  if (isa<math::Atan2Op>(op))
    return atan2Formula(operands[0], operands[1]);
  if (isa<arith::RemFOp>(op))
    return remainderFormula(operands[0], operands[1]);
  if (isa<math::ClampFOp>(op)) {
    Expr low = operands[1], high = operands[2], x = operands[0];
    x = select(low > x, low, x);
    return select(high < x, high, x);
  }
  return std::nullopt;
}

/// f16 and bf16 are widened to f32 first.
Expr widen(Expr x) { return x.width() < 32 ? x.to(x.getBuilder().getF32Type()) : x; }

std::optional<Expr> expandPowerWithIntegerExponent(math::FPowIOp op,
                                                   ImplicitLocOpBuilder &builder) {
  Expr x = widen({builder, op.getLhs()});
  APInt constant;
  if (matchPattern(op.getRhs(), m_ConstantInt(&constant)) && constant.abs().ule(64))
    return integerPowerFormula(x, constant.getSExtValue());
  return powFormula(x, Expr(builder, op.getRhs()).to(x.elementType()));
}

/// Integer powers by squaring; negative exponents give 0 except for bases 1 and -1 (as truncating
/// division would).
Value expandIntegerPower(math::IPowIOp op, ImplicitLocOpBuilder &builder) {
  Expr base(builder, op.getLhs()), exponent(builder, op.getRhs());
  APInt constant;
  if (matchPattern(op.getRhs(), m_ConstantInt(&constant)) && constant.isNonNegative() &&
      constant.ule(64)) {
    Expr one = base.integer(1), result = one;
    for (unsigned bit = constant.getActiveBits(); bit-- > 0;) {
      result = result * result;
      if (constant[bit])
        result = result * base;
    }
    return result.value();
  }
  // A fixed number of rounds keeps the loop free of branches: one per bit of the exponent.
  Expr result = base.integer(1), square = base, left = exponent;
  unsigned rounds = base.width() < 32 ? base.width() : 32;
  for (unsigned round = 0; round < rounds; ++round) {
    Expr bit = (left & left.integer(1)) == left.integer(1);
    result = select(bit, result * square, result);
    square = square * square;
    left = shiftRightLogic(left, 1);
  }
  Expr unit = base == base.integer(1);
  Expr oddExponent = (exponent & exponent.integer(1)) == exponent.integer(1);
  Expr minusUnit = select(oddExponent, base.integer(-1), base.integer(1));
  Expr inverse =
      select(unit, base.integer(1), select(base == base.integer(-1), minusUnit, base.integer(0)));
  return select(exponent < exponent.integer(0), inverse, result).value();
}

void expandSinCos(math::SincosOp op, ImplicitLocOpBuilder &builder) {
  Expr x(builder, op.getOperand());
  Expr wide = widen(x);
  op.getSin().replaceAllUsesWith(sinFormula(wide).to(x.elementType()).value());
  op.getCos().replaceAllUsesWith(cosFormula(wide).to(x.elementType()).value());
  op.erase();
}

void expand(Operation *op, bool isCuda) {
  ImplicitLocOpBuilder builder(op->getLoc(), op);
  if (auto both = dyn_cast<math::SincosOp>(op))
    return expandSinCos(both, builder);
  if (isCuda && isa<math::TanhOp, math::ErfOp>(op) && replaceDistribution(op, isa<math::ErfOp>(op)))
    return;
  Type element = getElementTypeOrSelf(op->getResult(0).getType());
  if (auto power = dyn_cast<math::IPowIOp>(op)) {
    op->getResult(0).replaceAllUsesWith(expandIntegerPower(power, builder));
    return op->erase();
  }
  std::optional<Expr> result;
  if (auto power = dyn_cast<math::FPowIOp>(op)) {
    result = expandPowerWithIntegerExponent(power, builder);
  } else {
    if (!llvm::all_of(op->getOperandTypes(),
                      [](Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); }))
      return;
    SmallVector<Expr> operands;
    for (Value operand : op->getOperands())
      operands.push_back(widen({builder, operand}));
    result = expandFloat(op, operands, isCuda);
  }
  if (!result)
    return;
  op->getResult(0).replaceAllUsesWith(result->to(element).value());
  op->erase();
}

struct ExpandMathPass : PassWrapper<ExpandMathPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandMathPass)

  explicit ExpandMathPass(bool cuda = false) { isCuda = cuda; }
  ExpandMathPass(const ExpandMathPass &other) : PassWrapper(other) { isCuda = other.isCuda; }

  StringRef getArgument() const final { return "autopar-expand-math"; }
  StringRef getDescription() const final {
    return "replace math functions by branch-free arithmetic that vectorizes";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect, LLVM::LLVMDialect, NVVM::NVVMDialect>();
  }
  void runOnOperation() final {
    SmallVector<Operation *> found;
    getOperation()->walk([&](Operation *op) {
      if (isa_and_nonnull<math::MathDialect>(op->getDialect()) || isa<arith::RemFOp>(op))
        found.push_back(op);
    });
    for (Operation *op : found)
      expand(op, isCuda);
  }

  Option<bool> isCuda{*this, "cuda", llvm::cl::desc("use instructions of NVIDIA's GPUs")};
};

} // namespace

std::unique_ptr<Pass> createExpandMathPass() { return std::make_unique<ExpandMathPass>(); }
std::unique_ptr<Pass> createExpandMathForCudaPass() {
  return std::make_unique<ExpandMathPass>(/*cuda=*/true);
}

} // namespace autopar
