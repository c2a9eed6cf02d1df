// SPDX-License-Identifier: Apache-2.0
// The pass autopar-unroll-micro-batches: what runs once per micro-batch is written out in the order
// in which it runs. Groups are cloned whole, so that every micro-batch runs the same kernels.
#include "autopar/Dialect/AutoPar/IR/OwnShard.h"
#include "autopar/Dialect/AutoPar/IR/Reduction.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_UNROLLMICROBATCHESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Unroller {
public:
  explicit Unroller(Block &block) : block(block), phases(block), builder(block.getTerminator()) {}

  void run() {
    SmallVector<Operation *> each, after;
    for (Operation &op : block.without_terminator()) {
      if (phases.phaseOf(&op) == MicroBatchPhase::Each)
        each.push_back(&op);
      else if (phases.phaseOf(&op) == MicroBatchPhase::After)
        after.push_back(&op);
    }
    for (current = 0; current < phases.count(); ++current) {
      IRMapping mapping;
      for (Operation *op : each)
        write(op, mapping);
    }
    for (Operation *op : after)
      op->moveBefore(block.getTerminator());
    for (Operation *op : llvm::reverse(each))
      op->erase();
  }

private:
  bool isLast() const { return current + 1 == phases.count(); }

  /// Operations of micro-batch i are called `id@i`.
  template <typename Op>
  Value named(Op made, Operation *original) {
    setOpId(made, getOpId(original) + "@" + Twine(current));
    return made->getResult(0);
  }

  void write(Operation *op, IRMapping &mapping) {
    if (auto part = dyn_cast<MicroBatchOp>(op))
      return mapping.map(part.getResult(), takePart(part));
    if (isa<MicroBatchIndexOp>(op))
      return mapping.map(op->getResult(0), i64Scalar(builder, op->getLoc(), current));
    if (auto stack = dyn_cast<StackMicroBatchesOp>(op))
      return join(stack, mapping.lookup(stack.getInput()));
    if (auto carried = dyn_cast<CarriedOp>(op)) {
      if (current > 0)
        mapping.map(op->getResult(0), handedOn[carried.getNumber()]);
      return;
    }
    if (auto carry = dyn_cast<CarryOp>(op)) {
      Value value = mapping.lookup(carry.getInput());
      handedOn[carry.getNumber()] = value;
      if (isLast())
        carry.getResult().replaceAllUsesWith(value);
      return;
    }
    if (current == 0 && writeFirst(op, mapping))
      return;
    Operation *copy = builder.clone(*op, mapping);
    named(copy, op);
  }

  Value takePart(MicroBatchOp op) {
    Value input = op.getInput();
    auto all = cast<RankedTensorType>(input.getType());
    SmallVector<int64_t> shape(all.getShape()), starts(all.getRank(), 0);
    shape.front() = 1;
    starts.front() = current;
    Value slice = named(SliceOp::create(builder, op.getLoc(),
                                        RankedTensorType::get(shape, all.getElementType()), input,
                                        starts, SmallVector<int64_t>(all.getRank(), 1)),
                        op);
    return ReshapeOp::create(builder, op.getLoc(), op.getType(), slice);
  }

  void join(StackMicroBatchesOp op, Value part) {
    auto all = cast<RankedTensorType>(op.getType());
    SmallVector<int64_t> shape(all.getShape());
    shape.front() = 1;
    stacks[op].push_back(ReshapeOp::create(
        builder, op.getLoc(), RankedTensorType::get(shape, all.getElementType()), part));
    if (!isLast())
      return;
    auto joined = ConcatOp::create(builder, op.getLoc(), all, stacks[op], 0);
    setOpId(joined, getOpId(op));
    op.getResult().replaceAllUsesWith(joined);
  }

  /// The first micro-batch has nothing to add to: the additions fall away. False for an operation
  /// that reads nothing carried.
  bool writeFirst(Operation *op, IRMapping &mapping) {
    if (llvm::none_of(op->getOperands(),
                      [](Value operand) { return operand.getDefiningOp<CarriedOp>(); }))
      return false;
    if (auto sum = dyn_cast<BinaryOp>(op)) {
      bool isFirst = sum.getLhs().getDefiningOp<CarriedOp>() != nullptr;
      mapping.map(sum.getResult(), mapping.lookup(isFirst ? sum.getRhs() : sum.getLhs()));
      return true;
    }
    for (Value operand : op->getOperands())
      if (auto carried = operand.getDefiningOp<CarriedOp>())
        mapping.map(operand,
                    buildIdentity(builder, op->getLoc(), cast<RankedTensorType>(operand.getType()),
                                  static_cast<ReductionKind>(carried.getKind())));
    Operation *copy = builder.clone(*op, mapping);
    named(copy, op);
    if (auto group = dyn_cast<GroupOp>(copy)) {
      SmallVector<unsigned> numbers;
      for (OpOperand &operand : op->getOpOperands())
        if (operand.get().getDefiningOp<CarriedOp>())
          numbers.push_back(operand.getOperandNumber());
      dropAdditions(group, numbers);
    }
    return true;
  }

  /// Lets the inputs `numbers`, which are identities, fall away where they are only added.
  static void dropAdditions(GroupOp group, ArrayRef<unsigned> numbers) {
    for (unsigned number : llvm::reverse(numbers)) {
      BlockArgument argument = group.getBody().getArgument(number);
      auto sum = argument.hasOneUse() ? dyn_cast<BinaryOp>(*argument.user_begin()) : BinaryOp();
      if (!sum)
        continue;
      sum.getResult().replaceAllUsesWith(sum.getLhs() == argument ? sum.getRhs() : sum.getLhs());
      sum.erase();
      group.getBody().eraseArgument(number);
      group->eraseOperand(number);
    }
  }

  Block &block;
  MicroBatches phases;
  OpBuilder builder;
  int64_t current = 0; ///< micro-batch that is being written
  DenseMap<int64_t, Value> handedOn;
  DenseMap<Operation *, SmallVector<Value>> stacks;
};

struct UnrollMicroBatchesPass
    : public mlir::autopar::impl::UnrollMicroBatchesPassBase<UnrollMicroBatchesPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isExternal() && function.getBody().hasOneBlock())
      Unroller(function.getBody().front()).run();
  }
};

} // namespace
