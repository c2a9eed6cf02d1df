// SPDX-License-Identifier: Apache-2.0
#include "PositionBounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace autopar::cuda {

/// Operands come before what uses them.
PositionBounds::PositionBounds(func::FuncOp kernel, ArrayRef<int64_t> grid) : grid(grid) {
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      bounds[loop.getInductionVar()] = bounds.lookup(loop.getUpperBound());
    else if (op->getNumResults() == 1 && op->getResult(0).getType().isIndex())
      bounds[op->getResult(0)] = compute(op);
  });
}

uint64_t PositionBounds::largest() const {
  uint64_t largest = 0;
  for (auto [value, bound] : bounds)
    largest = std::max(largest, bound.magnitude);
  return largest;
}

std::optional<uint64_t> PositionBounds::of(Value value) const {
  Bound bound = bounds.lookup(value);
  return bound.isKnown ? std::optional<uint64_t>(bound.magnitude) : std::nullopt;
}

PositionBounds::Bound PositionBounds::compute(Operation *op) const {
  constexpr int64_t warpThreads = 32;
  APInt constant;
  if (matchPattern(op, m_ConstantInt(&constant)))
    return {constant.abs().getZExtValue(), true};
  auto operand = [&](unsigned i) { return bounds.lookup(op->getOperand(i)); };
  auto isConstant = [&](unsigned i) {
    return matchPattern(op->getOperand(i), m_ConstantInt(&constant));
  };
  auto known = [](int64_t magnitude) { return Bound{static_cast<uint64_t>(magnitude), true}; };
  return llvm::TypeSwitch<Operation *, Bound>(op)
      .Case<gpu::BlockIdOp>([&](auto) { return known(grid[0]); })
      .Case<gpu::ThreadIdOp>([&](auto) { return known(grid[1]); })
      .Case<gpu::LaneIdOp>([&](auto) { return known(warpThreads); })
      .Case<arith::AddIOp, arith::SubIOp>([&](auto) {
        Bound a = operand(0), b = operand(1);
        return join(a, b, llvm::SaturatingAdd(a.magnitude, b.magnitude));
      })
      .Case<arith::MulIOp>([&](auto) {
        Bound a = operand(0), b = operand(1);
        return join(a, b, llvm::SaturatingMultiply(a.magnitude, b.magnitude));
      })
      .Case<arith::DivUIOp, arith::DivSIOp>([&](auto) {
        Bound a = operand(0);
        uint64_t by = isConstant(1) && constant != 0 ? constant.abs().getZExtValue() : 1;
        return Bound{a.magnitude / by, a.isKnown};
      })
      .Case<arith::MinUIOp, arith::RemUIOp>([&](auto) {
        Bound a = operand(0);
        if (!isConstant(1))
          return a;
        uint64_t limit = constant.abs().getZExtValue();
        return Bound{a.isKnown ? std::min(a.magnitude, limit) : limit, true};
      })
      .Case<arith::RemSIOp, arith::MinSIOp>([&](auto) {
        Bound a = operand(0);
        uint64_t limit = isConstant(1) ? constant.abs().getZExtValue() : a.magnitude;
        return Bound{std::min(a.magnitude, limit), a.isKnown};
      })
      .Case<arith::MaxUIOp, arith::MaxSIOp>([&](auto) {
        Bound a = operand(0), b = operand(1);
        return join(a, b, std::max(a.magnitude, b.magnitude));
      })
      .Case<arith::SelectOp>([&](auto) {
        Bound a = operand(1), b = operand(2);
        return join(a, b, std::max(a.magnitude, b.magnitude));
      })
      .Default([](Operation *) { return Bound(); });
}

} // namespace autopar::cuda
