// SPDX-License-Identifier: Apache-2.0
// The pass autopar-split-micro-batches. Time is an axis like those of a mesh: the batch dimension
// of the inputs is sharded over it, operations follow by their sharding rules and rewrite
// themselves to the part of one micro-batch, and what is partial over time is accumulated.
#include "StrategyContext.h"

#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SPLITMICROBATCHESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The dimension of a value that is split over time; nothing for a whole value.
using SplitDim = std::optional<int64_t>;

SplitDim splitOf(const TensorSharding &sharding) {
  for (auto [dim, axes] : llvm::enumerate(sharding.dims))
    if (!axes.empty())
      return dim;
  return std::nullopt;
}

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

class Splitter {
public:
  Splitter(func::FuncOp function, int64_t count)
      : function(function), block(function.getBody().front()), builder(function.getContext()) {
    mesh.symbol = FlatSymbolRefAttr::get(function.getContext(), "time");
    mesh.names = {"time"};
    mesh.sizes = {count};
  }

  LogicalResult run() {
    if (failed(splitInputs()))
      return failure();
    // Whenever a micro-batch turns out to need a value of the whole batch, what computes that value
    // is taken out of the micro-batches, and the decisions start anew.
    while (true) {
      FailureOr<bool> settled = decide();
      if (failed(settled))
        return failure();
      if (*settled)
        break;
    }
    return rewrite();
  }

private:
  struct Decision {
    FactorAxes axes;
    bool isSplit = false;
  };

  int64_t count() const { return mesh.sizes[0]; }

  std::string nameOf(unsigned argument) {
    auto name = function.getArgAttrOfType<StringAttr>(argument, "autopar.name");
    return name ? name.str() : "arg" + std::to_string(argument);
  }

  std::string nameOf(Value value) {
    auto argument = dyn_cast<BlockArgument>(value);
    return argument ? nameOf(argument.getArgNumber()) : getOpId(value.getDefiningOp()).str();
  }

  /// The batch is the first dimension of the first input that has one; inputs of another extent
  /// there belong to every sample.
  LogicalResult splitInputs() {
    std::optional<int64_t> batch;
    for (BlockArgument argument : function.getArguments()) {
      unsigned number = argument.getArgNumber();
      bool isInput = !function.getArgAttr(number, "autopar.origin") &&
                     !function.getArgAttr(number, "autopar.donated") &&
                     !function.getArgAttr(number, "autopar.control");
      auto type = cast<RankedTensorType>(argument.getType());
      if (!isInput || type.getRank() == 0 ||
          batch.value_or(type.getDimSize(0)) != type.getDimSize(0))
        continue;
      batch = type.getDimSize(0);
      if (*batch % count())
        return function.emitError()
               << "micro-batches: input \"" << nameOf(number) << "\" holds " << *batch
               << " samples, which do not split evenly into " << count();
      inputs.insert(argument);
    }
    if (!batch)
      return function.emitError("micro-batches: the model has no input with a batch dimension");
    return success();
  }

  //===-- decisions -----------------------------------------------------------------------===//

  /// Chooses how each operation is split. False where an operation was made global on the way.
  FailureOr<bool> decide() {
    decisions.clear();
    split.clear();
    late.clear();
    for (BlockArgument input : inputs)
      split[input] = 0;
    for (Operation &op : block.without_terminator()) {
      if (globals.contains(&op)) {
        decisions[&op].axes.resize(shardingRuleOf(&op).factors.size());
        continue;
      }
      FailureOr<bool> settled = decide(&op);
      if (failed(settled) || !*settled)
        return settled;
    }
    return true;
  }

  FailureOr<bool> decide(Operation *op) {
    ShardingRule rule = shardingRuleOf(op);
    SmallVector<FactorAxes> strategies = enumerateStrategies(rule, mesh);
    bool anySplit = llvm::any_of(op->getOperands(), [&](Value v) { return split.contains(v); });
    if (!anySplit) {
      decisions[op].axes = strategies.front();
      for (Value operand : op->getOperands())
        if (late.contains(operand))
          late.insert(op->result_begin(), op->result_end());
      return true;
    }
    const FactorAxes *best = nullptr;
    unsigned fewest = ~0u;
    for (const FactorAxes &axes : ArrayRef(strategies).drop_front())
      if (std::optional<unsigned> slices = slicesNeeded(op, rule, axes);
          slices && *slices < fewest) {
        best = &axes;
        fewest = *slices;
      }
    if (!best)
      return op->emitOpError() << "couples the samples of a batch (or " << count()
                               << " does not divide an extent): micro-batches would change what \""
                               << getOpId(op) << "\" computes";
    for (Value operand : op->getOperands())
      if (late.contains(operand)) {
        if (failed(makeGlobal(operand, op)))
          return failure();
        return false;
      }
    Decision &decision = decisions[op];
    decision.isSplit = true;
    decision.axes = *best;
    for (OpResult result : op->getResults()) {
      TensorSharding sharding = resultSharding(rule, *best, result.getResultNumber());
      if (SplitDim dim = splitOf(sharding))
        split[result] = *dim;
      else
        late.insert(result);
    }
    return true;
  }

  /// How many whole operands the strategy takes parts of; nothing where it does not fit what is
  /// split already, or the extent is uneven.
  std::optional<unsigned> slicesNeeded(Operation *op, const ShardingRule &rule,
                                       const FactorAxes &axes) {
    for (auto [factor, list] : llvm::zip_equal(rule.factors, axes))
      if (!list.empty() && factor.size % count())
        return std::nullopt;
    unsigned slices = 0;
    for (OpOperand &operand : op->getOpOperands()) {
      SplitDim wanted = splitOf(operandSharding(rule, axes, operand.getOperandNumber()));
      auto it = split.find(operand.get());
      SplitDim have = it == split.end() ? std::nullopt : SplitDim(it->second);
      if (have && have != wanted)
        return std::nullopt;
      slices += !have && wanted;
    }
    return slices;
  }

