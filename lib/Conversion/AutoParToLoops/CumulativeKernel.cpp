// SPDX-License-Identifier: Apache-2.0
// Running combinations along a dimension: one row after the other, each carried from element to
// element. On a GPU threads share a row where it is long (EmitGpuScan.cpp).
#include "EmitGpuScan.h"
#include "LoweringModels.h"
#include "ReduceArithmetic.h"
#include "RowAddress.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

struct CumulativeModel : KernelLoweringOpInterface::ExternalModel<CumulativeModel, CumulativeOp> {
  int64_t getKernelExtent(Operation *op, int64_t) const {
    return RowAddress(shapeOf(op->getOperand(0)), cast<CumulativeOp>(op).getDim()).rows;
  }

  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t) const {
    auto cumulative = cast<CumulativeOp>(op);
    Location loc = op->getLoc();
    Type element = cumulative.getType().getElementType();
    RowAddress address(shapeOf(cumulative.getInput()), cumulative.getDim());
    Value zero = indexConstant(builder, loc, 0), one = indexConstant(builder, loc, 1);
    Value length = indexConstant(builder, loc, address.length);
    scf::ForOp::create(builder, loc, begin, end, one, ValueRange{},
                       [&](OpBuilder &rowBuilder, Location, Value row, ValueRange) {
                         Value base = address.base(rowBuilder, loc, row);
                         Scalars outer(rowBuilder, loc, element);
                         scf::ForOp::create(
                             rowBuilder, loc, zero, length, one,
                             reduceStart(outer, cumulative.getKind()),
                             [&](OpBuilder &b, Location, Value step, ValueRange carried) {
                               Scalars s(b, loc, element);
                               Value position = step;
                               if (cumulative.getReverse()) {
                                 Value last = indexConstant(b, loc, address.length - 1);
                                 position = arith::SubIOp::create(b, loc, last, step);
                               }
                               Value offset = address.element(b, loc, base, position);
                               Value own = loadScalar(b, loc, inputs[0], offset, element);
                               Value next = runningStep(s, cumulative.getKind(), carried[0], own);
                               Value result = cumulative.getExclusive() ? carried[0] : next;
                               storeScalar(b, loc, result, outputs[0], offset, element);
                               scf::YieldOp::create(b, loc, next);
                             });
                         scf::YieldOp::create(rowBuilder, loc);
                       });
  }

  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    return emitGpuScan(builder, cast<CumulativeOp>(op), inputs[0], outputs[0]);
  }
};

} // namespace

void autopar::attachCumulativeModels(MLIRContext &context) {
  CumulativeOp::attachInterface<CumulativeModel>(context);
}
