// SPDX-License-Identifier: Apache-2.0
// The pass autopar-split-micro-batches. Time is an axis like those of a mesh: operations that are
// split over it rewrite themselves to the part of one micro-batch, and what is partial over time is
// accumulated.
#include "Sharding/StrategyContext.h"
#include "Stages/TimeSplit.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SPLITMICROBATCHESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

Value microBatchIndex(OpBuilder &builder, Location loc) {
  return MicroBatchIndexOp::create(builder, loc, RankedTensorType::get({}, builder.getI64Type()));
}

/// A micro-batch knows its number.
class TimeContext : public StrategyContext {
public:
  using StrategyContext::StrategyContext;

  Value shardIndex(OpBuilder &builder, Location loc, int64_t factor) override {
    return axes[factor].empty() ? i64Scalar(builder, loc, 0) : microBatchIndex(builder, loc);
  }
};

/// Rewrites a function as decided.
class Splitter {
public:
  Splitter(func::FuncOp function, const TimeSplit &decided)
      : function(function), decided(decided), block(function.getBody().front()),
        donors(donorsOfResults(function)), builder(function.getContext()) {}

  LogicalResult rewrite() {
    SmallVector<Operation *> originals =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    auto returns = cast<func::ReturnOp>(block.getTerminator());
    builder.setInsertionPoint(returns);
    SmallVector<BlockArgument> arguments(block.getArguments());
    for (BlockArgument argument : arguments) {
      auto type = cast<RankedTensorType>(argument.getType());
      bool isInput = decided.isInput(argument);
      BlockArgument next = block.addArgument(isInput ? stacked(type) : type, argument.getLoc());
      stacks[argument] = next;
      if (!isInput)
        whole[argument] = next;
    }
    for (Operation *op : originals)
      if (failed(rewrite(op)))
        return failure();
    if (failed(rewriteResults(returns)))
      return failure();
    for (Operation *op : llvm::reverse(originals))
      op->erase();
    auto attributes = SignatureAttributes::ofArguments(function);
    for (BlockArgument argument : decided.inputs())
      attributes.set(argument.getArgNumber(), "autopar.micro_batches",
                     builder.getI64IntegerAttr(count()));
    attributes.write();
    block.eraseArguments(0, arguments.size());
    function.setFunctionType(
        builder.getFunctionType(block.getArgumentTypes(), returns.getOperandTypes()));
    return success();
  }

private:
  int64_t count() const { return decided.count(); }

  /// `type` with its first dimension as micro-batches x samples.
  RankedTensorType stacked(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape.front() /= count();
    shape.insert(shape.begin(), count());
    return RankedTensorType::get(shape, type.getElementType());
  }

