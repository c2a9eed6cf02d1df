// SPDX-License-Identifier: Apache-2.0
// The pass autopar-insert-recompute: what the function's `autopar.recompute` names is cloned for
// its readers in the backward pass, right before the first of them and behind a fence that waits
// for the gradient which that one reads. Fusion groups are formed before and cloned whole, so the
// clone runs the same kernel and gives the same bits, on GPUs also from a value on that they store;
// random numbers depend on seed and position, not on who draws them. What
// `autopar.offload_activations` names is stored in host memory instead and fetched ahead of those
// readers.
#include "HostCopies.h"
#include "Search/ShareGathers.h"
#include "Search/SplitKernels.h"
#include "Stages/Recompute.h"
#include "Stages/StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Views.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_INSERTRECOMPUTEPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Inserter {
public:
  explicit Inserter(func::FuncOp function)
      : function(function), block(function.getBody().front()), phases(block), stages(function),
        microBatches(block), ofParameters(madeOfParameters(function)),
        builder(function.getContext()), copies(stages, phases, microBatches) {
    for (Operation &op : block)
      positions[&op] = positions.size();
  }

  LogicalResult run(ArrayAttr again, ArrayAttr onHost) {
    if (failed(mark(again, kRecomputeAttribute, "to compute again", marked)) ||
        failed(mark(onHost, kOffloadActivationsAttribute, "to store in host memory", stored)))
      return failure();
    if (marked.empty() && stored.empty())
      return success();
    for (Operation &op : llvm::make_early_inc_range(block))
      if (phases.isBackward(&op))
        feedAgain(&op);
    copies.place();
    return success();
  }

private:
  LogicalResult mark(ArrayAttr names, StringRef attribute, StringRef what,
                     DenseSet<Operation *> &marked) {
    llvm::StringMap<bool> found;
    for (Attribute name : names) {
      auto text = dyn_cast<StringAttr>(name);
      if (!text)
        return function.emitOpError() << attribute << ": expected ids, got " << name;
      found[text.getValue()] = false;
    }
    for (Operation &op : block) {
      // What forms a group with derivatives is computed in the backward pass already.
      if (phases.isBackward(&op))
        continue;
      bool isNamed = false;
      op.walk([&](Operation *inner) {
        auto it = found.find(getOpId(inner));
        if (it != found.end())
          it->second = isNamed = true;
      });
      if (!isNamed)
        continue;
      if (StringRef why = whyNotRecomputed(&op); !why.empty())
        return op.emitOpError("cannot be ")
               << (attribute == kRecomputeAttribute ? "computed again" : "stored in host memory")
               << ": " << why << "; take \"" << getOpId(&op) << "\" out of "
               << attribute.drop_front(StringRef("autopar.").size())
               << ", whose operations compute from what their stage has";
      marked.insert(&op);
    }
    for (Attribute name : names)
      if (!found.lookup(cast<StringAttr>(name).getValue()))
        function.emitRemark() << "no operation of the forward pass is left of " << name << " "
                              << what;
    return success();
  }

  /// Marked, or a look at what is.
  bool isAgain(Operation *op) const {
    while (op && !phases.isBackward(op)) {
      if (marked.contains(op) || stored.contains(op))
        return true;
      if (!isLookedThrough(op))
        return false;
      op = op->getOperand(0).getDefiningOp();
    }
    return false;
  }

  /// Lets an operation of the backward pass read clones; makes those that are not there yet.
  void feedAgain(Operation *user) {
    IRMapping &clones = clonesOf[{stages.of(user), microBatches.phaseOf(user)}];
    SmallVector<Operation *> wanted, worklist{user};
    SmallVector<Value> fetched;
    DenseSet<Operation *> seen;
    DenseSet<Value> seenFetched; // of a kernel that both lists name, too
    while (!worklist.empty())
      for (Value operand : worklist.pop_back_val()->getOperands()) {
        Operation *op = operand.getDefiningOp();
        if (!op || !isAgain(op) || clones.contains(operand))
          continue;
        if (stored.contains(op)) {
          if (seenFetched.insert(operand).second)
            fetched.push_back(operand);
        } else if (seen.insert(op).second) {
          wanted.push_back(op);
          worklist.push_back(op);
        }
      }
    llvm::sort(wanted, [&](Operation *a, Operation *b) {
      return positions.lookup(a) < positions.lookup(b);
    });
    builder.setInsertionPoint(user);
    Value gradient = wanted.empty() && fetched.empty() ? Value() : gradientOf(user);
    for (Value value : fetched)
      clones.map(value, copies.add(value, user, gradient));
    for (Operation *op : wanted) // parameters are gathered ahead of the gradient
      clone(op, ofParameters.contains(op) ? Value() : gradient, clones);
    for (OpOperand &operand : user->getOpOperands())
      operand.set(clones.lookupOrDefault(operand.get()));
  }

  /// What the user waits for: of what it reads from the backward pass, rather what the gradient of
  /// the stage's input needs anyway.
  Value gradientOf(Operation *user) const {
    Value found;
    for (Value operand : user->getOperands())
      if (Operation *op = operand.getDefiningOp(); op && phases.isBackward(op)) {
        if (phases.of(op) == ::autopar::StagePhase::Backward)
          return operand;
        found = found ? found : operand;
      }
    return found;
  }

  void clone(Operation *op, Value gradient, IRMapping &clones) {
    SmallVector<Value> kept;
    for (Value operand : op->getOperands())
      if (Operation *producer = operand.getDefiningOp();
          !clones.contains(operand) && !llvm::is_contained(kept, operand) &&
          !(producer && producer->hasTrait<OpTrait::ConstantLike>()))
        kept.push_back(operand);
    IRMapping operands = clones;
    if (!kept.empty()) {
      auto fence =
          FenceOp::create(builder, op->getLoc(), ValueRange(kept).getTypes(), kept, gradient);
      if (!getOpId(op).empty())
        setOpId(fence, getOpId(op) + "/fence");
      operands.map(kept, fence.getResults());
    }
    Operation *copy = builder.clone(*op, operands);
    if (!getOpId(op).empty())
      setOpId(copy, getOpId(op) + "/recompute");
    clones.map(op->getResults(), copy->getResults());
  }

  func::FuncOp function;
  Block &block;
  StagePhases phases;
  Stages stages;
  MicroBatches microBatches;
  llvm::SetVector<Operation *> ofParameters;
  OpBuilder builder;
  DenseMap<Operation *, int64_t> positions;
  DenseSet<Operation *> marked, stored;
  /// By stage, as what is on no stage is computed again on each that reads it; and by when the
  /// readers run, as a clone that waits for a gradient of each micro-batch runs in each.
  std::map<std::pair<int64_t, MicroBatchPhase>, IRMapping> clonesOf;
  HostCopies copies;
};

