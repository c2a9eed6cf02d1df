// SPDX-License-Identifier: Apache-2.0
// How large the positions of a kernel become: bounds from constants, the grid and loops, through
// arithmetic.
#include "CudaStages.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace autopar::cuda {
namespace {

class PositionBounds {
public:
  explicit PositionBounds(ArrayRef<int64_t> grid) : grid(grid) {}

  /// Operands come before what uses them.
  uint64_t over(func::FuncOp kernel) {
    kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op))
        bounds[loop.getInductionVar()] = of(loop.getUpperBound());
      else if (op->getNumResults() == 1 && op->getResult(0).getType().isIndex())
        bounds[op->getResult(0)] = compute(op);
    });
    uint64_t largest = 0;
    for (auto [value, bound] : bounds)
      largest = std::max(largest, bound);
    return largest;
  }

private:
  uint64_t of(Value value) const { return bounds.lookup(value); }
  uint64_t compute(Operation *op) const;

  ArrayRef<int64_t> grid;
  DenseMap<Value, uint64_t> bounds; ///< of magnitudes
};

uint64_t PositionBounds::compute(Operation *op) const {
  APInt constant;
  if (matchPattern(op, m_ConstantInt(&constant)))
    return constant.abs().getZExtValue();
  auto operand = [&](unsigned i) { return of(op->getOperand(i)); };
  return llvm::TypeSwitch<Operation *, uint64_t>(op)
      .Case<gpu::BlockIdOp>([&](auto) { return grid[0]; })
      .Case<gpu::ThreadIdOp>([&](auto) { return grid[1]; })
      .Case<arith::AddIOp, arith::SubIOp>(
          [&](auto) { return llvm::SaturatingAdd(operand(0), operand(1)); })
      .Case<arith::MulIOp>([&](auto) { return llvm::SaturatingMultiply(operand(0), operand(1)); })
      .Case<arith::DivUIOp, arith::DivSIOp>([&](auto) {
        bool isKnown = matchPattern(op->getOperand(1), m_ConstantInt(&constant)) && constant != 0;
        return operand(0) / (isKnown ? constant.abs().getZExtValue() : 1);
      })
      .Case<arith::RemUIOp, arith::RemSIOp, arith::MinUIOp, arith::MinSIOp>([&](auto) {
        bool isKnown = matchPattern(op->getOperand(1), m_ConstantInt(&constant));
        return isKnown ? std::min(operand(0), operand(1)) : operand(0);
      })
      .Case<arith::MaxUIOp, arith::MaxSIOp>([&](auto) { return std::max(operand(0), operand(1)); })
      .Case<arith::SelectOp>([&](auto) { return std::max(operand(1), operand(2)); })
      .Default([](Operation *) { return 0; });
}

} // namespace

uint64_t largestPosition(func::FuncOp kernel, ArrayRef<int64_t> grid) {
  return PositionBounds(grid).over(kernel);
}

} // namespace autopar::cuda
