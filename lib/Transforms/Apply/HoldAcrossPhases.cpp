// SPDX-License-Identifier: Apache-2.0
// The pass autopar-hold-across-phases: in a training step, values that one phase hands to another
// get an operation at which they may change their sharding.
#include "Cost/KernelTraffic.h"
#include "Stages/StepPhase.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_HOLDACROSSPHASESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Holder {
public:
  explicit Holder(func::FuncOp function)
      : function(function), builder(function.getContext()),
        microBatches(function.getBody().front()) {}

  void run() {
    findPhases();
    if (phases.size() < 2)
      return; // Not a training step.
    llvm::SetVector<Operation *> made = madeOfParameters(function);
    for (BlockArgument argument : function.getArguments())
      if (isParameter(argument))
        holdReads(argument, nameOfArgument(argument));
    for (Operation *op : made)
      if (phaseOf.lookup(op) + 1 < phases.size() && !livesInUsers(op))
        for (OpResult result : op->getResults())
          holdMadeOfParameters(result);
    for (Operation &op :
         llvm::make_early_inc_range(function.getBody().front().without_terminator()))
      if (phaseOf.lookup(&op) + 1 < phases.size() && !isa<HoldOp>(op) && op.getNumOperands() > 0)
        for (OpResult result : op.getResults())
          holdForUpdate(result);
  }

private:
  void findPhases() {
    StepPhase walk;
    phases.push_back("forward");
    for (Operation &op : function.getBody().front()) {
      if (StringRef phase = walk.of(&op); !llvm::is_contained(phases, phase))
        phases.push_back(phase);
      phaseOf[&op] = phases.size() - 1;
    }
  }

  /// A copy of a parameter in bf16, above all. Where micro-batches read it, it may also be gathered
  /// once for all of them.
  void holdMadeOfParameters(OpResult made) {
    if (!isa<RankedTensorType>(made.getType()))
      return;
    std::string name = getOpId(made.getOwner()).str();
    Value held = made;
    if (llvm::any_of(made.getUsers(), [&](Operation *op) { return microBatches.runsOf(op) > 1; })) {
      builder.setInsertionPointAfter(made.getOwner());
      auto hold = HoldOp::create(builder, made.getLoc(), made.getType(), false, made);
      setOpId(hold, name + "/step");
      phaseOf[hold] = phaseOf.lookup(made.getOwner());
      made.replaceAllUsesExcept(hold, hold);
      held = hold;
    }
    holdReads(held, name);
  }

  /// Each phase but the last, which updates a parameter where it lies, reads it in a way of its
  /// own: what is gathered for the forward phase need not wait for the backward phase, and not for
  /// the next micro-batch either.
  void holdReads(Value value, const std::string &name) {
    for (size_t phase = 0; phase + 1 < phases.size(); ++phase)
      for (bool isEach : {false, true})
        holdReads(value, name, phase, isEach);
  }
  void holdReads(Value value, const std::string &name, size_t phase, bool isEach) {
    SmallVector<OpOperand *> uses;
    Operation *first = nullptr;
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (phaseOf.lookup(user) != phase || isa<HoldOp>(user) ||
          user->hasTrait<OpTrait::IsTerminator>() || (microBatches.runsOf(user) > 1) != isEach)
        continue;
      uses.push_back(&use);
      if (!first || user->isBeforeInBlock(first))
        first = user;
    }
    if (!first)
      return;
    builder.setInsertionPoint(first);
    auto hold = HoldOp::create(builder, first->getLoc(), value.getType(), false, value);
    setOpId(hold, name + "/" + phases[phase]);
    if (isEach)
      hold->setAttr(MicroBatches::everyTime, builder.getUnitAttr());
    phaseOf[hold] = phase;
    for (OpOperand *use : uses)
      use->set(hold);
  }

  /// A value that waits for the last phase: a partial sum may be reduced before it waits, or
  /// when it is read, once for all readers.
  void holdForUpdate(OpResult value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || type.getRank() == 0 || !isa<FloatType>(type.getElementType()))
      return;
    SmallVector<OpOperand *> uses;
    Operation *last = value.getOwner();
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (user->hasTrait<OpTrait::IsTerminator>())
        continue;
      if (phaseOf.lookup(user) + 1 == phases.size())
        uses.push_back(&use);
      else if (last->isBeforeInBlock(user))
        last = user;
    }
    if (uses.empty())
      return;
    builder.setInsertionPointAfter(last);
    auto waiting = HoldOp::create(builder, value.getLoc(), type, true, value);
    setOpId(waiting, getOpId(value.getOwner()) + "/waiting");
    phaseOf[waiting] = phaseOf.lookup(last);
    Operation *first = uses.front()->getOwner();
    for (OpOperand *use : uses)
      if (use->getOwner()->isBeforeInBlock(first))
        first = use->getOwner();
    builder.setInsertionPoint(first);
    auto read = HoldOp::create(builder, first->getLoc(), type, false, waiting);
    setOpId(read, getOpId(value.getOwner()) + "/read");
    phaseOf[read] = phaseOf.lookup(first);
    for (OpOperand *use : uses)
      use->set(read);
  }

  func::FuncOp function;
  OpBuilder builder;
  MicroBatches microBatches;
  SmallVector<StringRef> phases;
  DenseMap<Operation *, size_t> phaseOf;
};

struct HoldAcrossPhasesPass : mlir::autopar::impl::HoldAcrossPhasesPassBase<HoldAcrossPhasesPass> {
  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (!function.isExternal() && function.getBody().hasOneBlock())
      Holder(function).run();
  }
};

} // namespace
