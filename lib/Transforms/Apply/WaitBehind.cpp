// SPDX-License-Identifier: Apache-2.0
// The pass autopar-wait-behind: what would wait for a collective lets others compute first, and a
// collective that nobody waits for lets those go first that others wait for. A gradient that is
// reduced along two axes is read at the end of the step; a kernel in between would keep all that
// stands behind it waiting for the first half, and both halves what is exchanged for the layer
// below. What is added to an accumulator stays: the next micro-batch finds it there.
#include "StepParts.h"

#include "Cost/QueueWalk.h"

#include "autopar/Interfaces/TensorLayout.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_WAITBEHINDPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

/// Goes through a part as its queues would, and puts off what would wait, or make others wait, and
/// is not read at once: what is, others wait for, and their collectives would be late.
class Waiter {
public:
  explicit Waiter(const StepPart &part) : part(part), queues(part.times) { foresee(); }

  void run() {
    for (here = 0; here < part.ops.size(); ++here) {
      Operation *op = part.ops[here];
      if (!isPatient(here)) // else it follows what it reads
        goOnFor(here, op);
      release(op);
      bool wouldWait = queues.readyUs(op) > queues.computeUs + part.times.launchUs();
      bool isInTheWay = isPatient(here) && (readsWaiting(here) || !fits(here));
      if (foreseen[here].mayWait && (wouldWait || isInTheWay))
        putOff(here);
      else
        queues.run(op, foreseen[here].parts);
    }
    Operation *end = part.ops.back()->getNextNode();
    for (size_t i : waiting)
      part.ops[i]->moveBefore(end);
  }

private:
  /// What an operation takes, and when what it makes is needed, in time of the compute queue if
  /// that never waited.
  struct Foreseen {
    KernelTime::Parts parts;
    bool goesBeside = false;
    bool mayWait = false;
    bool waits = false;
    SmallVector<uint32_t, 4> reads; ///< operations of the part, one for each operand that is theirs
    /// When its operands are there; below 0: while one of them waits, or nobody asked.
    double readyUs = -1;
    double atUs = 0; ///< the compute queue comes to it
    double neededUs = kNever;
    double urgentUs = kNever; ///< the next collective that is waited for must start
  };

  void foresee() {
    double us = 0;
    foreseen.resize(part.ops.size());
    std::vector<uint32_t> uses(part.ops.size(), 0); // in this part
    numbers.reserve(part.ops.size());
    for (auto [i, op] : llvm::enumerate(part.ops)) {
      Foreseen &own = foreseen[i];
      for (Value operand : op->getOperands())
        if (auto number = numbers.find(operand.getDefiningOp()); number != numbers.end()) {
          own.reads.push_back(number->second);
          ++uses[number->second];
        }
      numbers[op] = i;
      own.atUs = us;
      if (part.work.free.contains(op) || isa<TransferOp>(op))
        continue;
      own.parts = part.times.of(op);
      own.goesBeside = part.times.goesBeside(own.parts);
      us += own.parts.sum() - (own.goesBeside ? own.parts.collectiveUs : 0);
    }
    for (auto [own, op, inPart] : llvm::zip_equal(foreseen, part.ops, uses))
      own.mayWait = mayWait(op, inPart);
    double urgentUs = kNever;
    for (size_t i = part.ops.size(); i-- > 0;) {
      Foreseen &own = foreseen[i]; // all that reads it has been here
      double latest = latestUs(i);
      for (uint32_t read : own.reads)
        foreseen[read].neededUs = std::min(foreseen[read].neededUs, latest);
      if (own.goesBeside && own.neededUs < kNever)
        urgentUs = std::max(own.atUs, std::min(urgentUs, own.neededUs) - own.parts.sum());
      own.urgentUs = urgentUs;
    }
  }

  /// When a reader has to have what it reads.
  double latestUs(size_t i) const {
    const Foreseen &reader = foreseen[i];
    if (part.work.free.contains(part.ops[i]))
      return reader.neededUs;
    return isPatient(i) ? reader.neededUs - reader.parts.sum() : reader.atUs;
  }

  /// Whether nobody waits for a collective that starts where the program has it.
  bool isPatient(size_t i) const {
    const Foreseen &own = foreseen[i];
    return own.goesBeside && own.mayWait && own.neededUs - own.atUs > own.parts.sum();
  }

  /// Kernels and collectives that do not replace state, and that nobody outside reads meanwhile.
  /// Asked for while nothing was moved: afterwards the block would be numbered again each time.
  bool mayWait(Operation *op, size_t usesInPart) const {
    Operation *end = part.ops.back();
    return isa<GroupOp, CastOp, BinaryOp, CollectiveOpInterface>(op) &&
           !part.work.updates.contains(op) && !part.work.free.contains(op) &&
           (usesInPart == static_cast<size_t>(llvm::range_size(op->getUses())) ||
            llvm::all_of(op->getUsers(), [&](Operation *user) {
              return numbers.contains(user) || end->isBeforeInBlock(user);
            }));
  }

