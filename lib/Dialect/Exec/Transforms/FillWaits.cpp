// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fill-waits: while a kernel waits for a collective, those run that stood before
// the collective and that nobody waits for yet, products of weights' gradients above all. Megatron
// starts the reduction of one product of a layer before the other (Shoeybi et al., 2019); here any
// kernel may be the one that is put off, of another layer, micro-batch or stage too.
//
// A kernel is moved only from before the collective that another waits for to where that waits, so
// no instruction starts later than it did but the moved one, and the order of what other ranks take
// part in stays.
#include "InstructionTime.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Dialect/Exec/Transforms/Passes.h"

#include <array>
#include <deque>

namespace mlir::exec {
#define GEN_PASS_DEF_FILLWAITSPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
using ::autopar::artifact::kQueueCount;

/// What is shorter is not worth a kernel that keeps its operands.
constexpr double kLeastWaitUs = 10;
constexpr std::array<double, 4> kLeastWaitsUs = {64 * kLeastWaitUs, 16 * kLeastWaitUs,
                                                 4 * kLeastWaitUs, kLeastWaitUs};
/// How far back kernels are looked for.
constexpr size_t kReach = 1024;
/// How many of them are tried, and how many others may go with one.
constexpr size_t kMostTries = 4, kMostOfGroup = 8;

class Filler {
public:
  Filler(EntryOp entry, int64_t mostBytes) : mostBytes(mostBytes) {
    for (Operation &op : entry.getBody().front())
      add(cast<InstructionOpInterface>(op));
    for (Instruction &one : instructions)
      for (Value value : one.op.getReads())
        if (BufferOp buffer = rootOf(value).first; accesses[buffer].last == one.number)
          one.keptBytes += bytesOf(value);
  }

  void run() {
    queues.resize(order.size() + 1);
    // There are often fewer kernels than waits: the longest first.
    for (double leastUs : kLeastWaitsUs)
      for (size_t place = 0; place < order.size(); ++place) {
        start(place);
        while (order[place]->waitUs > leastUs && fill(place)) {
        }
      }
    for (size_t place = 1; place < order.size(); ++place)
      order[place]->op->moveAfter(order[place - 1]->op);
  }

private:
  struct Instruction {
    InstructionOpInterface op;
    Queue queue;
    double us;
    int32_t number;                              ///< as it stood
    size_t place;                                ///< as it stands
    SmallVector<Instruction *, 4> before, after; ///< whom it depends on, and who depends on it
    int64_t keptBytes = 0;                       ///< that it is the last one to read
    double startUs = 0, waitUs = 0, endUs = 0;
    Instruction *previous = nullptr; ///< of its queue
    bool isMoved = false;
  };

  struct Access {
    Instruction *writer = nullptr;
    SmallVector<Instruction *, 4> readers; ///< since
    int32_t last = -1;
  };

  /// What each queue is busy with.
  struct Queues {
    std::array<Instruction *, kQueueCount> last{};
  };

  void add(InstructionOpInterface op) {
    auto number = static_cast<int32_t>(instructions.size());
    Instruction &own = instructions.emplace_back(
        Instruction{op, op.getQueue(), microseconds(op), number, order.size()});
    order.push_back(&own);
    auto follow = [&](Instruction *other) {
      if (other && other != &own && !llvm::is_contained(own.before, other)) {
        own.before.push_back(other);
        other->after.push_back(&own);
      }
    };
    for (Value value : op.getReads())
      follow(accesses[rootOf(value).first].writer);
    for (Value value : op.getWrites()) {
      Access &access = accesses[rootOf(value).first];
      follow(access.writer);
      llvm::for_each(access.readers, follow);
    }
    for (Value value : op.getReads()) {
      Access &access = accesses[rootOf(value).first];
      access.readers.push_back(&own);
      access.last = number;
    }
    for (Value value : op.getWrites())
      accesses[rootOf(value).first] = {&own, {}, number};
  }

  /// Whoever ends last of those that an instruction depends on.
  static Instruction *lastBefore(const Instruction &one) {
    auto last = llvm::max_element(
        one.before, [](Instruction *a, Instruction *b) { return a->endUs < b->endUs; });
    return last == one.before.end() ? nullptr : *last;
  }

  /// Starts what stands at a place when its queue and all that it depends on are through.
  void start(size_t place) {
    Instruction &own = *order[place];
    auto queue = static_cast<size_t>(own.queue);
    bool isInOrder =
        !::autopar::artifact::endsInAnyOrder(static_cast<::autopar::artifact::Queue>(queue));
    own.previous = isInOrder ? queues[place].last[queue] : nullptr;
    double freeUs = own.previous ? own.previous->endUs : 0;
    Instruction *last = lastBefore(own);
    own.startUs = std::max(freeUs, last ? last->endUs : 0);
    own.endUs = own.startUs + own.us;
    own.waitUs = own.queue == Queue::Compute ? own.startUs - freeUs : 0;
    queues[place + 1] = queues[place];
    queues[place + 1].last[queue] = &own;
  }

