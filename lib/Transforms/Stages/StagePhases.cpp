// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

/// Adds `wanted` and what it depends on through operations for which `isIncluded`.
static void addDependences(Operation *wanted, DenseSet<Operation *> &found,
                           function_ref<bool(Operation *)> isIncluded) {
  SmallVector<Operation *> worklist{wanted};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val();
    if (!op || !isIncluded(op) || !found.insert(op).second)
      continue;
    for (Value operand : op->getOperands())
      worklist.push_back(operand.getDefiningOp());
  }
}

static StringRef scheduleNameOf(Operation *function) {
  auto name = function->getAttrOfType<StringAttr>(kScheduleAttribute);
  return name ? name.getValue() : "1f1b";
}

StagePhases::StagePhases(Block &block)
    : block(block), splitsBackward(::autopar::splitsBackward(scheduleNameOf(block.getParentOp()))) {
  findWhatLossNeeds(block);
  // Constants are shared by both passes, whoever they are named after. What is behind a fence is
  // computed again for the backward pass, what was stored in host memory is fetched for it.
  SmallVector<TransferOp> transfers;
  SmallVector<CarriedOp> carrieds;
  SmallVector<CarryOp> carries;
  auto readsBackward = [&](Operation &op) {
    return llvm::any_of(op.getOperands(),
                        [&](Value operand) { return backward.contains(operand.getDefiningOp()); });
  };
  for (Operation &op : block.without_terminator()) {
    if (op.getNumOperands() > 0 && !isTowardsLoss(&op) &&
        (readsBackward(op) || isa<FenceOp, FetchFromHostOp>(op) || getOpId(&op).contains("/vjp")))
      backward.insert(&op);
    if (auto transfer = dyn_cast<TransferOp>(op))
      transfers.push_back(transfer);
    else if (auto carried = dyn_cast<CarriedOp>(op))
      carrieds.push_back(carried);
    else if (auto carry = dyn_cast<CarryOp>(op))
      carries.push_back(carry);
  }
  addWhatOnlyBackwardReads(block);
  // What is sent once, behind all micro-batches (a summand of the gradients' norm), waits for
  // everything anyway: nobody waits for its part in a micro-batch.
  auto isPart = [](Operation *op) { return !isa<TransferOp>(op) && !MicroBatches::joins(op); };
  for (TransferOp transfer : transfers)
    addDependences(transfer.getInput().getDefiningOp(), sent, isPart);
  // Where the kernel also adds to a sum, the next micro-batch's is to find it there.
  DenseSet<int64_t> sums;
  for (CarriedOp carried : carrieds)
    if (llvm::any_of(carried->getUsers(), [&](Operation *user) { return sent.contains(user); }))
      sums.insert(carried.getNumber());
  for (CarryOp carry : carries)
    if (sums.contains(carry.getNumber())) {
      addDependences(carry.getInput().getDefiningOp(), sent, isPart);
      sent.insert(carry);
    }
}

void StagePhases::findWhatLossNeeds(Block &block) {
  auto function = dyn_cast<func::FuncOp>(block.getParentOp());
  if (!function)
    return;
  for (OpOperand &result : block.getTerminator()->getOpOperands()) {
    if (function.getResultAttr(result.getOperandNumber(), kEvaluatedAttribute))
      addDependences(result.get().getDefiningOp(), towardsLoss, [](Operation *) { return true; });
  }
}

/// A reshard for the weight gradient stands where that is computed and stays there: made in the
/// forward pass its result would wait for it, which is as a rule more than what it is made of.
void StagePhases::addWhatOnlyBackwardReads(Block &block) {
  auto isBehind = [&](Operation *user) { return isBackward(user) && !isa<TransferOp>(user); };
  auto first = llvm::find_if(block, [&](Operation &op) { return isBackward(&op); });
  for (Operation &op : llvm::reverse(llvm::make_range(first, block.end())))
    if (!isBackward(&op) && op.getNumOperands() > 0 && !op.use_empty() &&
        !isa<TransferOp, StoreOnHostOp>(op) && llvm::all_of(op.getUsers(), isBehind))
      backward.insert(&op);
}

::autopar::StagePhase StagePhases::of(Operation *op) const {
  using ::autopar::StagePhase;
  if (!isBackward(op))
    return StagePhase::Forward;
  // The gradient of the stage's input is what is sent; nobody waits for the rest.
  return splitsBackward && !sent.contains(op) ? StagePhase::Weight : StagePhase::Backward;
}

LogicalResult StagePhases::verifyDirection(const Stages &stages,
                                           const MicroBatches &microBatches) const {
  for (auto transfer : block.getOps<TransferOp>()) {
    Operation *producer = transfer.getInput().getDefiningOp();
    if (microBatches.phaseOf(transfer) != MicroBatchPhase::Each || !producer)
      continue;
    int64_t from = stages.of(producer), to = transfer.getStage();
    bool isOfBackward = isBackward(producer);
    for (Operation *user : transfer->getUsers()) {
      bool staysInPhase = isBackward(user) == isOfBackward;
      if (staysInPhase && (isOfBackward ? to > from : to < from))
        return user->emitOpError()
               << "\"" << getOpId(user) << "\" reads \"" << getOpId(producer) << "\" of stage "
               << from << " in stage " << to << " in the "
               << (isOfBackward ? "backward" : "forward")
               << " pass of a micro-batch, which goes from the "
               << (isOfBackward ? "last stage to the first" : "first stage to the last")
               << "; expected both on one stage, or the reader on the one that is later in that "
                  "pass";
    }
  }
  return success();
}

StepOrder::StepOrder(func::FuncOp function)
    : function(function), stages(function), microBatches(function.getBody().front()),
      phases(function.getBody().front()) {}

::autopar::Result<::autopar::Schedule> StepOrder::schedule() const {
  return scheduleOf(function, stages, microBatches, phases);
}

::autopar::Result<::autopar::Schedule> mlir::autopar::scheduleOf(func::FuncOp function,
                                                                 const Stages &stages,
                                                                 const MicroBatches &microBatches,
                                                                 const StagePhases &phases) {
  auto meshes = function->getAttrOfType<IntegerAttr>(kStageMeshesAttribute);
  return ::autopar::makeSchedule(scheduleNameOf(function), stages.count(),
                                 meshes ? meshes.getInt() : 1, microBatches.count(),
                                 phases.trains());
}

::autopar::Result<::autopar::Schedule> mlir::autopar::scheduleOf(func::FuncOp function) {
  return StepOrder(function).schedule();
}