  /// When the operands of something that waits are there, or of what is asked for anew.
  double readyUs(size_t i) {
    double &known = foreseen[i].readyUs;
    if (known >= 0)
      return known;
    double us = queues.readyUs(part.ops[i]);
    if (!readsWaiting(i))
      known = us;
    return us;
  }

  /// Whether a collective that started now would be through when the next one that others wait for
  /// could start.
  bool fits(size_t i) {
    double start = std::max({readyUs(i), queues.computeUs, queues.collectiveUs});
    return start + foreseen[i].parts.sum() <=
           queues.computeUs + foreseen[here].urgentUs - foreseen[here].atUs;
  }

  /// Whether what waits may go on before the operation that is here.
  bool isDue(size_t i) {
    bool wouldWait = readyUs(i) > queues.computeUs;
    if (!isPatient(i) || (wouldWait && foreseen[i].parts.beforeUs > 0))
      return !wouldWait;
    bool isLate = foreseen[i].neededUs - foreseen[here].atUs <= foreseen[i].parts.sum();
    return isLate || keptBytes > part.waitingBytes || fits(i);
  }

  bool readsWaiting(size_t i) const {
    return llvm::any_of(foreseen[i].reads, [&](uint32_t read) { return foreseen[read].waits; });
  }

  static int64_t bytesOf(Operation *op) {
    int64_t bytes = 0;
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
        bytes += tensorBytes(type);
    return bytes;
  }

  void putOff(size_t i) {
    isSettled = false;
    waiting.push_back(i);
    foreseen[i].waits = true;
    keptBytes += bytesOf(part.ops[i]);
  }

  void goOn(size_t i, Operation *place) {
    isSettled = false;
    llvm::erase(waiting, i);
    foreseen[i].waits = false;
    keptBytes -= bytesOf(part.ops[i]);
    part.ops[i]->moveBefore(place);
    queues.run(part.ops[i], foreseen[i].parts);
  }

  /// What waits and is read goes before the reader, behind what that reads.
  void goOnFor(size_t reader, Operation *place) {
    for (uint32_t read : foreseen[reader].reads)
      if (foreseen[read].waits) {
        goOnFor(read, place);
        goOn(read, place);
      }
  }

  /// What `isDue` needs at least of the queues, of all that waits and reads nothing that does.
  struct Least {
    double readyUs = kNever; ///< of what goes on once it is there
    double us = kNever;      ///< of the others, how long they take
    double lateUs = kNever;  ///< and where they begin to be late
  };

  void include(size_t i, Least &least) {
    const Foreseen &own = foreseen[i];
    if (!isPatient(i)) {
      least.readyUs = std::min(least.readyUs, readyUs(i));
      return;
    }
    constexpr double rounding = 1e-9; // which is not that of isDue
    least.us = std::min(least.us, own.parts.sum());
    if (own.neededUs < kNever)
      least.lateUs =
          std::min(least.lateUs, own.neededUs - own.parts.sum() - rounding * own.neededUs);
  }

  /// Whether all that waits still does, as nothing else was put off or went on since.
  bool isNoneDue() const {
    const Foreseen &next = foreseen[here];
    return isSettled && queues.computeUs < least.readyUs && next.atUs < least.lateUs &&
           keptBytes <= part.waitingBytes &&
           std::max(queues.computeUs, queues.collectiveUs) + least.us >
               queues.computeUs + next.urgentUs - next.atUs;
  }

  /// What has waited long enough goes before `op`.
  void release(Operation *op) {
    if (isNoneDue())
      return;
    least = Least();
    isSettled = true;
    for (size_t k = 0; k < waiting.size();) {
      size_t i = waiting[k];
      bool isReady = foreseen[i].readyUs >= 0 || !readsWaiting(i); // what went on waits no more
      if (isReady && isDue(i)) {
        goOn(i, op); // the next one takes its place
        continue;
      }
      if (isReady)
        include(i, least);
      ++k;
    }
  }

  const StepPart &part;
  std::vector<Foreseen> foreseen; ///< of each operation of the part
  DenseMap<Operation *, size_t> numbers;
  size_t here = 0;
  SmallVector<size_t> waiting; ///< in order
  int64_t keptBytes = 0;       ///< that they read
  Least least;                 ///< of those that wait, where `isSettled`
  bool isSettled = false;      ///< nothing was put off, or went on, since all that waits was asked
  QueueWalk queues;
};

struct WaitBehindPass : public mlir::autopar::impl::WaitBehindPassBase<WaitBehindPass> {
  using Base::Base;

  void runOnOperation() override {
    auto wait = [](const StepPart &part) {
      if (!part.ops.empty())
        Waiter(part).run();
    };
    if (failed(forEachPart(getOperation(), cluster, target, memoryLimit, &getAnalysis<KnownTimes>(),
                           wait)))
      return signalPassFailure();
    markAnalysesPreserved<KnownTimes>();
  }
};

} // namespace
