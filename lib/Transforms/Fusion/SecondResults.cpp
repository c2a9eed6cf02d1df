// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "SecondResults.h"

#include "autopar/Transforms/TrainingEpilogues.h"

using namespace mlir;
using namespace mlir::autopar;

static void giveUp(SmallVector<Operation *> &ops, size_t from, DenseSet<Operation *> &claimed) {
  for (Operation *op : ArrayRef(ops).drop_front(from))
    claimed.erase(op);
  ops.truncate(from);
}

/// The relu of which `value` is the result, through reshapes that keep its rows.
static UnaryOp reluOf(Value value) {
  int64_t row = cast<RankedTensorType>(value.getType()).getShape().back();
  while (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto type = cast<RankedTensorType>(value.getType());
  auto relu = value.getDefiningOp<UnaryOp>();
  bool isIt = relu && relu.getKind() == UnaryKind::Relu && type.getRank() > 0 &&
              type.getShape().back() == row;
  return isIt ? relu : UnaryOp();
}

/// Whether rows of the product's result are those of `relu`'s.
static bool hasRowsOf(Operation *contraction, UnaryOp relu) {
  auto product = dyn_cast<DotGeneralOp>(contraction);
  return product && takesActivationInTraining(product, UnaryKind::Relu) &&
         product.getRhsFree().size() == 1 &&
         product.getType().getShape().back() == relu.getType().getShape().back();
}

void autopar::markForGradients(Epilogues &epilogues, DenseSet<Operation *> &claimed) {
  DenseMap<Operation *, SmallVector<Operation *> *> endingIn;
  for (SmallVector<Operation *> &ops : epilogues)
    endingIn[ops.back()] = &ops;
  for (SmallVector<Operation *> &ops : epilogues) {
    auto gradient = dyn_cast<UnaryGradOp>(ops.back());
    if (!gradient || gradient.getKind() != UnaryKind::Relu)
      continue;
    UnaryOp relu = reluOf(gradient.getInput());
    SmallVector<Operation *> *group = relu ? endingIn.lookup(relu) : nullptr;
    Operation *last = relu;
    if (relu && !group) { // marked for another gradient already
      auto marks = llvm::make_filter_range(relu->getUsers(), llvm::IsaPred<MarkPositiveOp>);
      last = marks.empty() ? nullptr : *marks.begin();
      group = last ? endingIn.lookup(last) : nullptr;
    }
    if (!group || !hasRowsOf(group->front(), relu) || !hasRowsOf(ops.front(), relu)) {
      giveUp(ops, ops.size() - 1, claimed);
      continue;
    }
    OpBuilder builder(relu->getContext());
    if (last == relu) {
      builder.setInsertionPointAfter(relu);
      last = MarkPositiveOp::create(builder, relu.getLoc(), maskTypeOf(relu.getType()), relu);
      setOpId(last, getOpId(relu) + "/mask");
      group->push_back(last);
      claimed.insert(last);
      endingIn.erase(relu);
      endingIn[last] = group;
    }
    builder.setInsertionPoint(gradient);
    Value mask = last->getResult(0);
    if (RankedTensorType wanted = maskTypeOf(gradient.getType()); mask.getType() != wanted)
      mask = ReshapeOp::create(builder, gradient.getLoc(), wanted, mask);
    auto kept = KeepMarkedOp::create(builder, gradient.getLoc(), gradient.getType(),
                                     gradient.getGradient(), mask);
    kept->setDiscardableAttrs(gradient->getDiscardableAttrDictionary());
    claimed.erase(gradient);
    claimed.insert(kept);
    ops.back() = kept;
    gradient.replaceAllUsesWith(kept.getResult());
    gradient.erase();
  }
}

llvm::MapVector<DotGeneralOp, ReduceOp> autopar::takeSums(Block &block, Epilogues &epilogues,
                                                          DenseSet<Operation *> &claimed) {
  auto isWanted = [](DotGeneralOp, ReduceOp sum) { return sum->hasAttr(kSummedByProduct); };
  llvm::MapVector<DotGeneralOp, ReduceOp> sums = sumsOfProducts(block, isWanted);
  for (SmallVector<Operation *> &ops : epilogues) {
    auto product = dyn_cast<DotGeneralOp>(ops.front());
    if (!product || !sums.contains(product))
      continue;
    auto isAdded = [](Operation *op) {
      auto add = dyn_cast<BinaryOp>(op);
      return add && add.getKind() == BinaryKind::Add &&
             !add.getLhs().getDefiningOp<BroadcastOp>() &&
             !add.getRhs().getDefiningOp<BroadcastOp>();
    };
    auto other = llvm::find_if_not(ArrayRef(ops).drop_front(), isAdded);
    giveUp(ops, other - ops.begin(), claimed);
  }
  return sums;
}