  LogicalResult rewrite(Operation *op) {
    const FactorAxes *axes = decided.strategyOf(op);
    if (!axes) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, wholeOf(operand));
      Operation *copy = builder.clone(*op, mapping);
      for (auto [old, result] : llvm::zip_equal(op->getResults(), copy->getResults()))
        whole[old] = result;
      return success();
    }
    FailureOr<SmallVector<Value>> results = localize(op, *axes);
    if (failed(results))
      return failure();
    ShardingRule rule = shardingRuleOf(op);
    for (auto [old, value] : llvm::zip_equal(op->getResults(), *results)) {
      TensorSharding sharding = resultSharding(rule, *axes, old.getResultNumber());
      if (SplitDim dim = splitOf(sharding)) {
        parts[{old, *dim}] = value;
        continue;
      }
      auto accumulate = AccumulateOp::create(builder, op->getLoc(), value.getType(),
                                             static_cast<ReduceKind>(sharding.reduction), value);
      setOpId(accumulate, getOpId(op) + "/accumulate");
      whole[old] = accumulate;
    }
    return success();
  }

  /// The operation on the part of one micro-batch.
  FailureOr<SmallVector<Value>> localize(Operation *op, const FactorAxes &axes) {
    ShardingRule rule = shardingRuleOf(op);
    SmallVector<Value> operands;
    for (OpOperand &operand : op->getOpOperands()) {
      TensorSharding wanted = operandSharding(rule, axes, operand.getOperandNumber());
      SplitDim dim = splitOf(wanted);
      Value value = dim ? partOf(operand.get(), *dim) : wholeOf(operand.get());
      if (!wanted.partial.empty())
        value = buildInFirst(builder, op->getLoc(), value, microBatchIndex(builder, op->getLoc()),
                             wanted.reduction);
      operands.push_back(value);
    }
    TimeContext context(op, rule, axes, decided.axis());
    FailureOr<SmallVector<Value>> results = context.rewrite(builder, operands);
    if (failed(results))
      return op->emitOpError("cannot be split into micro-batches");
    return results;
  }

  /// A value of the whole batch, outside of micro-batches.
  Value wholeOf(Value value) {
    if (Value known = whole.lookup(value))
      return known;
    if (auto argument = dyn_cast<BlockArgument>(value))
      return whole[value] = ReshapeOp::create(builder, value.getLoc(), argument.getType(),
                                              stacks.lookup(argument));
    // Split, and needed whole: a result of the function.
    int64_t dim = *decided.dimOf(value);
    auto type = cast<RankedTensorType>(value.getType());
    Value all = stackOf(value, dim);
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(1, type.getRank() + 1));
    order.insert(order.begin() + dim, 0);
    if (dim)
      all = TransposeOp::create(builder, value.getLoc(), all, order);
    return whole[value] = ReshapeOp::create(builder, value.getLoc(), type, all);
  }

  /// [micro-batches, part...]
  Value stackOf(Value value, int64_t dim) {
    Value part = parts.lookup({value, dim});
    auto type = cast<RankedTensorType>(part.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.insert(shape.begin(), count());
    auto stack = StackMicroBatchesOp::create(
        builder, value.getLoc(), RankedTensorType::get(shape, type.getElementType()), part);
    if (Operation *op = value.getDefiningOp())
      setOpId(stack, getOpId(op) + "/stack");
    return stack;
  }

  /// The current micro-batch's part of a value: computed as such where that is cheap, else taken
  /// from the whole value.
  Value partOf(Value value, int64_t dim) {
    if (Value known = parts.lookup({value, dim}))
      return known;
    if (auto argument = dyn_cast<BlockArgument>(value);
        argument && decided.isInput(argument) && !dim)
      return parts[{value, dim}] = takePart(stacks.lookup(argument), nameOfArgument(argument));
    if (Operation *op = value.getDefiningOp())
      if (Value part = computePart(op, cast<OpResult>(value), dim))
        return parts[{value, dim}] = part;
    auto type = cast<RankedTensorType>(value.getType());
    SmallVector<int64_t> shape(type.getShape()), order{dim};
    shape[dim] /= count();
    shape.insert(shape.begin() + dim, count());
    for (int64_t i = 0; i <= type.getRank(); ++i)
      if (i != dim)
        order.push_back(i);
    Value all =
        ReshapeOp::create(builder, value.getLoc(),
                          RankedTensorType::get(shape, type.getElementType()), wholeOf(value));
    if (dim)
      all = TransposeOp::create(builder, value.getLoc(), all, order);
    return parts[{value, dim}] = takePart(all, nameOf(value));
  }

  static std::string nameOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? nameOfArgument(argument) : getOpId(value.getDefiningOp()).str();
  }

  Value takePart(Value all, const Twine &name) {
    auto type = cast<RankedTensorType>(all.getType());
    auto part = MicroBatchOp::create(
        builder, all.getLoc(),
        RankedTensorType::get(type.getShape().drop_front(), type.getElementType()), all);
    setOpId(part, name + "/micro_batch");
    return part;
  }

  Value computePart(Operation *op, OpResult result, int64_t dim) {
    auto cost = dyn_cast<CostOpInterface>(op);
    if (op->getNumOperands() > 0 && !(cost && cost.isLight()))
      return {};
    ShardingRule rule = shardingRuleOf(op);
    for (const FactorAxes &axes : enumerateStrategies(rule, decided.axis())) {
      TensorSharding sharding = resultSharding(rule, axes, result.getResultNumber());
      if (splitOf(sharding) != SplitDim(dim) || !decided.slicesNeeded(op, rule, axes))
        continue;
      FailureOr<SmallVector<Value>> results = localize(op, axes);
      if (failed(results))
        return {};
      for (Value made : *results)
        if (Operation *maker = made.getDefiningOp())
          setOpId(maker, getOpId(op) + "/part");
      return (*results)[result.getResultNumber()];
    }
    return {};
  }

  LogicalResult rewriteResults(func::ReturnOp returns) {
    auto attributes = SignatureAttributes::ofResults(function);
    for (OpOperand &operand : returns->getOpOperands()) {
      Value value = operand.get();
      unsigned number = operand.getOperandNumber();
      // The next value of a donated argument lies as the argument does: whole.
      bool isSplit = decided.dimOf(value) == SplitDim(0) && !isa<BlockArgument>(value);
      if (isSplit && !donors[number]) {
        operand.set(stackOf(value, 0));
        attributes.set(number, "autopar.micro_batches", builder.getI64IntegerAttr(count()));
      } else {
        operand.set(wholeOf(value));
      }
    }
    attributes.write();
    return success();
  }

  func::FuncOp function;
  const TimeSplit &decided;
  Block &block;
  SmallVector<BlockArgument> donors; ///< per result, before there are new arguments
  OpBuilder builder;
  DenseMap<Value, Value> stacks, whole;
  DenseMap<std::pair<Value, int64_t>, Value> parts;
};

struct SplitMicroBatchesPass
    : public mlir::autopar::impl::SplitMicroBatchesPassBase<SplitMicroBatchesPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (count == 1)
      return;
    if (!function || function.isExternal() || !function.getBody().hasOneBlock()) {
      getOperation().emitError("expected a function @main of one block to split");
      return signalPassFailure();
    }
    if (count < 1) {
      function.emitError() << "micro-batches: expected a positive number, got " << count;
      return signalPassFailure();
    }
    if (failed(verifyWholeStep(function)))
      return signalPassFailure();
    for (Operation &op : function.getBody().front())
      if (isa<MicroBatchOp, MicroBatchIndexOp>(op)) {
        op.emitOpError("stands in a function that is split into micro-batches already");
        return signalPassFailure();
      }
    TimeSplit decided(function, count);
    if (failed(decided.decide()) || failed(Splitter(function, decided).rewrite()))
      signalPassFailure();
  }
};

} // namespace
