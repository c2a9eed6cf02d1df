// SPDX-License-Identifier: Apache-2.0
// One walk that splits what it can. Whenever a micro-batch turns out to need a value of the whole
// batch, what computes that value is taken out of the micro-batches, and the walk starts anew.
#include "TimeSplit.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

SplitDim mlir::autopar::splitOf(const TensorSharding &sharding) {
  for (auto [dim, axes] : llvm::enumerate(sharding.dims))
    if (!axes.empty())
      return dim;
  return std::nullopt;
}

TimeSplit::TimeSplit(func::FuncOp function, int64_t count) : function(function) {
  mesh.symbol = FlatSymbolRefAttr::get(function.getContext(), "time");
  mesh.names = {"time"};
  mesh.sizes = {count};
}

LogicalResult TimeSplit::decide() {
  if (failed(findInputs()))
    return failure();
  while (true) {
    FailureOr<bool> settled = decideAll();
    if (failed(settled))
      return failure();
    if (*settled)
      return success();
  }
}

const FactorAxes *TimeSplit::strategyOf(Operation *op) const {
  auto it = strategies.find(op);
  return it == strategies.end() ? nullptr : &it->second;
}

SplitDim TimeSplit::dimOf(Value value) const {
  auto it = split.find(value);
  return it == split.end() ? std::nullopt : SplitDim(it->second);
}

std::optional<unsigned> TimeSplit::slicesNeeded(Operation *op, const ShardingRule &rule,
                                                const FactorAxes &axes) const {
  for (auto [factor, list] : llvm::zip_equal(rule.factors, axes))
    if (!list.empty() && factor.size % count())
      return std::nullopt;
  unsigned slices = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    SplitDim wanted = splitOf(operandSharding(rule, axes, operand.getOperandNumber()));
    SplitDim have = dimOf(operand.get());
    if (have && have != wanted)
      return std::nullopt;
    slices += !have && wanted;
  }
  return slices;
}

/// The batch is the first dimension of the first input that has one; inputs of another extent there
/// belong to every sample.
LogicalResult TimeSplit::findInputs() {
  std::optional<int64_t> batch;
  for (BlockArgument argument : function.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    if (!isFed(argument) || type.getRank() == 0 ||
        batch.value_or(type.getDimSize(0)) != type.getDimSize(0))
      continue;
    batch = type.getDimSize(0);
    if (*batch % count())
      return function.emitError() << "micro-batches: input \"" << nameOfArgument(argument)
                                  << "\" holds " << *batch
                                  << " samples, which do not split evenly into " << count();
    splitInputs.insert(argument);
  }
  if (!batch)
    return function.emitError("micro-batches: the model has no input with a batch dimension");
  return success();
}

/// False where an operation was made global on the way.
FailureOr<bool> TimeSplit::decideAll() {
  strategies.clear();
  split.clear();
  late.clear();
  for (BlockArgument input : splitInputs)
    split[input] = 0;
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (globals.contains(&op))
      continue;
    FailureOr<bool> settled = decide(&op);
    if (failed(settled) || !*settled)
      return settled;
  }
  return true;
}

FailureOr<bool> TimeSplit::decide(Operation *op) {
  bool anySplit = llvm::any_of(op->getOperands(), [&](Value v) { return split.contains(v); });
  if (!anySplit) {
    for (Value operand : op->getOperands())
      if (late.contains(operand))
        late.insert(op->result_begin(), op->result_end());
    return true;
  }
  ShardingRule rule = shardingRuleOf(op);
  SmallVector<FactorAxes> possible = enumerateStrategies(rule, mesh);
  const FactorAxes *best = cheapest(op, rule, ArrayRef(possible).drop_front());
  auto isSame = [&](OpResult result) {
    TensorSharding sharding = resultSharding(rule, *best, result.getResultNumber());
    return !splitOf(sharding) && sharding.partial.empty();
  };
  int64_t same = best ? llvm::count_if(op->getResults(), isSame) : 0;
  // What every micro-batch would compute alike (a fence waits for a part) is computed once.
  if (same > 0 && same == op->getNumResults()) {
    late.insert(op->result_begin(), op->result_end());
    return true;
  }
  if (!best || same > 0)
    return op->emitOpError() << "couples the samples of a batch (or " << count()
                             << " does not divide an extent): micro-batches would change what \""
                             << getOpId(op) << "\" computes";
  for (Value operand : op->getOperands())
    if (late.contains(operand)) {
      if (failed(makeGlobal(operand, op)))
        return failure();
      return false;
    }
  for (OpResult result : op->getResults()) {
    if (SplitDim dim = splitOf(resultSharding(rule, *best, result.getResultNumber())))
      split[result] = *dim;
    else
      late.insert(result);
  }
  strategies[op] = *best;
  return true;
}

/// The first of those that slice fewest whole operands; null where none fits.
const FactorAxes *TimeSplit::cheapest(Operation *op, const ShardingRule &rule,
                                      ArrayRef<FactorAxes> possible) const {
  const FactorAxes *best = nullptr;
  unsigned fewest = ~0u;
  for (const FactorAxes &axes : possible)
    if (std::optional<unsigned> slices = slicesNeeded(op, rule, axes); slices && *slices < fewest) {
      best = &axes;
      fewest = *slices;
    }
  return best;
}

/// Has a value that micro-batches need computed before them, from inputs alone.
LogicalResult TimeSplit::makeGlobal(Value value, Operation *user) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    Operation *op = next.getDefiningOp();
    if (!op) {
      auto argument = cast<BlockArgument>(next);
      if (isInput(argument))
        continue;
      return user->emitOpError() << "couples the samples of a batch: \"" << getOpId(user)
                                 << "\" needs \"" << getOpId(value.getDefiningOp())
                                 << "\" of all samples, which depends on \""
                                 << nameOfArgument(argument)
                                 << "\"; micro-batches would change what it computes (batch "
                                    "normalization in training mode: --inference-mode has it take "
                                    "the running statistics)";
    }
    if (globals.insert(op))
      llvm::append_range(worklist, op->getOperands());
  }
  return success();
}
