// SPDX-License-Identifier: Apache-2.0
// The pass autopar-overlap-parts: what would wait for its collectives is computed in two parts, of
// which one computes while the other communicates. Those who serve large models by hand split a
// batch so (the two-batch overlap of DeepSeek-V3, 2024, section 3.4; Domino, Wang et al., 2024),
// and compilers products beside their own collective (Wang et al., "Overlap Communication with
// Dependent Computation via Decomposition", ASPLOS 2023). Here the parts are those of any dimension
// that goes through: samples, or the positions of one.
#include "Cost/QueueWalk.h"
#include "PartWriter.h"

#include "autopar/Transforms/OverlapParts.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_OVERLAPPARTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Overlapper {
public:
  /// `saves`: of the time of the part of the step, what there has to be waited for, and saved.
  Overlapper(const StepPart &part, func::FuncOp function, double saves)
      : part(part), function(function), saves(saves), reach(candidates, PartWriter::kParts) {}

  /// What was written in parts, to be erased once nobody asks for it any more.
  SmallVector<Operation *> run() {
    if (part.ops.empty() || waitedUs() < saves * wholeUs)
      return {};
    reachFromCollectives();
    if (reach.empty())
      return {};
    PartWriter writer(part, reach);
    std::vector<Placed> fastest;
    if (succeeded(writer.write())) {
      double best = (1 - saves) * wholeUs;
      for (int64_t lag : {0, 1}) {
        std::vector<Placed> order = ordered(writer.placed(), lag);
        if (double us = timeUs(order, writer.wholes()); us < best) {
          best = us;
          fastest = std::move(order);
        }
      }
    }
    if (!fastest.empty())
      return writer.take(fastest);
    writer.giveUp();
    return {};
  }

