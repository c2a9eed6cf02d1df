// SPDX-License-Identifier: Apache-2.0
// Row operations: reduce, arg_reduce, softmax, normalize, as passes over a row. Sums may be
// reassociated, because a loop that may not is not vectorized; maxima of reductions propagate NaN.
#include "ExponentSign.h"
#include "LoweringModels.h"
#include "ReduceArithmetic.h"

#include "mlir/Dialect/Math/IR/Math.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;

namespace {

RowDomain rowsOf(Value input, ArrayRef<int64_t> dims, bool reduces) {
  RowDomain domain;
  domain.shape = llvm::to_vector(shapeOf(input));
  domain.rowDims = llvm::to_vector(dims);
  llvm::sort(domain.rowDims);
  domain.reduces = reduces;
  return domain;
}

AffineMap identityOver(Value input) {
  return AffineMap::getMultiDimIdentityMap(shapeOf(input).size(), input.getContext());
}

struct ReduceModel : ElementLoweringOpInterface::ExternalModel<ReduceModel, ReduceOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const { return identityOver(op->getOperand(0)); }
  RowDomain getRowDomain(Operation *op) const {
    return rowsOf(op->getOperand(0), cast<ReduceOp>(op).getDims(), true);
  }
  // Without dimensions to combine it is the identity.
  int64_t getRowPassCount(Operation *) const { return 1; }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    if (cast<ReduceOp>(op).getDims().empty())
      return loader.load(builder, 0);
    return loader.rowValues()[0];
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getOperand(0)));
    return {reduceStart(s, cast<ReduceOp>(op).getKind())};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getOperand(0)));
    return {reduceStep(s, cast<ReduceOp>(op).getKind(), accumulators[0], element)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t, ValueRange first,
                                    ValueRange second) const {
    Scalars s(builder, op->getLoc(), elementTypeOf(op->getOperand(0)));
    return {reduceStep(s, cast<ReduceOp>(op).getKind(), first[0], second[0])};
  }
};

/// Pass 0: the best value. Pass 1: the first (last) position where it stands, or where NaN stands
/// if it is NaN. Two simple passes vectorize where one that tracks the position would not.
struct ArgReduceModel : ElementLoweringOpInterface::ExternalModel<ArgReduceModel, ArgReduceOp> {
  AffineMap getOperandMap(Operation *op, unsigned) const { return identityOver(op->getOperand(0)); }
  RowDomain getRowDomain(Operation *op) const {
    return rowsOf(op->getOperand(0), {static_cast<int64_t>(cast<ArgReduceOp>(op).getDim())}, true);
  }
  SmallVector<int64_t> getPositionDimensions(Operation *op) const {
    return {static_cast<int64_t>(cast<ArgReduceOp>(op).getDim())};
  }
  int64_t getRowPassCount(Operation *) const { return 2; }

  static bool isMax(Operation *op) { return cast<ArgReduceOp>(op).getKind() == ReduceKind::Max; }

  Value emitElement(Operation *, OpBuilder &, unsigned, ElementLoader &loader) const {
    return loader.rowValues()[0];
  }
  /// The element in pass 0, its position or the neutral one in pass 1.
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t pass,
                       ElementLoader &loader) const {
    if (pass == 0)
      return loader.load(builder, 0);
    auto reduce = cast<ArgReduceOp>(op);
    Location loc = op->getLoc();
    Scalars s(builder, loc, elementTypeOf(reduce.getInput()));
    Value element = loader.rowElement(builder);
    Value isBest = s.compare("eq", element, loader.rowValues()[0]);
    if (s.isFloat())
      isBest = s.math<arith::OrIOp>(isBest, s.compare("ne", element, element));
    Value position = arith::IndexCastOp::create(builder, loc, builder.getI64Type(),
                                                loader.index(builder, reduce.getDim()));
    return s.select(isBest, position, emitRowStart(op, builder, 1)[0]);
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t pass) const {
    if (pass == 0) {
      Scalars s(builder, op->getLoc(), elementTypeOf(op->getOperand(0)));
      return {isMax(op) ? s.lowest() : s.highest()};
    }
    Scalars positions(builder, op->getLoc(), builder.getI64Type());
    bool isLast = cast<ArgReduceOp>(op).getSelectLast();
    return {isLast ? positions.lowest() : positions.highest()};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t pass, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    return emitRowCombine(op, builder, pass, accumulators, element);
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t pass,
                                    ValueRange first, ValueRange second) const {
    bool takesMax = pass == 0 ? isMax(op) : cast<ArgReduceOp>(op).getSelectLast();
    Type type = pass == 0 ? elementTypeOf(op->getOperand(0)) : builder.getI64Type();
    Scalars s(builder, op->getLoc(), type);
    return {takesMax ? s.max(first[0], second[0]) : s.min(first[0], second[0])};
  }
};

/// Pass 0: the maximum. Pass 1: e^(x - maximum) and its sum. Element: times the reciprocal of the
/// sum. With `log`, pass 1's element is x - maximum, and the logarithm of the sum is subtracted.
struct SoftmaxModel : ElementLoweringOpInterface::ExternalModel<SoftmaxModel, SoftmaxOp> {
  RowDomain getRowDomain(Operation *op) const {
    return rowsOf(op->getOperand(0), {static_cast<int64_t>(cast<SoftmaxOp>(op).getDim())}, false);
  }
  int64_t getRowPassCount(Operation *) const { return 2; }
  int64_t getElementCost(Operation *) const { return 16; }

