// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DimensionReach.h"

#include "Sharding/StrategyContext.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"

using namespace mlir;
using namespace mlir::autopar;

/// The factors of an operation on local shapes. Of a collective every dimension is one: where it
/// joins or cuts one, what it makes of a part is a part of what it makes.
static ShardingRule localRuleOf(Operation *op) {
  if (!isa<CollectiveOpInterface>(op))
    return shardingRuleOf(op);
  ShardingRule rule = ShardingRule::emptyFor(op);
  auto type = tensorTypeOf(op->getOperand(0));
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    rule.addFactor({dim}, {dim}, type.getDimSize(dim));
  return rule;
}

/// The dimension of a tensor whose parts are parts of the factor.
static std::optional<int64_t> dimWith(const ShardingRule::Tensor &tensor, int64_t factor) {
  for (auto [dim, factors] : llvm::enumerate(tensor))
    if (llvm::is_contained(factors, factor))
      return dim;
  return std::nullopt;
}

/// The major factor of a dimension.
static int64_t majorOf(const ShardingRule &rule, const ShardingRule::Dimension &factors) {
  auto *major =
      llvm::find_if(factors, [&](int64_t factor) { return rule.factors[factor].size > 1; });
  return major == factors.end() ? factors.front() : *major;
}

namespace {
/// Whether an operation has to know which part it computes, which has no number of its own where it
/// lies in blocks: asked of its own rewrite.
class PositionProbe : public StrategyContext {
public:
  using StrategyContext::StrategyContext;

  static bool asks(Operation *op, const ShardingRule &rule, const FactorAxes &axes,
                   const MeshAxes &parts) {
    Block scratch;
    for (auto [number, operand] : llvm::enumerate(op->getOperands()))
      scratch.addArgument(
          localType(tensorTypeOf(operand), operandSharding(rule, axes, number), parts),
          op->getLoc());
    OpBuilder builder(op->getContext());
    builder.setInsertionPointToEnd(&scratch);
    PositionProbe probe(op, rule, axes, parts);
    return failed(probe.rewrite(builder, scratch.getArguments())) || probe.isAsked;
  }

  Value shardIndex(OpBuilder &builder, Location loc, int64_t factor) override {
    isAsked |= !axes[factor].empty();
    return i64Scalar(builder, loc, 0);
  }

private:
  bool isAsked = false;
};
} // namespace

/// One operation, or all of a group, looked at from one value.
class DimensionReach::Attempt {
public:
  Attempt(Operation *op, const MeshAxes &parts) : outer(op), parts(parts) {
    if (auto group = dyn_cast<GroupOp>(op))
      body = &group.getBody().front();
  }

  /// Whether each part of the value gives its part of every result.
  bool isReached(Value value, SplitPlace place) {
    if (!body)
      return visit(outer, value, place) && hasAllResults();
    for (auto [input, argument] : llvm::zip_equal(outer->getOperands(), body->getArguments()))
      if (input == value && !reach(argument, place))
        return false;
    for (auto [result, yielded] :
         llvm::zip_equal(outer->getResults(), body->getTerminator()->getOperands()))
      if (result == value && !reach(yielded, place))
        return false;
    while (!worklist.empty()) {
      auto [next, at] = worklist.pop_back_val();
      if (Operation *maker = next.getDefiningOp(); maker && !visit(maker, next, at))
        return false;
      for (Operation *user : next.getUsers())
        if (user != body->getTerminator() && !visit(user, next, at))
          return false;
    }
    return hasAllResults();
  }

  DenseMap<Operation *, Split> splits;

  /// Operands and results of the operation, with where they are split.
  SmallVector<Place> sides() const {
    SmallVector<Place> found;
    auto add = [&](ValueRange outside, ValueRange inside) {
      for (auto [value, own] : llvm::zip_equal(outside, inside))
        if (auto known = places.find(own); known != places.end())
          found.emplace_back(value, known->second);
    };
    add(outer->getOperands(), body ? ValueRange(body->getArguments()) : outer->getOperands());
    add(outer->getResults(), made());
    return found;
  }

private:
  ValueRange made() const {
    return body ? ValueRange(body->getTerminator()->getOperands()) : outer->getResults();
  }
  bool hasAllResults() const {
    return llvm::all_of(made(), [&](Value result) { return places.contains(result); });
  }

  bool reach(Value value, SplitPlace place) {
    auto [known, isNew] = places.try_emplace(value, place);
    if (isNew)
      worklist.emplace_back(value, place);
    return known->second == place;
  }

