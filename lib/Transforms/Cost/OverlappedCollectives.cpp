// SPDX-License-Identifier: Apache-2.0
// See the header. Orders are found by a walk through a micro-batch as its queues would go.
#include "OverlappedCollectives.h"

#include "MeshRows.h"
#include "QueueWalk.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
using Place = function_ref<void(Operation *op, Operation *collective)>;

/// Through operations in order.
class MicroBatchWalk {
public:
  MicroBatchWalk(const StepWork &work, KernelTime &times, ArrayRef<Operation *> ops)
      : work(work), times(times), queues(times), ops(ops) {
    foresee();
  }

protected:
  KernelTime::Parts partsOf(Operation *op) { return work.partsOf(op, times); }
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
  ArrayRef<Operation *> ops;
  DenseSet<Operation *> handsOn, made;
  /// For each of them when it starts, if nothing waits, and the collective at or behind it.
  std::vector<double> atUs, collectiveAtUs;

private:
  void foresee() {
    double us = 0;
    for (Operation *op : ops) {
      atUs.push_back(us);
      KernelTime::Parts parts = partsOf(op);
      us += parts.sum() - (times.goesBeside(parts) ? parts.collectiveUs : 0);
    }
    collectiveAtUs.assign(ops.size() + 1, kNever);
    for (size_t i = ops.size(); i-- > 0;)
      collectiveAtUs[i] = goesBeside(ops[i]) ? atUs[i] : collectiveAtUs[i + 1];
    atUs.push_back(us);
  }
};

/// Sums of what all micro-batches made, with the last one.
class LastMicroBatch : MicroBatchWalk {
public:
  LastMicroBatch(const StepWork &work, KernelTime &times, const MeshRows &rows)
      : MicroBatchWalk(work, times, rows.last), rows(rows) {
    made.insert_range(rows.others);
  }

  void find(Place place) {
    SmallVector<Operation *> waiting = candidates();
    double us = 0;
    for (Operation *sum : waiting)
      us += partsOf(sum).sum();
    if (us <= rows.leavesUs)
      return; // who waits for the last row would only wait longer
    for (size_t i = 0; i < ops.size() && !waiting.empty(); ++i) {
      visit(ops[i]);
      llvm::erase_if(waiting, [&](Operation *next) {
        if (!isReady(next) || !fits(next, collectiveAtUs[i + 1] - atUs[i + 1]))
          return false;
        visit(next);
        place(ops[i], next);
        return true;
      });
    }
  }

private:
  /// Collectives of what micro-batches made, or of each other.
  SmallVector<Operation *> candidates() {
    DenseSet<Operation *> own(ops.begin(), ops.end());
    own.insert_range(rows.others);
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

  const MeshRows &rows;
};

/// Gathers of what all micro-batches read, with the first one.
class FirstMicroBatch : MicroBatchWalk {
public:
  /// `atStart`: what runs before.
  FirstMicroBatch(const StepWork &work, KernelTime &times, const MeshRows &rows,
                  ArrayRef<Operation *> atStart)
      : MicroBatchWalk(work, times, rows.first), atStart(atStart), arrivesUs(rows.arrivesUs) {}

  void find(Place place) {
    std::vector<Gather> waiting = gathers();
    if (waiting.empty() || collectiveAtUs[0] == kNever)
      return; // nothing is in their way
    double allFirst = endWithAllFirst();
    Pairs places;
    start(waiting);
    for (auto [i, op] : llvm::enumerate(ops)) {
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
    for (auto [i, op] : llvm::enumerate(ops))
      for (Value operand : op->getOperands())
        if (Operation *maker = operand.getDefiningOp())
          readers.try_emplace(maker, i);
    DenseSet<Operation *> others; // whose results others at the start read
    std::vector<Gather> found;
    for (Operation *op : llvm::reverse(atStart)) {
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

  /// The start of the step, but for what waits. What is through by the time that the first
  /// micro-batch comes here need not.
  void start(std::vector<Gather> &waiting) {
    DenseSet<Operation *> left;
    for (const Gather &gather : waiting)
      left.insert(gather.op);
    for (Operation *op : atStart)
      if (!left.contains(op) && !handsOn.contains(op))
        visit(op);
    llvm::erase_if(waiting, [&](const Gather &gather) {
      if (!fits(gather.op, arrivesUs - queues.computeUs))
        return false;
      visit(gather.op);
      return true;
    });
    queues.computeUs = std::max(queues.computeUs, arrivesUs);
  }

  double endWithAllFirst() {
    QueueWalk all(times);
    for (Operation *op : atStart)
      all.run(op, partsOf(op));
    all.computeUs = std::max(all.computeUs, arrivesUs);
    for (Operation *op : ops)
      all.run(op, partsOf(op));
    return all.endUs();
  }

  ArrayRef<Operation *> atStart;
  double arrivesUs;
};

} // namespace

std::vector<OverlappedCollectives> OverlappedCollectives::find(const StepWork &work,
                                                               const Schedule &schedule,
                                                               std::vector<KernelTime> &times) {
  std::vector<OverlappedCollectives> found(schedule.meshes);
  if (schedule.microBatches == 1)
    return found;
  std::vector<MeshRows> pipeline = meshRows(work, schedule, times);
  for (auto [mesh, own] : llvm::enumerate(found)) {
    const MeshRows &rows = pipeline[mesh];
    own.firstArrivesUs = rows.arrivesUs;
    auto add = [&own = own](Places &places, Operation *op, Operation *collective) {
      places[op].push_back(collective);
      own.all.insert(collective);
    };
    auto atStart = llvm::filter_to_vector(
        work.atStart, [&, mesh = mesh](Operation *op) { return work.places.at(op).test(mesh); });
    FirstMicroBatch(work, times[mesh], rows, atStart).find([&](Operation *op, Operation *gather) {
      add(own.before, op, gather);
    });
    LastMicroBatch(work, times[mesh], rows).find([&](Operation *op, Operation *sum) {
      add(own.behind, op, sum);
    });
  }
  return found;
}