  static Scalars scalarsOf(Operation *op, OpBuilder &builder) {
    return Scalars(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
  }
  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    Scalars s = scalarsOf(op, builder);
    Value element = loader.rowElement(builder), total = loader.rowValues()[0];
    return cast<SoftmaxOp>(op).getLog() ? s.sub(element, total) : s.mul(element, total);
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t pass,
                       ElementLoader &loader) const {
    if (pass == 0)
      return loader.load(builder, 0);
    Scalars s = scalarsOf(op, builder);
    Value shifted = s.sub(loader.rowElement(builder), loader.rowValues()[0]);
    return cast<SoftmaxOp>(op).getLog() ? shifted : emitExpOfNegative(s, shifted);
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t pass) const {
    Scalars s = scalarsOf(op, builder);
    // A finite start: of f16 elements and an infinite one LLVM would take the maximum in f16, which
    // few machines have. A row without a finite element is NaN either way.
    double least = s.getType().isF64() ? -std::numeric_limits<double>::max()
                                       : -std::numeric_limits<float>::max();
    return {s.constant(pass == 0 ? least : 0)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t pass, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    Scalars s = scalarsOf(op, builder);
    if (pass == 0)
      return {s.maxRelaxed(accumulators[0], element)};
    Value term = cast<SoftmaxOp>(op).getLog() ? emitExpOfNegative(s, element) : element;
    return {s.addRelaxed(accumulators[0], term)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t pass,
                                    ValueRange first, ValueRange second) const {
    Scalars s = scalarsOf(op, builder);
    return {pass == 0 ? s.maxRelaxed(first[0], second[0]) : s.addRelaxed(first[0], second[0])};
  }
  SmallVector<Value> emitRowFinish(Operation *op, OpBuilder &builder, int64_t pass,
                                   ValueRange accumulators) const {
    Scalars s = scalarsOf(op, builder);
    if (pass == 0)
      return {accumulators[0]};
    if (cast<SoftmaxOp>(op).getLog())
      return {s.math<math::LogOp>(accumulators[0])};
    return {s.div(s.constant(1), accumulators[0])};
  }
};

/// Pass 0: the mean. Pass 1: x - mean and the sum of its squares. Element: times 1/sqrt(variance +
/// epsilon). With `rms` only the second, on x itself.
struct NormalizeModel : ElementLoweringOpInterface::ExternalModel<NormalizeModel, NormalizeOp> {
  RowDomain getRowDomain(Operation *op) const {
    return rowsOf(op->getOperand(0), cast<NormalizeOp>(op).getDims(), false);
  }
  int64_t getRowPassCount(Operation *op) const { return cast<NormalizeOp>(op).getRms() ? 1 : 2; }
  int64_t getElementCost(Operation *) const { return 8; }

  static Scalars scalarsOf(Operation *op, OpBuilder &builder) {
    return Scalars(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
  }
  static double rowLength(Operation *op) {
    double length = 1;
    for (int64_t dim : cast<NormalizeOp>(op).getDims())
      length *= static_cast<double>(shapeOf(op->getOperand(0))[dim]);
    return length;
  }
  bool isMeanPass(Operation *op, int64_t pass) const {
    return pass == 0 && !cast<NormalizeOp>(op).getRms();
  }

  Value emitElement(Operation *op, OpBuilder &builder, unsigned, ElementLoader &loader) const {
    return scalarsOf(op, builder).mul(loader.rowElement(builder), loader.rowValues()[0]);
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t pass,
                       ElementLoader &loader) const {
    if (pass == 0)
      return loader.load(builder, 0);
    return scalarsOf(op, builder).sub(loader.rowElement(builder), loader.rowValues()[0]);
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    return {scalarsOf(op, builder).constant(0)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t pass, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    Scalars s = scalarsOf(op, builder);
    Value term = isMeanPass(op, pass) ? element : s.mulRelaxed(element, element);
    return {s.addRelaxed(accumulators[0], term)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t, ValueRange first,
                                    ValueRange second) const {
    return {scalarsOf(op, builder).addRelaxed(first[0], second[0])};
  }
  SmallVector<Value> emitRowFinish(Operation *op, OpBuilder &builder, int64_t pass,
                                   ValueRange accumulators) const {
    Scalars s = scalarsOf(op, builder);
    Value mean = s.div(accumulators[0], s.constant(rowLength(op)));
    if (isMeanPass(op, pass))
      return {mean};
    double epsilon = cast<NormalizeOp>(op).getEpsilon().convertToDouble();
    Value shifted = s.add(mean, s.constant(epsilon));
    return {s.div(s.constant(1), s.math<math::SqrtOp>(shifted))};
  }
};

} // namespace

void autopar::attachReductionModels(MLIRContext &context) {
  ReduceOp::attachInterface<ReduceModel>(context);
  ArgReduceOp::attachInterface<ArgReduceModel>(context);
  SoftmaxOp::attachInterface<SoftmaxModel>(context);
  NormalizeOp::attachInterface<NormalizeModel>(context);
}
