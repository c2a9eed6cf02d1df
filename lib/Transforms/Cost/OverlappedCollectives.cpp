// SPDX-License-Identifier: Apache-2.0
// See the header. Orders are found by a walk through a micro-batch as its queues would go.
#include "OverlappedCollectives.h"

#include "QueueWalk.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Place = function_ref<void(Operation *op, Operation *collective)>;

class MicroBatchWalk {
public:
  MicroBatchWalk(const StepWork &work, KernelTime &times)
      : work(work), times(times), queues(times) {
    foresee();
  }

protected:
  KernelTime::Parts partsOf(Operation *op) {
    return work.free.contains(op) || isa<TransferOp>(op) ? KernelTime::Parts() : times.of(op);
  }
  bool goesBeside(Operation *op) { return times.goesBeside(partsOf(op)); }

  /// Also what only hands on what that makes, and is read where it lies.
  void visit(Operation *op) {
    queues.run(op, partsOf(op));
    made.insert(op);
    for (Operation *user : op->getUsers())
      if (handsOn.contains(user) && !made.contains(user) && isReady(user))
        visit(user);
  }

  bool isReady(Operation *op) const {
    return llvm::all_of(op->getOperands(),
                        [&](Value operand) { return made.contains(operand.getDefiningOp()); });
  }

  /// Whether one that started now would be through when the next collective of the micro-batch
  /// starts, which is so far away if nothing waits.
  bool fits(Operation *op, double nextUs) {
    double start = std::max({queues.readyUs(op), queues.computeUs, queues.collectiveUs});
    return start + partsOf(op).sum() <= queues.computeUs + nextUs;
  }

  const StepWork &work;
  KernelTime &times;
  QueueWalk queues;
  DenseSet<Operation *> handsOn, made;
  /// For each operation of a micro-batch when it starts, if nothing waits, and the collective at or
  /// behind it.
  std::vector<double> atUs, collectiveAtUs;

private:
  void foresee() {
    double us = 0;
    for (Operation *op : work.inEach) {
      atUs.push_back(us);
      KernelTime::Parts parts = partsOf(op);
      us += parts.sum() - (times.goesBeside(parts) ? parts.collectiveUs : 0);
    }
    collectiveAtUs.assign(work.inEach.size() + 1, kNever);
    for (size_t i = work.inEach.size(); i-- > 0;)
      collectiveAtUs[i] = goesBeside(work.inEach[i]) ? atUs[i] : collectiveAtUs[i + 1];
    atUs.push_back(us);
  }
};

/// Sums of what all micro-batches made, with the last one.
class LastMicroBatch : MicroBatchWalk {
public:
  using MicroBatchWalk::MicroBatchWalk;

  void find(Place place) {
    SmallVector<Operation *> waiting = candidates();
    for (size_t i = 0; i < work.inEach.size() && !waiting.empty(); ++i) {
      visit(work.inEach[i]);
      llvm::erase_if(waiting, [&](Operation *next) {
        if (!isReady(next) || !fits(next, collectiveAtUs[i + 1] - atUs[i + 1]))
          return false;
        visit(next);
        place(work.inEach[i], next);
        return true;
      });
    }
  }

private:
  /// Collectives of what micro-batches made, or of each other.
  SmallVector<Operation *> candidates() {
    DenseSet<Operation *> own(work.inEach.begin(), work.inEach.end());
    SmallVector<Operation *> found;
    for (Operation *op : work.atEnd) {
      bool isOfMade =
          op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value operand) {
            return own.contains(operand.getDefiningOp());
          });
      if (!isOfMade)
        continue;
      if (work.free.contains(op))
        handsOn.insert(op);
      else if (isa<CollectiveOpInterface>(op) && goesBeside(op))
        found.push_back(op);
      else
        continue;
      own.insert(op);
    }
    return found;
  }
};

