// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "PartWriter.h"

#include "Sharding/StrategyContext.h"
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Transforms/Views.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A part knows its number.
class PartContext : public StrategyContext {
public:
  PartContext(Operation *op, const DimensionReach &reach, int64_t number)
      : StrategyContext(op, reach.splitOf(op)->rule, reach.splitOf(op)->axes, reach.axis()),
        number(number) {}

  Value shardIndex(OpBuilder &builder, Location loc, int64_t factor) override {
    return i64Scalar(builder, loc, axes[factor].empty() ? 0 : number);
  }

private:
  int64_t number;
};

/// How the shape of a value shows the parts: its dimension as blocks x parts x positions.
struct PartShape {
  SmallVector<int64_t> apart, slice, part; ///< the whole, of it one part, and that as it is read
  int64_t dim;                             ///< of the parts

  PartShape(RankedTensorType whole, SplitPlace place)
      : apart(whole.getShape()), part(whole.getShape()), dim(place.dim) {
    part[dim] /= PartWriter::kParts;
    if (place.blocks == 1) {
      slice = part;
      return;
    }
    int64_t positions = part[dim] / place.blocks;
    apart[dim] = place.blocks;
    apart.insert(apart.begin() + dim + 1, {PartWriter::kParts, positions});
    slice = apart;
    slice[++dim] = 1;
  }
};

} // namespace

/// Operations of other parts of the step that stand among these: whether those that read what is
/// made here may all go behind it.
bool PartWriter::findOutsiders() {
  own.insert_range(part.ops);
  DenseSet<Operation *> readers;
  for (Operation *op = part.ops.front(); op != part.ops.back(); op = op->getNextNode()) {
    bool readsLate = false, readsOwn = false;
    for (Value operand : op->getOperands()) {
      readsLate |= readers.contains(operand.getDefiningOp());
      readsOwn |= own.contains(operand.getDefiningOp());
    }
    if (own.contains(op) && readsLate)
      return false;
    if (own.contains(op))
      continue;
    bool isLate = readsLate || readsOwn;
    if (isLate)
      readers.insert(op);
    (isLate ? late : early).push_back(op);
  }
  return llvm::none_of(part.ops.back()->getOperands(),
                       [&](Value operand) { return readers.contains(operand.getDefiningOp()); });
}

//===-- Values -------------------------------------------------------------------------------===//

/// The level at which a value is there, in parts or whole.
int64_t PartWriter::levelOf(Value value) const {
  Operation *op = value.getDefiningOp();
  auto known = levels.find(op);
  if (known == levels.end())
    return 0;
  return known->second + (reach.contains(op) && isa<CollectiveOpInterface>(op));
}

/// What is made to take a value apart, or put it together, belongs to who makes it.
template <typename Op, typename... Arguments>
Value PartWriter::make(Value value, bool isFree, int64_t level, int64_t slot,
                       ArrayRef<int64_t> shape, Arguments &&...arguments) {
  auto op = Op::create(builder, value.getLoc(), tensorTypeOf(value).clone(shape),
                       std::forward<Arguments>(arguments)...);
  if (Operation *maker = value.getDefiningOp())
    op->setDiscardableAttrs(maker->getDiscardableAttrDictionary());
  order.push_back({op, level, slot, isFree});
  return op;
}

bool PartWriter::isPartHere(Value value, SplitPlace place) const {
  Operation *op = value.getDefiningOp();
  return op && reach.contains(op) && reach.placeOf(value) == place;
}

/// One part of a value that is split, or taken from the whole where that is there.
Value PartWriter::partOf(Value value, SplitPlace place, int64_t number) {
  if (isPartHere(value, place))
    return parts[number].lookup(value);
  auto known = slices[number].find({value, {place.dim, place.blocks}});
  if (known != slices[number].end())
    return known->second;
  bool isMadeHere = levels.contains(value.getDefiningOp());
  int64_t level = isMadeHere ? levelOf(value) : kFirstReaders,
          slot = isMadeHere ? kBehind : kBefore;
  PartShape shape(tensorTypeOf(value), place);
  SmallVector<int64_t> starts(shape.apart.size(), 0), steps(shape.apart.size(), 1);
  starts[shape.dim] = number * shape.slice[shape.dim];
  bool isApart = place.blocks > 1;
  Value part = wholeOf(value);
  if (isApart)
    part = make<ReshapeOp>(value, /*isFree=*/true, level, slot, shape.apart, part);
  part = make<SliceOp>(value, /*isFree=*/false, level, slot, shape.slice, part, starts, steps);
  if (isApart)
    part = make<ReshapeOp>(value, /*isFree=*/true, level, slot, shape.part, part);
  return slices[number][{value, {place.dim, place.blocks}}] = part;
}

/// All parts of a value that is split, joined.
Value PartWriter::wholeOf(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !reach.contains(op))
    return value;
  if (Value known = joined.lookup(value))
    return known;
  int64_t level = levelOf(value);
  PartShape shape(tensorTypeOf(value), reach.placeOf(value));
  bool isApart = shape.apart.size() != shape.part.size();
  SmallVector<Value> all;
  for (IRMapping &known : parts) {
    Value one = known.lookup(value);
    all.push_back(isApart ? make<ReshapeOp>(one, /*isFree=*/true, level, kBehind, shape.slice, one)
                          : one);
  }
  Value whole =
      make<ConcatOp>(value, /*isFree=*/false, level, kBehind, shape.apart, all, shape.dim);
  if (isApart)
    whole = make<ReshapeOp>(value, /*isFree=*/true, level, kBehind, tensorTypeOf(value).getShape(),
                            whole);
  return joined[value] = whole;
}

