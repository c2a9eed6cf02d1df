// SPDX-License-Identifier: Apache-2.0
// Sabotage: see the header.
#include "BreakCollective.h"

#include "autopar/Dialect/AutoPar/IR/OwnShard.h"

#include <random>

using namespace mlir;
using namespace mlir::autopar;

static Value ownPart(OpBuilder &builder, Operation *op, Value input, int64_t dim,
                     FlatSymbolRefAttr mesh, ArrayAttr axes) {
  int64_t extent = cast<RankedTensorType>(op->getResult(0).getType()).getDimSize(dim);
  return buildOwnShard(builder, op->getLoc(), input, dim, extent, mesh, axes);
}

/// `whole` with its parts along `dim`, each of `part` places, moved on by one.
static Value rotated(OpBuilder &builder, Location loc, Value whole, int64_t dim, int64_t part) {
  auto type = cast<RankedTensorType>(whole.getType());
  auto piece = [&](int64_t start, int64_t extent) -> Value {
    SmallVector<int64_t> shape(type.getShape()), starts(type.getRank(), 0),
        steps(type.getRank(), 1);
    shape[dim] = extent;
    starts[dim] = start;
    return SliceOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()), whole,
                           starts, steps);
  };
  int64_t extent = type.getDimSize(dim);
  return ConcatOp::create(builder, loc, type,
                          SmallVector<Value>{piece(part, extent - part), piece(0, part)}, dim);
}

/// Whether `value` can differ from place to place: something other than constants flows into it.
/// Moving the parts of a constant about changes nothing that anybody could catch.
static bool carriesData(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || isa<IotaOp, RandomOp>(op))
    return true;
  if (auto constant = dyn_cast<ConstantOp>(op))
    return !constant.getValue().isSplat();
  // What a select chooses by (the valid extent of an uneven shard) is no data of its own.
  return llvm::any_of(op->getOperands().drop_front(isa<SelectOp>(op) ? 1 : 0), carriesData);
}

/// Whether the parts of a value along a dimension can differ from each other.
static bool variesAlong(Value value, int64_t dim) {
  Operation *op = value.getDefiningOp();
  if (auto repeated = dyn_cast_or_null<BroadcastOp>(op)) {
    auto *position = llvm::find(repeated.getDims(), dim);
    return position != repeated.getDims().end() &&
           variesAlong(repeated.getInput(), position - repeated.getDims().begin());
  }
  if (isa_and_nonnull<DynamicSliceOp>(op))
    return variesAlong(op->getOperand(0), dim);
  if (op && op->hasTrait<OpTrait::Elementwise>())
    return llvm::any_of(op->getOperands(),
                        [dim](Value operand) { return variesAlong(operand, dim); });
  return !op || carriesData(value);
}

/// Whether it matters which part of a dimension the collective gives or chooses.
static bool choosesParts(Operation *op) {
  if (auto gather = dyn_cast<AllGatherOp>(op)) {
    bool isOnlyReduced = llvm::all_of(op->getUsers(), [&](Operation *user) {
      auto reduce = dyn_cast<ReduceOp>(user);
      return reduce && llvm::is_contained(reduce.getDims(), gather.getDim());
    });
    return !isOnlyReduced && variesAlong(gather.getInput(), gather.getDim());
  }
  if (!isa<ShardIndexOp, BinaryOp>(op))
    return true;
  return llvm::any_of(op->getUsers(), [op](Operation *user) {
    if (isa<BinaryOp>(user))
      return choosesParts(user);
    auto slice = dyn_cast<DynamicSliceOp>(user);
    if (!slice)
      return true;
    for (auto [dim, start] : llvm::enumerate(slice.getStarts()))
      if (start == op->getResult(0) && variesAlong(slice.getInput(), dim))
        return true;
    return false;
  });
}

std::string autopar_law::breakCollective(ModuleOp module, uint64_t seed) {
  SmallVector<Operation *> candidates;
  module.walk([&](Operation *op) {
    if (isa<CollectiveOpInterface, ShardIndexOp>(op) && !op->use_empty() &&
        llvm::all_of(op->getOperands(), carriesData) && choosesParts(op))
      candidates.push_back(op);
  });
  if (candidates.empty())
    return "";
  std::mt19937_64 random(seed);
  Operation *op = candidates[random() % candidates.size()];
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Location loc = op->getLoc();
  Operation *next = op->getNextNode();
  Value result = op->getResult(0), replacement;
  std::string what = op->getName().getStringRef().str() + " was ";
  auto extentOf = [](Value value, int64_t dim) {
    return cast<RankedTensorType>(value.getType()).getDimSize(dim);
  };
  auto collective = dyn_cast<CollectiveOpInterface>(op);
  if (!collective) {
    replacement = i64Scalar(builder, loc, 0);
    what += "set to zero";
  } else if (auto permute = dyn_cast<PermuteOp>(op)) {
    SmallVector<int64_t> sources(permute.getSources());
    std::rotate(sources.begin(), sources.begin() + 1, sources.end());
    permute.setSources(sources);
    return what + "taken from others";
  } else if (auto joined = collective.getJoinedDimension()) {
    replacement = rotated(builder, loc, result, *joined, extentOf(op->getOperand(0), *joined));
    what += "permuted";
  } else if (auto split = collective.getSplitDimension()) {
    replacement = ownPart(builder, op, op->getOperand(0), *split, collective.getMeshAttr(),
                          collective.getAxes());
    what += "left without its sum";
  } else {
    replacement = op->getOperand(0);
    what += "deleted";
  }
  // What the replacement is made of still reads the collective.
  SmallPtrSet<Operation *, 8> made;
  for (Operation *one = op->getNextNode(); one != next; one = one->getNextNode())
    made.insert(one);
  result.replaceAllUsesExcept(replacement, made);
  return what;
}