/// Gathers of what all micro-batches read, with the first one.
class FirstMicroBatch : MicroBatchWalk {
public:
  using MicroBatchWalk::MicroBatchWalk;

  void find(Place place) {
    std::vector<Gather> waiting = gathers();
    if (waiting.empty() || collectiveAtUs[0] == kNever)
      return; // nothing is in their way
    double allFirst = endWithAllFirst();
    Pairs places;
    start(waiting);
    for (auto [i, op] : llvm::enumerate(work.inEach)) {
      llvm::erase_if(waiting, [&, i = i, op = op](const Gather &gather) {
        bool isDue = gather.reader <= i || gather.latestUs <= atUs[i];
        if (!isDue && !fits(gather.op, collectiveAtUs[i] - atUs[i]))
          return false;
        visit(gather.op);
        add(gather.op, op, places);
        return true;
      });
      visit(op);
    }
    if (queues.endUs() >= allFirst)
      return;
    for (auto [op, gather] : places)
      place(op, gather);
  }

private:
  using Pairs = SmallVector<std::pair<Operation *, Operation *>>;

  struct Gather {
    Operation *op;
    size_t reader;       ///< the first in the micro-batch
    double latestUs = 0; ///< it has to start, for all readers to have theirs in time
  };

  /// In the order of their readers; nothing else at the start of the step reads them.
  std::vector<Gather> gathers() {
    DenseMap<Operation *, size_t> readers; // of what an operation makes, the first
    for (auto [i, op] : llvm::enumerate(work.inEach))
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          readers.try_emplace(maker, i);
    DenseSet<Operation *> others; // whose results others at the start read
    std::vector<Gather> found;
    for (Operation *op : llvm::reverse(work.atStart)) {
      auto reader = readers.find(op);
      bool mayWait = reader != readers.end() && !others.contains(op);
      if (mayWait && work.free.contains(op) && op->getNumOperands() == 1) {
        handsOn.insert(op);
        if (Operation *maker = op->getOperand(0).getDefiningOp())
          if (auto [known, isNew] = readers.try_emplace(maker, reader->second); !isNew)
            known->second = std::min(known->second, reader->second);
        continue;
      }
      if (mayWait && isa<CollectiveOpInterface>(op) && goesBeside(op))
        found.push_back({op, reader->second});
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          others.insert(maker);
    }
    std::reverse(found.begin(), found.end());
    llvm::stable_sort(found, [](const Gather &a, const Gather &b) { return a.reader < b.reader; });
    double latest = kNever;
    for (Gather &gather : llvm::reverse(found)) {
      latest = std::min(latest, atUs[gather.reader]) - partsOf(gather.op).sum();
      gather.latestUs = latest;
    }
    return found;
  }

  /// A gather, and what hands its result on.
  void add(Operation *gather, Operation *place, Pairs &places) const {
    places.emplace_back(place, gather);
    for (Operation *user : gather->getUsers())
      if (handsOn.contains(user))
        add(user, place, places);
  }

  /// The start of the step, but for what waits.
  void start(ArrayRef<Gather> waiting) {
    DenseSet<Operation *> left;
    for (const Gather &gather : waiting)
      left.insert(gather.op);
    for (Operation *op : work.atStart)
      if (!left.contains(op) && !handsOn.contains(op))
        visit(op);
  }

  double endWithAllFirst() {
    QueueWalk all(times);
    for (const std::vector<Operation *> *part : {&work.atStart, &work.inEach})
      for (Operation *op : *part)
        all.run(op, partsOf(op));
    return all.endUs();
  }
};

} // namespace

OverlappedCollectives::OverlappedCollectives(const StepWork &work, KernelTime &times) {
  FirstMicroBatch(work, times).find([&](Operation *op, Operation *gather) {
    before[op].push_back(gather);
    all.insert(gather);
  });
  LastMicroBatch(work, times).find([&](Operation *op, Operation *sum) {
    behind[op].push_back(sum);
    all.insert(sum);
  });
}
