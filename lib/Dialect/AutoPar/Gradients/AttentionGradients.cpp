// SPDX-License-Identifier: Apache-2.0
// The gradient of attention: one operation gives those of query, key and value.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Tri Dao, "FlashAttention-2" (2023), algorithm 2, as an operation of its own.
struct AttentionGradient : GradientOpInterface::ExternalModel<AttentionGradient, AttentionOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto attention = cast<AttentionOp>(op);
    if (operand > 2)
      return noGradient(op, "its bias is trained; compile with --attention products");
    if (!cotangents[0] || cotangents[1])
      return noGradient(op, "something reads its row sums");
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
