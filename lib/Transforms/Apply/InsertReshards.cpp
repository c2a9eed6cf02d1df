// SPDX-License-Identifier: Apache-2.0
// The pass autopar-insert-reshards.
#include "Fusion/FusionClusters.h"
#include "Stages/OpsOfStages.h"
#include "Stages/Recompute.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/StageMeshes.h"
#include "autopar/Transforms/Stages.h"
#include "autopar/Transforms/TransferRoute.h"

#include <deque>

namespace mlir::autopar {
#define GEN_PASS_DEF_INSERTRESHARDSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// Whether groups clone an operation, and it has more elements than it reads.
static bool isRepetition(Operation *op) {
  return op && op->getNumResults() == 1 && isFluid(op) &&
         llvm::all_of(op->getOperands(), [&](Value operand) {
           return tensorTypeOf(operand).getNumElements() <
                  tensorTypeOf(op->getResult(0)).getNumElements();
         });
}

/// The axes of factors for which the first result lies as `wanted`.
static std::optional<FactorAxes> axesOfResult(const ShardingRule &rule,
                                              const TensorSharding &wanted) {
  FactorAxes axes(rule.factors.size());
  for (auto [dimension, own] : llvm::zip_equal(rule.results.front(), wanted.dims))
    if (dimension.size() == 1)
      axes[dimension.front()] = own;
  if (resultSharding(rule, axes, 0) != wanted)
    return std::nullopt;
  return axes;
}

namespace {

class Inserter {
public:
  Inserter(func::FuncOp function, const StageMeshes &meshes)
      : function(function), meshes(meshes), stages(function), builder(function.getContext()) {}

  LogicalResult run() {
    if (failed(readArguments()))
      return failure();
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (failed(visit(&op)))
        return failure();
    return finish(function.getBody().front().getTerminator());
  }

private:
  LogicalResult readArguments() {
    auto attributes = SignatureAttributes::ofArguments(function);
    for (BlockArgument argument : function.getArguments()) {
      auto type = dyn_cast<RankedTensorType>(argument.getType());
      if (!type)
        return function.emitOpError()
               << "argument " << argument.getArgNumber() << " is not a ranked tensor";
      TensorSharding sharding = TensorSharding::replicated(type.getRank());
      const MeshAxes &mesh = meshes.ofStage(stages.of(argument));
      if (auto attr = function.getArgAttrOfType<ShardingAttr>(argument.getArgNumber(),
                                                              "autopar.sharding")) {
        FailureOr<TensorSharding> given = TensorSharding::fromAttr(function, attr, mesh);
        if (failed(given))
          return failure();
        sharding = *given;
      } else {
        attributes.set(argument.getArgNumber(), "autopar.sharding", sharding.toAttr(mesh));
      }
      shardingOf(argument) = sharding;
    }
    attributes.write();
    return success();
  }

  LogicalResult visit(Operation *op) {
    const MeshAxes &mesh = meshes.ofStage(stages.of(op));
    if (auto reshard = dyn_cast<ReshardOp>(op)) {
      FailureOr<TensorSharding> to = TensorSharding::fromAttr(op, reshard.getTo(), mesh);
      if (failed(to))
        return failure();
      shardingOf(reshard.getResult()) = *to;
      return success();
    }
    // A hold of which the plan says nothing changes nothing.
    if (isa<HoldOp>(op) && !op->hasAttr("autopar.strategy")) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
      return success();
    }
    if (!isa<ShardingRuleOpInterface>(op))
      op->emitRemark() << "'" << op->getName() << "' has no sharding rule and is replicated";
    ShardingRule rule = shardingRuleOf(op);
    FailureOr<FactorAxes> axes = strategyOf(op, rule, mesh);
    if (failed(axes))
      return failure();
    std::string whyNot;
    if (!meshes.isLegal(rule, *axes, stages.of(op), &whyNot))
      return op->emitOpError() << "has an illegal strategy on a mesh that needs it: " << whyNot;
    builder.setInsertionPoint(op);
    if (auto transfer = dyn_cast<TransferOp>(op); transfer && changesMesh(transfer)) {
      visitTransfer(transfer, resultSharding(rule, *axes, 0));
      return success();
    }
    // What is sent is resharded where it is.
    bool sends = isa<TransferOp>(op) && stages.of(op->getOperand(0)) != Stages::kNone;
    const MeshAxes &near = sends ? meshes.ofStage(stages.of(op->getOperand(0))) : mesh;
    for (OpOperand &operand : op->getOpOperands())
      reshard(operand, operandSharding(rule, *axes, operand.getOperandNumber()), near);
    for (OpResult result : op->getResults())
      shardingOf(result) = resultSharding(rule, *axes, result.getResultNumber());
    return success();
  }

  TensorSharding &shardingOf(Value value) {
    auto [number, isNew] = numbers.try_emplace(value, shardings.size());
    return isNew ? shardings.emplace_back() : shardings[number->second];
  }

  /// Whether a value goes from one mesh to another of other sizes.
  bool changesMesh(TransferOp op) const {
    int64_t from = stages.of(op.getInput());
    return from != Stages::kNone &&
           !meshes.areAlike(meshes.numberOf(from), meshes.numberOf(op.getStage()));
  }

