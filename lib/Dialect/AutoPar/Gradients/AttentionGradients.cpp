// SPDX-License-Identifier: Apache-2.0
// The gradient of attention: one operation gives those of query, key and value, a formula that of
// sinks.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A sink's weight in a row is exp(sink - row sum), and its value zero, so that of the gradient of
/// a softmax only -weight * sum of (output gradient * output) is left; summed over the rows of its
/// head.
Value gradientOfSink(AttentionOp attention, FormulaBuilder &b, Value gradient) {
  Value sums = attention.getLogSum(), sink = attention.getSink();
  RankedTensorType rows = b.typeOf(sums);
  Type wide = rows.getElementType();
  Value scores =
            BroadcastOp::create(b.builder, b.loc, rows, b.cast(sink, wide), ArrayRef<int64_t>(1)),
        weights = b.unary(UnaryKind::Exp, b.sub(scores, sums)),
        products = b.sum(b.mul(b.cast(gradient, wide), b.cast(attention.getOutput(), wide)), {3}),
        sum = b.sum(b.mul(weights, products), {0, 2});
  return b.cast(b.unary(UnaryKind::Neg, sum), b.typeOf(sink).getElementType());
}

/// Tri Dao, "FlashAttention-2" (2023), algorithm 2, as an operation of its own.
struct AttentionGradient : GradientOpInterface::ExternalModel<AttentionGradient, AttentionOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto attention = cast<AttentionOp>(op);
    bool isSink =
        attention.getSink() && operand == attention.getSinkMutable().begin()->getOperandNumber();
    if (operand > 2 && !isSink)
      return noGradient(op, "its bias is trained; compile with --attention products");
    if (!cotangents[0] || cotangents[1])
      return noGradient(op, "something reads its row sums");
    if (isSink) {
      FormulaBuilder b(builder, op);
      return gradientOfSink(attention, b, cotangents[0]);
    }
    for (Operation *user : attention.getLogSum().getUsers())
      if (auto known = dyn_cast<AttentionGradOp>(user);
          known && known.getGradient() == cotangents[0])
        return known->getResult(operand);
    auto made = AttentionGradOp::create(builder, op->getLoc(), attention, cotangents[0]);
    return made->getResult(operand);
  }
};

} // namespace

void mlir::autopar::attachAttentionGradients(MLIRContext &context) {
  AttentionOp::attachInterface<AttentionGradient>(context);
}
