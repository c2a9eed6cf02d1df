// SPDX-License-Identifier: Apache-2.0
// The pass autopar-reduce-while-cached: what reduces a value to almost nothing, like the norm of a
// gradient, runs right behind what computes the value, whose end the caches still hold.
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_REDUCEWHILECACHEDPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A result that is smaller by this takes no room worth speaking of while it waits for its readers.
constexpr int64_t kShrinkage = 1024;

int64_t elementsOf(Value value) { return cast<RankedTensorType>(value.getType()).getNumElements(); }

/// Whether a value comes from other ranks: it is there some time after its operation has begun.
bool isBrought(Value value) {
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ViewOpInterface>(op))
    return isBrought(op->getOperand(0));
  return isa_and_nonnull<ReceiveOp, CollectiveOpInterface>(op);
}

/// The last operation that gives `group` an operand, if `group` reduces what it gives. What
/// collectives and messages bring is not waited for any earlier than before.
GroupOp reducedSource(GroupOp group) {
  if (llvm::any_of(group.getInputs(), isBrought))
    return {};
  Operation *last = nullptr;
  for (Value input : group.getInputs())
    if (Operation *source = input.getDefiningOp();
        source && (!last || last->isBeforeInBlock(source)))
      last = source;
  int64_t read = 0, given = 0;
  for (Value input : group.getInputs())
    if (input.getDefiningOp() == last)
      read = std::max(read, elementsOf(input));
  for (Value result : group.getResults())
    given += elementsOf(result);
  return last && given * kShrinkage <= read ? dyn_cast<GroupOp>(last) : GroupOp();
}

struct ReduceWhileCachedPass
    : mlir::autopar::impl::ReduceWhileCachedPassBase<ReduceWhileCachedPass> {
  void runOnOperation() override {
    for (GroupOp group : llvm::make_early_inc_range(getOperation().getOps<GroupOp>()))
      if (GroupOp source = reducedSource(group))
        group->moveAfter(source);
  }
};

} // namespace
