// SPDX-License-Identifier: Apache-2.0
// tensor.empty, tensor constants, and elementwise arith and math operations on tensors.
#include "Models.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/AutoPar/Models/ExternalModels.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace mlir::autopar;

/// Every dimension passes through, in even shards; nothing for operations on scalars.
static ShardingRule evenElementwise(Operation *op) {
  bool onTensors = llvm::all_of(op->getResultTypes(), [](Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.hasStaticShape();
  });
  if (!onTensors)
    return ShardingRule::replicated(op);
  ShardingRule rule = ShardingRule::elementwise(op);
  for (Factor &factor : rule.factors)
    factor.mayBeUneven = false;
  return rule;
}

namespace {

template <typename Op>
struct ElementwiseModel : ShardingRuleOpInterface::ExternalModel<ElementwiseModel<Op>, Op> {
  ShardingRule getShardingRule(Operation *op) const { return evenElementwise(op); }
};

struct EmptyModel : ShardingRuleOpInterface::ExternalModel<EmptyModel, tensor::EmptyOp> {
  ShardingRule getShardingRule(Operation *op) const { return evenElementwise(op); }
};

struct ConstantModel : ShardingRuleOpInterface::ExternalModel<ConstantModel, arith::ConstantOp> {
  ShardingRule getShardingRule(Operation *op) const {
    auto dense = dyn_cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    return dense ? evenElementwise(op) : ShardingRule::replicated(op);
  }
  FailureOr<SmallVector<Value>> partition(Operation *op, OpBuilder &builder, ValueRange operands,
                                          PartitionContext &context) const {
    auto dense = dyn_cast<SplatElementsAttr>(cast<arith::ConstantOp>(op).getValue());
    if (!dense || !isa<RankedTensorType>(op->getResult(0).getType()))
      return SmallVector<Value>(builder.clone(*op)->getResults());
    return SmallVector<Value>{arith::ConstantOp::create(
        builder, op->getLoc(), dense.resizeSplat(context.localResultType(0)))};
  }
};

/// Costs of what other kernels absorb.
template <typename Op>
struct LightModel : CostOpInterface::ExternalModel<LightModel<Op>, Op> {
  bool isLight(Operation *) const { return true; }
};

template <typename Op>
void attachElementwise(MLIRContext *context) {
  if constexpr (Op::template hasTrait<OpTrait::Elementwise>())
    Op::template attachInterface<ElementwiseModel<Op>, LightModel<Op>>(*context);
}

template <typename... Ops>
void attachAll(MLIRContext *context) {
  (attachElementwise<Ops>(context), ...);
}

} // namespace

void mlir::autopar::registerTensorModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    tensor::EmptyOp::attachInterface<EmptyModel, LightModel<tensor::EmptyOp>>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    arith::ConstantOp::attachInterface<ConstantModel, LightModel<arith::ConstantOp>>(*context);
    attachAll<
#define GET_OP_LIST
#include "mlir/Dialect/Arith/IR/ArithOps.cpp.inc"
        >(context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    attachAll<
#define GET_OP_LIST
#include "mlir/Dialect/Math/IR/MathOps.cpp.inc"
        >(context);
  });
}

void mlir::autopar::registerExternalModels(DialectRegistry &registry) {
  registerLinalgModels(registry);
  registerTensorModels(registry);
  registerPrecisionModels(registry);
}
