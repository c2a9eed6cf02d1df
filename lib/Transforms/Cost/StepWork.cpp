// SPDX-License-Identifier: Apache-2.0
#include "StepWork.h"

#include "ViewCopies.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/InPlace.h"
#include "autopar/Transforms/JoinedResults.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/Views.h"

using namespace mlir;
using namespace mlir::autopar;

StepWork::StepWork(StepOrder order, const ::autopar::Schedule &schedule)
    : phases(std::move(order.phases)), microBatches(std::move(order.microBatches)),
      function(order.function), block(function.getBody().front()), schedule(schedule),
      stages(std::move(order.stages)) {
  findFree();
  findUpdates();
  findPlaces();
}

//===-- What costs something -----------------------------------------------------------------===//

/// Gradients of query, key and value are written where they are read as one tensor.
static bool isWrittenInParts(Operation *op) {
  if (!isa<ConcatOp>(op))
    return false;
  Operation *source = op->getOperand(0).getDefiningOp();
  while (isWholeView(source))
    source = source->getOperand(0).getDefiningOp();
  return isa_and_nonnull<AttentionGradOp>(source) && concatOfResults(source) == op;
}

/// What is read where it lies, made when parameters are read, or a word that a rank knows.
void StepWork::findFree() {
  ViewCopies copies;
  DenseSet<Value> atLoad;
  for (BlockArgument argument : function.getArguments())
    if (function.getArgAttr(argument.getArgNumber(), "autopar.origin") &&
        !function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
      atLoad.insert(argument);
  for (Operation &op : block.without_terminator()) {
    bool isKnown = op.hasTrait<OpTrait::ConstantLike>();
    if (!isKnown && op.getNumOperands() &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return atLoad.contains(operand); }))
      isKnown = isMemoryEffectFree(&op) && !hasLibraryContraction(&op) &&
                !isa<CollectiveOpInterface, TransferOp>(op);
    if (isKnown)
      atLoad.insert_range(op.getResults());
    bool isRead = isView(&op) && !copies.isCopied(&op);
    if (isRead || isKnown || isWrittenInParts(&op) ||
        isa<FenceOp, CarriedOp, CarryOp, MicroBatchOp, MicroBatchIndexOp, ShardIndexOp, HoldOp>(op))
      free.insert(&op);
  }
}

/// Whether a kernel writes a state's next value where the state lies; else a copy makes it state.
static bool isWrittenInPlace(Value value, BlockArgument state) {
  auto result = dyn_cast<OpResult>(value);
  if (!result)
    return value == state;
  int64_t replaced =
      operandToReplace(result.getOwner(), result.getResultNumber(), [](Value) { return true; });
  return replaced >= 0 && result.getOwner()->getOperand(replaced) == state;
}

/// State is written once it is known that no metric forbids it.
void StepWork::findUpdates() {
  for (auto [number, value, state] :
       llvm::enumerate(block.getTerminator()->getOperands(), donorsOfResults(function))) {
    if (state)
      updates.insert(value.getDefiningOp());
    if (state && value.getDefiningOp() && isWrittenInPlace(value, state))
      inPlace.insert(value.getDefiningOp());
    if (function.getResultAttr(number, "autopar.guard"))
      guards.push_back(value);
    if (function.getResultAttr(number, "autopar.metric"))
      metrics.push_back(value);
  }
}

SmallVector<StepWork::CopiedState> StepWork::copiedStates() const {
  SmallVector<CopiedState> copied;
  for (auto [value, state] :
       llvm::zip_equal(block.getTerminator()->getOperands(), donorsOfResults(function))) {
    Operation *op = state ? value.getDefiningOp() : nullptr;
    if (!op)
      continue;
    // Who reads what lies in host memory writes it in place.
    bool isStored = isOnHost(state) && !llvm::is_contained(op->getOperands(), state);
    if (isStored || !isWrittenInPlace(value, state))
      copied.push_back({value, isStored});
  }
  return copied;
}

//===-- Where and when --------------------------------------------------------------------===//

bool StepWork::isEach(Operation *op) const {
  return microBatches.phaseOf(op) == MicroBatchPhase::Each && !MicroBatches::joins(op);
}

int32_t StepWork::meshOf(Operation *op) const {
  return schedule.meshOf(std::max<int64_t>(0, stages.of(op)));
}

int32_t StepWork::senderOf(TransferOp transfer) const {
  int64_t stage = stages.senderOf(transfer);
  return stage == Stages::kNone ? -1 : schedule.meshOf(stage);
}

/// What is on no stage is made on every mesh that reads it.
void StepWork::findPlaces() {
  DenseSet<Operation *> beforeAll;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    llvm::SmallBitVector on(schedule.meshes);
    if (stages.of(&op) != Stages::kNone || schedule.meshes == 1) {
      on.set(meshOf(&op));
    } else {
      for (Operation *user : op.getUsers())
        if (auto it = places.find(user); it != places.end() && !isa<TransferOp>(user))
          on |= it->second;
    }
    places[&op] = on;
    if (microBatches.phaseOf(&op) == MicroBatchPhase::Before &&
        llvm::any_of(op.getUsers(),
                     [&](Operation *user) { return isEach(user) || beforeAll.contains(user); }))
      beforeAll.insert(&op);
  }
  for (Operation &op : block.without_terminator()) {
    if (isEach(&op)) {
      inEach.push_back(&op);
      if (!isa<TransferOp>(op))
        for (unsigned mesh : places[&op].set_bits())
          rows[{rowStage(&op, mesh), phases.of(&op)}].push_back(&op);
      else if (Operation *producer = op.getOperand(0).getDefiningOp();
               producer && stages.of(producer) != Stages::kNone)
        sent[{stages.of(producer), phases.of(producer)}].push_back(cast<TransferOp>(op));
    } else {
      (beforeAll.contains(&op) ? atStart : atEnd).push_back(&op);
    }
  }
}

/// A mesh that has several stages makes what is on none for the first of them.
int64_t StepWork::rowStage(Operation *op, unsigned mesh) const {
  return stages.of(op) == Stages::kNone ? mesh : stages.of(op);
}