  /// Has a value that micro-batches need computed before them, from inputs alone.
  LogicalResult makeGlobal(Value value, Operation *user) {
    SmallVector<Value> worklist{value};
    while (!worklist.empty()) {
      Value next = worklist.pop_back_val();
      Operation *op = next.getDefiningOp();
      if (!op) {
        auto argument = cast<BlockArgument>(next);
        if (inputs.contains(argument))
          continue;
        return user->emitOpError()
               << "couples the samples of a batch: \"" << getOpId(user) << "\" needs \""
               << getOpId(value.getDefiningOp()) << "\" of all samples, which depends on \""
               << nameOf(argument.getArgNumber())
               << "\"; micro-batches would change what it computes";
      }
      if (globals.insert(op))
        llvm::append_range(worklist, op->getOperands());
    }
    return success();
  }

  //===-- rewriting -----------------------------------------------------------------------===//

  LogicalResult rewrite() {
    SmallVector<Operation *> originals =
        llvm::map_to_vector(block.without_terminator(), [](Operation &op) { return &op; });
    auto returns = cast<func::ReturnOp>(block.getTerminator());
    builder.setInsertionPoint(returns);
    SmallVector<BlockArgument> arguments(block.getArguments());
    for (BlockArgument argument : arguments) {
      auto type = cast<RankedTensorType>(argument.getType());
      bool isInput = inputs.contains(argument);
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
    for (BlockArgument argument : inputs)
      function.setArgAttr(argument.getArgNumber(), "autopar.micro_batches",
                          builder.getI64IntegerAttr(count()));
    block.eraseArguments(0, arguments.size());
    function.setFunctionType(
        builder.getFunctionType(block.getArgumentTypes(), returns.getOperandTypes()));
    return success();
  }

  /// `type` with its first dimension as micro-batches x samples.
  RankedTensorType stacked(RankedTensorType type) {
    SmallVector<int64_t> shape(type.getShape());
    shape.front() /= count();
    shape.insert(shape.begin(), count());
    return RankedTensorType::get(shape, type.getElementType());
  }

  LogicalResult rewrite(Operation *op) {
    const Decision &decision = decisions[op];
    if (!decision.isSplit) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, wholeOf(operand));
      Operation *copy = builder.clone(*op, mapping);
      for (auto [old, result] : llvm::zip_equal(op->getResults(), copy->getResults()))
        whole[old] = result;
      return success();
    }
    FailureOr<SmallVector<Value>> results = localize(op, decision.axes);
    if (failed(results))
      return failure();
    ShardingRule rule = shardingRuleOf(op);
    for (auto [old, value] : llvm::zip_equal(op->getResults(), *results)) {
      TensorSharding sharding = resultSharding(rule, decision.axes, old.getResultNumber());
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
    TimeContext context(op, rule, axes, mesh);
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
    int64_t dim = split.lookup(value);
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
        argument && inputs.contains(argument) && !dim)
      return parts[{value, dim}] =
                 takePart(stacks.lookup(argument), nameOf(argument.getArgNumber()));
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
    for (const FactorAxes &axes : enumerateStrategies(rule, mesh)) {
      TensorSharding sharding = resultSharding(rule, axes, result.getResultNumber());
      if (splitOf(sharding) != SplitDim(dim) || !canTakeParts(op, rule, axes))
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

  /// Whether every operand can be had as the strategy asks for it.
  bool canTakeParts(Operation *op, const ShardingRule &rule, const FactorAxes &axes) {
    for (auto [factor, list] : llvm::zip_equal(rule.factors, axes))
      if (!list.empty() && factor.size % count())
        return false;
    return llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
      SplitDim wanted = splitOf(operandSharding(rule, axes, operand.getOperandNumber()));
      auto it = split.find(operand.get());
      return it == split.end() || wanted == SplitDim(it->second);
    });
  }

  LogicalResult rewriteResults(func::ReturnOp returns) {
    for (OpOperand &operand : returns->getOpOperands()) {
      Value value = operand.get();
      unsigned number = operand.getOperandNumber();
      auto it = split.find(value);
      if (it != split.end() && it->second == 0 && !isa<BlockArgument>(value)) {
        operand.set(stackOf(value, 0));
        function.setResultAttr(number, "autopar.micro_batches", builder.getI64IntegerAttr(count()));
      } else {
        operand.set(wholeOf(value));
      }
    }
    return success();
  }

  func::FuncOp function;
  Block &block;
  OpBuilder builder;
  MeshAxes mesh;
  llvm::SetVector<BlockArgument> inputs; ///< split over time
  llvm::SetVector<Operation *> globals;  ///< computed on the whole batch, before micro-batches
  DenseMap<Operation *, Decision> decisions;
  DenseMap<Value, int64_t> split; ///< values that only micro-batches have, and their dimension
  DenseSet<Value> late;           ///< known after the last micro-batch only
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
    for (Operation &op : function.getBody().front())
      if (isa<MicroBatchOp, MicroBatchIndexOp>(op)) {
        op.emitOpError("stands in a function that is split into micro-batches already");
        return signalPassFailure();
      }
    if (failed(Splitter(function, count).run()))
      signalPassFailure();
  }
};

} // namespace
