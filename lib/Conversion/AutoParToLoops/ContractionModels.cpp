// SPDX-License-Identifier: Apache-2.0
// Matrix products as loops, for the element types that the library does not have.
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Row domain [result dimensions..., contracted dimensions...].
struct DotGeneralModel : ElementLoweringOpInterface::ExternalModel<DotGeneralModel, DotGeneralOp> {
  RowDomain getRowDomain(Operation *op) const {
    auto dot = cast<DotGeneralOp>(op);
    RowDomain domain;
    domain.shape = llvm::to_vector(shapeOf(dot.getResult()));
    for (int64_t dim : dot.getLhsContract()) {
      domain.rowDims.push_back(domain.shape.size());
      domain.shape.push_back(shapeOf(dot.getLhs())[dim]);
    }
    // A product without contraction still has one term.
    if (domain.rowDims.empty()) {
      domain.rowDims.push_back(domain.shape.size());
      domain.shape.push_back(1);
    }
    return domain;
  }
  AffineMap getOperandMap(Operation *op, unsigned operand) const {
    auto dot = cast<DotGeneralOp>(op);
    MLIRContext *context = op->getContext();
    bool isLhs = operand == 0;
    auto batch = isLhs ? dot.getLhsBatch() : dot.getRhsBatch();
    auto contract = isLhs ? dot.getLhsContract() : dot.getRhsContract();
    SmallVector<int64_t> free = isLhs ? dot.getLhsFree() : dot.getRhsFree();
    SmallVector<AffineExpr> results(shapeOf(op->getOperand(operand)).size());
    int64_t position = 0, resultRank = shapeOf(dot.getResult()).size();
    for (int64_t dim : batch)
      results[dim] = getAffineDimExpr(position++, context);
    if (!isLhs)
      position += dot.getLhsFree().size();
    for (int64_t dim : free)
      results[dim] = getAffineDimExpr(position++, context);
    position = resultRank;
    for (int64_t dim : contract)
      results[dim] = getAffineDimExpr(position++, context);
    return AffineMap::get(getRowDomain(op).shape.size(), 0, results, context);
  }
  int64_t getReadsPerElement(Operation *op, unsigned operand) const {
    auto dot = cast<DotGeneralOp>(op);
    int64_t reads = 1;
    Value other = op->getOperand(1 - operand);
    for (int64_t dim : operand == 0 ? dot.getRhsFree() : dot.getLhsFree())
      reads *= shapeOf(other)[dim];
    return reads;
  }
  int64_t getElementCost(Operation *) const { return 64; }
  int64_t getRowPassCount(Operation *) const { return 1; }

  static Scalars scalarsOf(Operation *op, OpBuilder &builder) {
    return Scalars(builder, op->getLoc(), elementTypeOf(op->getResult(0)));
  }
  Value emitElement(Operation *, OpBuilder &, unsigned, ElementLoader &loader) const {
    return loader.rowValues()[0];
  }
  Value emitRowElement(Operation *op, OpBuilder &builder, int64_t, ElementLoader &loader) const {
    Type result = elementTypeOf(op->getResult(0));
    auto load = [&](unsigned operand) {
      return castScalar(builder, op->getLoc(), loader.load(builder, operand),
                        elementTypeOf(op->getOperand(operand)), result);
    };
    return scalarsOf(op, builder).mulRelaxed(load(0), load(1));
  }
  SmallVector<Value> emitRowStart(Operation *op, OpBuilder &builder, int64_t) const {
    return {scalarsOf(op, builder).integer(0)};
  }
  SmallVector<Value> emitRowStep(Operation *op, OpBuilder &builder, int64_t, Value element,
                                 ValueRange accumulators, ElementLoader &) const {
    return {scalarsOf(op, builder).addRelaxed(accumulators[0], element)};
  }
  SmallVector<Value> emitRowCombine(Operation *op, OpBuilder &builder, int64_t, ValueRange first,
                                    ValueRange second) const {
    return {scalarsOf(op, builder).addRelaxed(first[0], second[0])};
  }
};

} // namespace

void autopar::attachContractionModels(MLIRContext &context) {
  DotGeneralOp::attachInterface<DotGeneralModel>(context);
}