private:
  using Placed = PartWriter::Placed;

  //===-- What waits, and what can be split --------------------------------------------------===//

  double waitedUs() {
    QueueWalk queues(part.times);
    double computeUs = 0;
    for (Operation *op : part.ops) {
      KernelTime::Parts parts = timesOf(op, part.work.free.contains(op));
      queues.run(op, parts);
      computeUs += parts.sum() - (part.times.goesBeside(parts) ? parts.collectiveUs : 0);
    }
    wholeUs = queues.endUs();
    return wholeUs - computeUs;
  }

  KernelTime::Parts timesOf(Operation *op, bool isFree) const {
    return isFree || isa<TransferOp>(op) ? KernelTime::Parts() : part.times.of(op);
  }

  /// Whether a value is computed from parameters alone.
  bool isOfParameters(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op)
      return function.getArgAttr(cast<BlockArgument>(value).getArgNumber(), "autopar.origin") !=
             nullptr;
    auto [known, isNew] = ofParameters.try_emplace(op, false);
    if (!isNew)
      return known->second;
    bool isAll =
        llvm::all_of(op->getOperands(), [this](Value operand) { return isOfParameters(operand); });
    return ofParameters[op] = isAll;
  }

  /// What takes no time and is no view says how a step is made up.
  bool mayBeSplit(Operation *op) {
    bool isMark = part.work.free.contains(op) && !isa<ViewOpInterface, GroupOp>(op);
    return !isMark && !part.work.updates.contains(op) && isMemoryEffectFree(op) &&
           !isa<TransferOp, StackMicroBatchesOp>(op) && op->getNumResults() > 0 &&
           !isOfParameters(op->getResult(0));
  }

  /// What is reached from the collectives, each from the dimension of its value from which most
  /// that is waited for is.
  void reachFromCollectives() {
    SmallVector<Operation *> collectives;
    for (Operation *op : part.ops)
      if (mayBeSplit(op)) {
        candidates.insert(op);
        if (isa<CollectiveOpInterface>(op))
          collectives.push_back(op);
      }
    for (Operation *op : collectives) {
      if (reach.contains(op))
        continue;
      Value from;
      SplitPlace place, best;
      double most = 0;
      for (Value side : {op->getOperand(0), Value(op->getResult(0))})
        for (place.dim = 0; place.dim < tensorTypeOf(side).getRank(); ++place.dim) {
          SmallVector<Operation *> reached = reach.follow(side, place);
          if (double us = worthUs(reached); us > most) {
            most = us;
            from = side;
            best = place;
          }
          reach.forget(reached);
        }
      if (from)
        reach.follow(from, best);
    }
  }

  /// The collectives among what is reached, less what joining parts, and taking them apart where
  /// they do not lie together, copies.
  double worthUs(ArrayRef<Operation *> reached) const {
    double us = 0;
    for (Operation *op : reached) {
      if (isa<CollectiveOpInterface>(op))
        us += part.times.of(op).collectiveUs;
      for (OpOperand &operand : op->getOpOperands()) {
        Operation *maker = operand.get().getDefiningOp();
        std::optional<SplitPlace> place = reach.placeRead(op, operand.getOperandNumber());
        if (place && place->blocks > 1 && !(maker && reach.contains(maker)))
          us -= part.times.copyUs(tensorTypeOf(operand.get()));
      }
      for (Value result : op->getResults())
        if (llvm::any_of(result.getUsers(), [&](Operation *user) { return !reach.contains(user); }))
          us -= part.times.copyUs(tensorTypeOf(result));
    }
    return us;
  }

  //===-- Order -------------------------------------------------------------------------------===//

  /// What is placed in the order of levels, each part so many behind the one before it. What reads
  /// nothing that is made here stands where its first reader does.
  static std::vector<Placed> ordered(ArrayRef<Placed> placed, int64_t lag) {
    std::vector<Placed> order = placed.vec();
    DenseMap<Operation *, int64_t> firstLevel;
    int64_t last = 0;
    for (Placed &one : order)
      if (one.level != PartWriter::kFirstReaders)
        last = std::max(last, one.level +=
                              lag * std::clamp<int64_t>(one.slot, 0, PartWriter::kParts - 1));
    for (Placed &one : llvm::reverse(order)) {
      if (one.level == PartWriter::kFirstReaders) {
        auto known = firstLevel.find(one.op);
        one.level = known == firstLevel.end() ? last : known->second;
      }
      for (Value operand : one.op->getOperands())
        if (Operation *maker = operand.getDefiningOp()) {
          auto [known, isNew] = firstLevel.try_emplace(maker, one.level);
          known->second = std::min(known->second, one.level);
        }
    }
    llvm::stable_sort(order, [](const Placed &a, const Placed &b) {
      return std::tie(a.level, a.slot) < std::tie(b.level, b.slot);
    });
    return order;
  }

  double timeUs(ArrayRef<Placed> order, const llvm::MapVector<Value, Value> &wholes) const {
    DenseMap<Operation *, Value> joined;
    for (auto [value, whole] : wholes)
      joined[whole.getDefiningOp()] = value;
    QueueWalk queues(part.times);
    for (const Placed &one : order) {
      queues.run(one.op, timesOf(one.op, one.isFree));
      if (Value value = joined.lookup(one.op))
        queues.setReady(value, one.op->getResult(0));
    }
    return queues.endUs();
  }

  const StepPart &part;
  func::FuncOp function;
  double saves;
  DenseMap<Operation *, bool> ofParameters;
  DenseSet<Operation *> candidates;
  DimensionReach reach;
  double wholeUs = 0;
};

struct OverlapPartsPass : public mlir::autopar::impl::OverlapPartsPassBase<OverlapPartsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> replaced;
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    // Of a step of training, products of weights' gradients fill the waits (autopar-fill-waits),
    // and what is kept for the backward pass would have to be joined. Devices that move the bytes
    // of messages themselves compute less meanwhile.
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return;
    FailureOr<bool> isBeside = communicatesBeside(function, cluster);
    if (failed(isBeside))
      return signalPassFailure();
    if (!*isBeside || StagePhases(function.getBody().front()).trains())
      return;
    auto overlap = [&](const StepPart &part) {
      if (part.device.communicatesWhileIdle)
        return;
      llvm::append_range(replaced, Overlapper(part, function, saves).run());
    };
    if (failed(forEachPart(getOperation(), cluster, target, memoryLimit, nullptr, overlap)))
      return signalPassFailure();
    for (Operation *op : llvm::reverse(replaced))
      op->erase();
    if (!replaced.empty())
      getOperation()->setAttr(
          kInPartsAttribute,
          Builder(&getContext()).getI64IntegerAttr(static_cast<int64_t>(replaced.size())));
  }
};

} // namespace
