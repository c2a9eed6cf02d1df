// SPDX-License-Identifier: Apache-2.0
// Gradients of grouped products, which are grouped products.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Rows times the matrices of the groups that `of` has.
template <typename Op>
Value groupedDot(OpBuilder &builder, Op of, Value sought, Value rows, Value matrices,
                 bool transposed) {
  return GroupedDotOp::create(builder, of.getLoc(), sought.getType(), rows, matrices, of.getGroup(),
                              transposed, of.getAmongAttr(), of.getInParts());
}

struct GroupedDotGradient : GradientOpInterface::ExternalModel<GroupedDotGradient, GroupedDotOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto dot = cast<GroupedDotOp>(op);
    Value g = cotangents[0], lhs = dot.getLhs();
    if (operand == 0)
      return groupedDot(builder, dot, lhs, g, dot.getRhs(), !dot.getTransposed());
    if (dot.getTransposed())
      std::swap(lhs, g);
    return Value(GroupedDotRhsGradOp::create(builder, op->getLoc(), dot.getRhs().getType(), lhs, g,
                                             dot.getGroup(), dot.getAmongAttr(), dot.getInParts()));
  }
};

struct GroupedDotRhsGradGradient
    : GradientOpInterface::ExternalModel<GroupedDotRhsGradGradient, GroupedDotRhsGradOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto gradient = cast<GroupedDotRhsGradOp>(op);
    Value g = cotangents[0], lhs = gradient.getLhs(), rows = gradient.getGradient();
    return operand == 0 ? groupedDot(builder, gradient, lhs, rows, g, true)
                        : groupedDot(builder, gradient, rows, lhs, g, false);
  }
};

} // namespace

void mlir::autopar::attachGroupedProductGradients(MLIRContext &context) {
  GroupedDotOp::attachInterface<GroupedDotGradient>(context);
  GroupedDotRhsGradOp::attachInterface<GroupedDotRhsGradGradient>(context);
}