  /// Splits the operation by the factor that is the major one of the value's dimension.
  bool visit(Operation *op, Value value, SplitPlace place) {
    ShardingRule rule = localRuleOf(op);
    int64_t factor = -1;
    auto find = [&](ValueRange values, ArrayRef<ShardingRule::Tensor> tensors) {
      for (auto [side, tensor] : llvm::zip_equal(values, tensors))
        if (side == value && factor < 0)
          factor = majorOf(rule, tensor[place.dim]);
    };
    find(op->getResults(), rule.results);
    find(op->getOperands(), rule.operands);
    FactorAxes axes(rule.factors.size());
    axes[factor] = {0};
    if (auto known = splits.find(op); known != splits.end())
      return known->second.axes == axes && places.lookup(value) == place;
    if (rule.factors[factor].kind != FactorKind::PassThrough || !isLegal(rule, axes, parts) ||
        (place.blocks > 1 && PositionProbe::asks(op, rule, axes, parts)))
      return false;
    Split split{rule, axes, {}, {}};
    bool isFree =
        spread(op, op->getOperands(), rule.operands, rule, factor, value, place,
               split.operandBlocks) &&
        spread(op, op->getResults(), rule.results, rule, factor, value, place, split.resultBlocks);
    splits.try_emplace(op, std::move(split));
    return isFree;
  }

  /// Reaches the operands or results that have the factor. Where a collective joins shards there
  /// are as many times the blocks, as the dimension is long.
  bool spread(Operation *op, ValueRange values, ArrayRef<ShardingRule::Tensor> tensors,
              const ShardingRule &rule, int64_t factor, Value from, SplitPlace place,
              SmallVector<int64_t> &blocks) {
    int64_t extent = tensorTypeOf(from).getDimSize(place.dim);
    for (auto [side, tensor] : llvm::zip_equal(values, tensors)) {
      blocks.push_back(1);
      std::optional<int64_t> dim = dimWith(tensor, factor);
      if (!dim)
        continue;
      int64_t own = rule.factors[factor].size, count = place.blocks;
      if (isa<CollectiveOpInterface>(op)) {
        own = tensorTypeOf(side).getDimSize(*dim);
        if (count * own % extent != 0)
          return false;
        count = count * own / extent;
      }
      if (own % (count * parts.sizes[0]) != 0 || !reach(side, {*dim, count}))
        return false;
      blocks.back() = count;
    }
    return true;
  }

  Operation *outer;
  Block *body = nullptr; ///< of a group
  const MeshAxes &parts;
  DenseMap<Value, SplitPlace> places;
  SmallVector<Place> worklist;
};

DimensionReach::DimensionReach(const DenseSet<Operation *> &ops, int64_t count) : candidates(ops) {
  parts.names = {"part"};
  parts.sizes = {count};
}

SmallVector<Operation *> DimensionReach::follow(Value value, SplitPlace place) {
  SmallVector<Operation *> added;
  SmallVector<Place> worklist{{value, place}};
  DenseMap<Value, SplitPlace> seen;
  while (!worklist.empty()) {
    auto [next, at] = worklist.pop_back_val();
    auto enter = [&](Operation *op) {
      if (!op || !candidates.contains(op) || reached.contains(op))
        return;
      Attempt attempt(op, parts);
      if (!attempt.isReached(next, at))
        return;
      reached.insert(op);
      added.push_back(op);
      splits.insert(attempt.splits.begin(), attempt.splits.end());
      for (const Place &side : attempt.sides()) {
        if (side.first.getDefiningOp() == op)
          places[side.first] = side.second;
        if (seen.try_emplace(side.first, side.second).second)
          worklist.push_back(side);
      }
    };
    enter(next.getDefiningOp());
    for (Operation *user : next.getUsers())
      enter(user);
  }
  return added;
}

void DimensionReach::forget(ArrayRef<Operation *> ops) {
  for (Operation *op : ops) {
    reached.erase(op);
    op->walk([&](Operation *inner) { splits.erase(inner); });
    for (Value result : op->getResults())
      places.erase(result);
  }
}

std::optional<SplitPlace> DimensionReach::placeRead(Operation *op, unsigned operand) const {
  auto placeIn = [](const Split &split, unsigned index) -> std::optional<SplitPlace> {
    TensorSharding sharding = operandSharding(split.rule, split.axes, index);
    for (auto [dim, axes] : llvm::enumerate(sharding.dims))
      if (!axes.empty())
        return SplitPlace{static_cast<int64_t>(dim), split.operandBlocks[index]};
    return std::nullopt;
  };
  auto group = dyn_cast<GroupOp>(op);
  if (!group)
    return placeIn(*splitOf(op), operand);
  for (OpOperand &use : group.getBody().front().getArgument(operand).getUses())
    if (const Split *split = splitOf(use.getOwner()))
      if (std::optional<SplitPlace> place = placeIn(*split, use.getOperandNumber()))
        return place;
  return std::nullopt;
}