/// Groups of which only one part is named by one of the lists.
SmallVector<SplitKernel> splitAtNames(func::FuncOp function, Target target, ArrayAttr again,
                                      ArrayAttr onHost) {
  llvm::StringSet<> named[2];
  for (size_t list : {0, 1})
    for (Attribute name : list == 0 ? again : onHost)
      if (auto text = dyn_cast<StringAttr>(name))
        named[list].insert(text.getValue());
  return splitKernels(function, target,
                      [&](ArrayRef<Operation *> first, ArrayRef<Operation *> second) {
                        return llvm::any_of(named, [&](const llvm::StringSet<> &set) {
                          auto isNamed = [&](Operation *op) { return set.contains(getOpId(op)); };
                          return llvm::any_of(first, isNamed) != llvm::any_of(second, isNamed);
                        });
                      });
}

struct InsertRecomputePass : mlir::autopar::impl::InsertRecomputePassBase<InsertRecomputePass> {
  using Base::Base;

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    if (function.isExternal() || (!function->hasAttr(kRecomputeAttribute) &&
                                  !function->hasAttr(kOffloadActivationsAttribute)))
      return;
    if (!function.getBody().hasOneBlock()) {
      function.emitOpError("has several blocks; expected one");
      return signalPassFailure();
    }
    ArrayAttr again = takeNames(kRecomputeAttribute);
    ArrayAttr onHost = takeNames(kOffloadActivationsAttribute);
    if (!again.empty())
      shareGathers(function);
    SmallVector<SplitKernel> kernels = splitAtNames(function, target, again, onHost);
    if (failed(Inserter(function).run(again, onHost)))
      signalPassFailure();
    joinKernels(kernels);
  }

private:
  ArrayAttr takeNames(StringRef attribute) {
    auto names = dyn_cast_or_null<ArrayAttr>(getOperation()->removeAttr(attribute));
    return names ? names : ArrayAttr::get(&getContext(), {});
  }
};

} // namespace