  /// Sent as it lies where that can be cut into what the receivers want.
  void visitTransfer(TransferOp op, const TensorSharding &wanted) {
    const MeshAxes &near = meshes.ofStage(stages.of(op.getInput()));
    const MeshAxes &far = meshes.ofStage(op.getStage());
    // What never changes is read from the model's weights, in parts of any size.
    if (auto argument = dyn_cast<BlockArgument>(op.getInput());
        argument && !isDonated(function, argument)) {
      op.setToAttr(wanted.toAttr(far));
      shardingOf(op.getResult()) = wanted;
      return;
    }
    TransferForms forms =
        transferForms(op.getType().getShape(), shardingOf(op.getInput()), near, wanted, far);
    reshard(op.getInputMutable(), forms.sent, near);
    op.setFromAttr(forms.sent.toAttr(near));
    op.setToAttr(forms.received.toAttr(far));
    shardingOf(op.getResult()) = forms.received;
  }

  /// Results leave the function complete: as annotated, or as they are with partial values
  /// combined.
  LogicalResult finish(Operation *terminator) {
    auto attributes = SignatureAttributes::ofResults(function);
    for (OpOperand &operand : terminator->getOpOperands()) {
      unsigned index = operand.getOperandNumber();
      const MeshAxes &mesh = meshes.ofStage(stageOf(operand.get()));
      TensorSharding wanted = shardingOf(operand.get());
      wanted.partial.clear();
      if (auto attr = function.getResultAttrOfType<ShardingAttr>(index, "autopar.sharding")) {
        FailureOr<TensorSharding> given = TensorSharding::fromAttr(function, attr, mesh);
        if (failed(given))
          return failure();
        wanted = *given;
      }
      // Metrics go to all meshes.
      if (function.getResultAttr(index, "autopar.metric") && !meshes.areAllAlike())
        wanted = TensorSharding::replicated(wanted.dims.size());
      attributes.set(index, "autopar.sharding", wanted.toAttr(mesh));
      // Where the value is made, so that its old form does not wait for the end.
      if (Operation *producer = operand.get().getDefiningOp())
        builder.setInsertionPointAfter(producer);
      else
        builder.setInsertionPoint(terminator);
      reshard(operand, wanted, mesh);
    }
    attributes.write();
    return success();
  }

  /// Reshards that were added are where their operand is.
  int64_t stageOf(Value value) const {
    while (auto reshard = value.getDefiningOp<ReshardOp>())
      value = reshard.getInput();
    return stages.of(value);
  }

  /// What repeats fewer elements, or none, is made once more in the form that is wanted: only what
  /// it repeats is resharded, and readers compute it where they are. Null: there is no such form.
  Value makeAnew(Operation *op, const TensorSharding &wanted, const MeshAxes &mesh) {
    if (!isRepetition(op))
      return {};
    ShardingRule rule = shardingRuleOf(op);
    std::optional<FactorAxes> axes = axesOfResult(rule, wanted);
    if (!axes || !meshes.isLegal(rule, *axes, stages.of(op)))
      return {};
    Operation *copy = builder.clone(*op);
    if (op->getNumOperands() > 0 && !getOpId(op).empty())
      setOpId(copy, getOpId(op) + kReshardSuffix);
    copy->setAttr("autopar.strategy", strategyToAttr(*axes, mesh));
    Value result = copy->getResult(0);
    shardingOf(result) = wanted;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(copy);
    for (OpOperand &operand : copy->getOpOperands())
      reshard(operand, operandSharding(rule, *axes, operand.getOperandNumber()), mesh);
    return result;
  }

  /// `mesh` is that of the reader.
  void reshard(OpOperand &operand, const TensorSharding &wanted, const MeshAxes &mesh) {
    const TensorSharding have = shardingOf(operand.get()).on(mesh);
    if (have == wanted)
      return;
    auto key = std::make_pair(operand.get(), wanted.toAttr(mesh));
    // Users share what is resharded; a phase that holds a value reshards it for itself.
    Value own;
    auto hold = dyn_cast<HoldOp>(operand.getOwner());
    Value &result = hold ? own : made[key];
    if (!result)
      result = makeAnew(operand.get().getDefiningOp(), wanted, mesh);
    if (!result) {
      auto op = ReshardOp::create(builder, operand.getOwner()->getLoc(), operand.get().getType(),
                                  operand.get(), have.toAttr(mesh), key.second);
      // Different names keep equal collectives of two phases apart.
      Operation *named = hold ? hold.getOperation() : operand.get().getDefiningOp();
      if (named && !getOpId(named).empty())
        setOpId(op, getOpId(named) + "/reshard");
      if (hold && hold->hasAttr(MicroBatches::everyTime))
        op->setAttr(MicroBatches::everyTime, builder.getUnitAttr());
      result = op;
      shardingOf(result) = wanted;
    }
    operand.set(result);
  }

  func::FuncOp function;
  const StageMeshes &meshes;
  Stages stages;
  OpBuilder builder;
  /// Of values. They are large, so a table has their numbers.
  std::deque<TensorSharding> shardings;
  DenseMap<Value, uint32_t> numbers;
  DenseMap<std::pair<Value, ShardingAttr>, Value> made;
};

struct InsertReshardsPass : mlir::autopar::impl::InsertReshardsPassBase<InsertReshardsPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    FailureOr<StageMeshes> meshes = StageMeshes::ofBody(function);
    // One device: nothing to reshard.
    if (failed(meshes) || (!meshes->empty() && failed(Inserter(function, *meshes).run())))
      signalPassFailure();
  }
};

} // namespace