//===-- Operations ---------------------------------------------------------------------------===//

/// An operation on the operands of one part, itself or in a group.
FailureOr<SmallVector<Value>> PartWriter::rewrite(Operation *op, ValueRange operands,
                                                  int64_t number) {
  if (reach.splitOf(op))
    return PartContext(op, reach, number).rewrite(builder, operands);
  IRMapping mapping;
  mapping.map(op->getOperands(), operands);
  return SmallVector<Value>(builder.clone(*op, mapping)->getResults());
}

FailureOr<SmallVector<Value>> PartWriter::rewriteGroup(GroupOp group, ValueRange operands,
                                                       int64_t number) {
  OpBuilder::InsertionGuard guard(builder);
  Block &body = group.getBody().front();
  auto made = cast<GroupOp>(builder.insert(group->cloneWithoutRegions()));
  made->setOperands(operands);
  Block *block = builder.createBlock(&made.getBody(), {}, operands.getTypes(),
                                     SmallVector<Location>(operands.size(), group.getLoc()));
  IRMapping mapping;
  mapping.map(body.getArguments(), block->getArguments());
  for (Operation &inner : body.without_terminator()) {
    SmallVector<Value> local = llvm::map_to_vector(
        inner.getOperands(), [&](Value operand) { return mapping.lookup(operand); });
    FailureOr<SmallVector<Value>> results = rewrite(&inner, local, number);
    if (failed(results))
      return failure();
    mapping.map(inner.getResults(), *results);
  }
  builder.clone(*body.getTerminator(), mapping);
  for (auto [result, yielded] :
       llvm::zip_equal(made.getResults(), block->getTerminator()->getOperands()))
    result.setType(cast<RankedTensorType>(yielded.getType()));
  return SmallVector<Value>(made.getResults());
}

LogicalResult PartWriter::writeParts(Operation *op) {
  SmallVector<std::optional<SplitPlace>> places;
  int64_t level = 0;
  for (OpOperand &operand : op->getOpOperands()) {
    places.push_back(reach.placeRead(op, operand.getOperandNumber()));
    bool isPart = places.back() && isPartHere(operand.get(), *places.back());
    bool isWhole = levels.contains(operand.get().getDefiningOp()) && !isPart;
    level = std::max(level, levelOf(operand.get()) + (isWhole ? kParts : 0)); // no part lags more
  }
  levels[op] = level;
  for (int64_t number = 0; number < kParts; ++number) {
    SmallVector<Value> operands;
    for (auto [operand, place] : llvm::zip_equal(op->getOperands(), places))
      operands.push_back(place ? partOf(operand, *place, number) : wholeOf(operand));
    auto group = dyn_cast<GroupOp>(op);
    Operation *before = &*std::prev(builder.getInsertionPoint());
    FailureOr<SmallVector<Value>> results =
        group ? rewriteGroup(group, operands, number) : rewrite(op, operands, number);
    if (failed(results))
      return failure();
    for (auto it = std::next(before->getIterator()); it != builder.getInsertionPoint(); ++it) {
      it->setDiscardableAttrs(op->getDiscardableAttrDictionary());
      if (StringRef id = getOpId(op); !id.empty())
        setOpId(&*it, id + "/part" + Twine(number));
      order.push_back({&*it, level, number, part.work.free.contains(op)});
    }
    parts[number].map(op->getResults(), *results);
  }
  return success();
}

/// An operation that stays whole.
void PartWriter::keep(Operation *op) {
  std::optional<int64_t> level;
  for (Value operand : op->getOperands())
    if (Operation *maker = operand.getDefiningOp(); maker && levels.contains(maker)) {
      level = std::max(level.value_or(0), levelOf(operand));
      wholeOf(operand);
    }
  if (level)
    levels[op] = *level;
  order.push_back(
      {op, level.value_or(kFirstReaders), level ? kBehind : kBefore, part.work.free.contains(op)});
}

void PartWriter::joinForOutsiders() {
  for (Operation *op : part.ops)
    if (reach.contains(op))
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !own.contains(user); }))
          wholeOf(result);
}

LogicalResult PartWriter::write() {
  if (!findOutsiders())
    return failure();
  end = part.ops.back()->getNextNode();
  builder.setInsertionPoint(end);
  for (Operation *op : part.ops)
    if (!reach.contains(op))
      keep(op);
    else if (failed(writeParts(op)))
      return failure();
  joinForOutsiders();
  for (Placed &one : order) // once it is known who reads them
    if (isa<SliceOp>(one.op) && !own.contains(one.op))
      one.isFree = isView(one.op);
  return success();
}

SmallVector<Operation *> PartWriter::take(ArrayRef<Placed> placed) {
  for (auto [value, whole] : joined)
    value.replaceUsesWithIf(whole, [&](OpOperand &use) { return !reach.contains(use.getOwner()); });
  for (Operation *op : early)
    op->moveBefore(part.ops.front());
  for (const Placed &one : placed)
    one.op->moveBefore(end);
  for (Operation *op : late)
    op->moveBefore(end);
  return llvm::filter_to_vector(part.ops, [&](Operation *op) { return reach.contains(op); });
}

void PartWriter::giveUp() {
  while (end && end->getPrevNode() != part.ops.back()) {
    Operation *op = end->getPrevNode();
    op->dropAllUses();
    op->erase();
  }
}
