// SPDX-License-Identifier: Apache-2.0
// The pass autopar-wait-behind: what would wait for a collective lets others compute first. A
// gradient that is reduced along two axes is read at the end of the step; a kernel in between would
// keep all that stands behind it waiting for the first half. What is added to an accumulator stays:
// the next micro-batch finds it there.
#include "StepParts.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_WAITBEHINDPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Goes through a part as its queues would, and puts off what would wait and is not read at once:
/// what is, others wait for, and their collectives would be late.
class Waiter {
public:
  explicit Waiter(const StepPart &part) : part(part) {}

  void run() {
    for (Operation *op : part.ops) {
      release(op);
      if (mayWait(op) && readyUs(op) > computeUs + part.times.launchUs())
        waiting.push_back(op);
      else
        count(op);
    }
    if (!waiting.empty())
      moveBehind(part.ops.back()->getNextNode());
  }

private:
  double readyUs(Operation *op) const {
    double us = 0;
    for (Value operand : op->getOperands())
      us = std::max(us, ready.lookup(operand));
    return us;
  }

  /// Kernels and collectives that do not replace state.
  bool mayWait(Operation *op) const {
    return isa<GroupOp, CastOp, BinaryOp, CollectiveOpInterface>(op) &&
           !part.work.updates.contains(op) && !part.work.free.contains(op);
  }

  static bool isReadBefore(Operation *op, Operation *place) {
    return llvm::any_of(op->getUsers(),
                        [&](Operation *user) { return !place->isBeforeInBlock(user); });
  }

  /// What has waited long enough, and what is read here, goes before `op`.
  void release(Operation *op) {
    size_t count = 0;
    for (size_t i = 0; i < waiting.size(); ++i)
      if (isReadBefore(waiting[i], op))
        count = i + 1;
    for (; !waiting.empty() && (count > 0 || readyUs(waiting.front()) <= computeUs);
         count -= count > 0) {
      Operation *first = waiting.front();
      waiting.erase(waiting.begin());
      moveTo(op, first);
      this->count(first);
    }
  }

  /// What still waits when all else is done.
  void moveBehind(Operation *end) {
    size_t stay = 0;
    for (size_t i = 0; i < waiting.size(); ++i)
      if (isReadBefore(waiting[i], end))
        stay = i + 1;
    for (Operation *op : ArrayRef(waiting).drop_front(stay))
      op->moveBefore(end);
  }

  /// What other parts read before that stays where it is.
  static void moveTo(Operation *place, Operation *op) {
    if (llvm::none_of(op->getUsers(), [&](Operation *user) {
          return user != place && user->isBeforeInBlock(place);
        }))
      op->moveBefore(place);
  }

  void count(Operation *op) {
    double us = readyUs(op);
    if (!part.work.free.contains(op) && !isa<TransferOp>(op)) {
      KernelTime::Parts parts = part.times.of(op);
      if (part.goesBeside(parts)) {
        if (parts.beforeUs > 0)
          us = computeUs = std::max(us, computeUs) + parts.beforeUs;
        us = collectiveUs = std::max({us, computeUs, collectiveUs}) + parts.collectiveUs;
        if (parts.afterUs > 0)
          us = computeUs = std::max(us, computeUs) + parts.afterUs;
      } else {
        us = computeUs = std::max(us, computeUs) + parts.sum();
      }
    }
    for (Value result : op->getResults())
      ready[result] = us;
  }

  const StepPart &part;
  SmallVector<Operation *> waiting; ///< in order
  DenseMap<Value, double> ready;
  double computeUs = 0, collectiveUs = 0;
};

struct WaitBehindPass : public mlir::autopar::impl::WaitBehindPassBase<WaitBehindPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(forEachPart(getOperation(), cluster, target, [](const StepPart &part) {
          if (!part.ops.empty())
            Waiter(part).run();
        })))
      signalPassFailure();
  }
};

} // namespace