  /// The kernel that would have to end earlier for what stands at a place to start earlier.
  static Instruction *kernelBehind(const Instruction &waiting) {
    Instruction *cause = lastBefore(waiting);
    while (cause && cause->queue != Queue::Compute) {
      Instruction *last = lastBefore(*cause);
      cause = last && last->endUs >= cause->startUs ? last : cause->previous;
    }
    return cause;
  }

  /// A kernel with those that need it before what others wait for, in order.
  struct Group {
    SmallVector<Instruction *, 4> kernels;
    double us = 0;
    size_t to = 0; ///< the place that they may go before
  };

  /// Moves what fits best into the wait at a place, if anything makes that shorter.
  bool fill(size_t place) {
    std::vector<Group> groups;
    Instruction *behind = kernelBehind(*order[place]);
    for (Instruction *kernel = behind;
         kernel && kernel->previous && place - kernel->previous->place < kReach;) {
      // What stands beside a collective that was waited for would be missing there.
      kernel = kernel->waitUs > 0 ? kernelBehind(*kernel) : kernel->previous;
      if (!kernel || kernel->isMoved)
        continue;
      if (Group group = groupOf(*kernel, behind->place, place); !group.kernels.empty())
        groups.push_back(std::move(group));
    }
    double waitUs = order[place]->waitUs;
    llvm::stable_sort(groups, [&](const Group &a, const Group &b) {
      return a.us < waitUs ? a.us > b.us : b.us >= waitUs && a.us < b.us;
    });
    if (groups.size() > kMostTries)
      groups.resize(kMostTries);
    return llvm::any_of(groups, [&](const Group &group) { return moveIfShorter(group, place); });
  }

  /// What goes from before the place `behind` to before `place`, or what needs it sooner. Empty
  /// where one of the group is no kernel, or too much memory would be kept.
  Group groupOf(Instruction &kernel, size_t behind, size_t place) const {
    Group group{{&kernel}, 0, place};
    int64_t bytes = 0;
    for (size_t i = 0; i < group.kernels.size(); ++i) {
      Instruction &own = *group.kernels[i];
      if (own.queue != Queue::Compute || own.isMoved || group.kernels.size() > kMostOfGroup)
        return {};
      group.us += own.us;
      bytes += own.keptBytes;
      for (Instruction *other : own.after)
        if (other->place > behind)
          group.to = std::min(group.to, other->place);
        else if (!llvm::is_contained(group.kernels, other))
          group.kernels.push_back(other);
    }
    for (const auto &[to, kept] : moved)
      if (to > kernel.place)
        bytes += kept;
    if (bytes > mostBytes)
      return {};
    llvm::sort(group.kernels, [](auto *a, auto *b) { return a->place < b->place; });
    return group;
  }

  bool moveIfShorter(const Group &group, size_t place) {
    size_t from = group.kernels.front()->place;
    double startUs = order[place]->startUs;
    std::vector<Instruction *> before(order.begin() + from, order.begin() + group.to);
    auto stays = [&](Instruction *one) { return !llvm::is_contained(group.kernels, one); };
    std::stable_partition(order.begin() + from, order.begin() + group.to, stays);
    startFrom(from, place);
    if (order[place]->startUs > startUs - kLeastWaitUs) {
      llvm::copy(before, order.begin() + from);
      startFrom(from, place);
      return false;
    }
    for (Instruction *one : group.kernels) {
      one->isMoved = true;
      moved.push_back({group.to, one->keptBytes});
    }
    return true;
  }

  void startFrom(size_t from, size_t place) {
    for (size_t again = from; again <= place; ++again) {
      order[again]->place = again;
      start(again);
    }
  }

  int64_t mostBytes;
  std::deque<Instruction> instructions;
  std::vector<Instruction *> order;
  DenseMap<Operation *, Access> accesses;
  std::vector<Queues> queues;                    ///< before what stands at each place
  SmallVector<std::pair<size_t, int64_t>> moved; ///< where to, and the bytes that are kept for it
};

struct FillWaitsPass : exec::impl::FillWaitsPassBase<FillWaitsPass> {
  using Base::Base;

  void runOnOperation() override {
    int64_t mostBytes = limit > 0 ? limit / kWorthOfWaiting : std::numeric_limits<int64_t>::max();
    for (auto entry : getOperation().getOps<EntryOp>())
      Filler(entry, mostBytes).run();
  }
};

} // namespace
