// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-narrow-floats: f16 and bf16 are storage formats on x86-64-v3. Arithmetic
// on them is done in f32, and conversions without an instruction are spelled out, because LLVM
// would call a runtime library for them.
#include "../KernelMath/Expression.h"

#include "autopar/Conversion/KernelsToCpu.h"
#include "mlir/IR/TypeUtilities.h"

#include <optional>

using namespace mlir;

namespace autopar {
namespace {
using namespace kernelmath;

bool isNarrow(Type type) {
  Type element = getElementTypeOrSelf(type);
  return element.isF16() || element.isBF16();
}

Type withElement(Type like, Type element) {
  auto shaped = dyn_cast<ShapedType>(like);
  return shaped ? Type(shaped.clone(element)) : element;
}

/// Ops whose f16/bf16 form is computed in f32. Casts and moves of bits are not arithmetic.
bool isArithmetic(Operation *op) {
  if (isa<arith::ConstantOp, arith::SelectOp, arith::BitcastOp, arith::ExtFOp, arith::TruncFOp>(op))
    return false;
  return isa_and_nonnull<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

/// Rebuilds `op` with narrow operands and results as f32.
void computeInF32(Operation *op) {
  ImplicitLocOpBuilder builder(op->getLoc(), op);
  Type f32 = builder.getF32Type();
  for (OpOperand &operand : op->getOpOperands()) {
    Type type = operand.get().getType();
    if (isNarrow(type))
      operand.set(arith::ExtFOp::create(builder, withElement(type, f32), operand.get()));
  }
  builder.setInsertionPointAfter(op);
  for (Value result : op->getResults()) {
    Type type = result.getType();
    if (!isNarrow(type))
      continue;
    result.setType(withElement(type, f32));
    auto narrowed = arith::TruncFOp::create(builder, type, result);
    result.replaceAllUsesExcept(narrowed, narrowed);
  }
}

/// bf16 is the upper half of an f32.
Value extendBf16(arith::ExtFOp op, ImplicitLocOpBuilder &builder) {
  Expr bits = Expr(builder, op.getIn()).bits();
  Type wide = withElement(op.getType(), builder.getI32Type());
  Expr extended(builder, arith::ExtUIOp::create(builder, wide, bits.value()));
  return shiftLeft(extended, 16).asFloat().value();
}

/// Round to nearest even: add half a unit, one less if the kept part is even; NaN keeps its upper
/// bits and is made quiet.
Value truncateToBf16(arith::TruncFOp op, Expr x, ImplicitLocOpBuilder &builder) {
  Expr bits = x.bits();
  Expr odd = shiftRightLogic(bits, 16) & bits.integer(1);
  Expr rounded = bits + (odd + bits.integer(0x7fff));
  Expr kept = select(isNan(x), bits | bits.integer(0x400000), rounded);
  Expr half = shiftRightLogic(kept, 16).to(builder.getI16Type());
  return arith::BitcastOp::create(builder, op.getType(), half.value());
}

/// f64 to f32 rounding to odd, so that a second rounding to a narrower format is exact.
Expr truncateToOdd(Expr x) {
  auto &builder = x.getBuilder();
  Expr nearest = x.to(builder.getF32Type());
  Expr back = nearest.to(builder.getF64Type());
  Expr bits = nearest.bits();
  Expr awayFromZero = abs(x) < abs(back);
  Expr towardsZero = select(awayFromZero, bits - bits.integer(1), bits);
  Expr inexact = (x < back) | (x > back);
  return select(inexact, towardsZero | bits.integer(1), bits).asFloat();
}

void expandTruncation(arith::TruncFOp op) {
  ImplicitLocOpBuilder builder(op.getLoc(), op);
  Expr x(builder, op.getIn());
  bool toBf16 = getElementTypeOrSelf(op.getType()).isBF16();
  if (!isNarrow(op.getType()) || (!toBf16 && !x.isF64()))
    return;
  if (x.isF64())
    x = truncateToOdd(x);
  Value result = toBf16 ? truncateToBf16(op, x, builder)
                        : arith::TruncFOp::create(builder, op.getType(), x.value()).getResult();
  op.replaceAllUsesWith(result);
  op.erase();
}

void expandExtension(arith::ExtFOp op) {
  Type from = getElementTypeOrSelf(op.getIn().getType());
  bool toF64 = getElementTypeOrSelf(op.getType()).isF64();
  if (!isNarrow(from) || (!from.isBF16() && !toF64))
    return;
  ImplicitLocOpBuilder builder(op.getLoc(), op);
  if (toF64) { // through f32, exact
    Type f32 = withElement(op.getType(), builder.getF32Type());
    auto first = arith::ExtFOp::create(builder, f32, op.getIn());
    auto second = arith::ExtFOp::create(builder, op.getType(), first.getResult());
    op.replaceAllUsesWith(second.getResult());
    op.erase();
    if (from.isBF16())
      expandExtension(first);
    return;
  }
  op.replaceAllUsesWith(extendBf16(op, builder));
  op.erase();
}

struct ExpandNarrowFloatsPass : PassWrapper<ExpandNarrowFloatsPass, OperationPass<>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(ExpandNarrowFloatsPass)

  StringRef getArgument() const final { return "autopar-expand-narrow-floats"; }
  StringRef getDescription() const final {
    return "compute f16 and bf16 arithmetic in f32 and spell out conversions without an "
           "instruction";
  }
  void getDependentDialects(DialectRegistry &registry) const final {
    registry.insert<arith::ArithDialect, math::MathDialect>();
  }
  void runOnOperation() final {
    SmallVector<Operation *> arithmetic, conversions;
    getOperation()->walk([&](Operation *op) {
      auto types = llvm::concat<const Type>(llvm::to_vector(op->getOperandTypes()),
                                            llvm::to_vector(op->getResultTypes()));
      if (isArithmetic(op) && llvm::any_of(types, isNarrow))
        arithmetic.push_back(op);
    });
    for (Operation *op : arithmetic)
      computeInF32(op);
    getOperation()->walk([&](Operation *op) {
      if (isa<arith::ExtFOp, arith::TruncFOp>(op))
        conversions.push_back(op);
    });
    for (Operation *op : conversions) {
      if (auto extension = dyn_cast<arith::ExtFOp>(op))
        expandExtension(extension);
      else
        expandTruncation(cast<arith::TruncFOp>(op));
    }
  }
};

} // namespace

std::unique_ptr<Pass> createExpandNarrowFloatsPass() {
  return std::make_unique<ExpandNarrowFloatsPass>();
}

} // namespace autopar
