// SPDX-License-Identifier: Apache-2.0
// Static memory: every buffer gets an offset, so that the peak is known before anything runs.
// Greedy by size, the strategy that Pisarchyk and Lee found best among simple ones ("Efficient
// memory management for deep neural net inference", 2020).
#include "InstructionTime.h"
#include "PlacedBuffers.h"
#include "ProgramRounds.h"

#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "autopar/VirtualTime/FillWaits.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <array>
#include <optional>

namespace mlir::exec {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
/// Of every buffer; those as large as `alignment` start at multiples of that.
constexpr int64_t kLeastAlignment = 64;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
/// How much longer a message may take than it is thought to. The most that can be spared is.
constexpr std::array<double, 4> kLateness = {4, 2, 1, 0.5};
/// And of what a small program takes no more than one in so many.
constexpr int64_t kMostOfPeak = 8;
/// One part in so many of the memory is left alone until the end, where a message reads it: who
/// receives it may be late too.
constexpr int64_t kSmall = 1024 * ::autopar::kWorthOfWaiting;

/// A buffer and the instructions, counted through all entries, between which its bytes matter.
struct Interval {
  BufferOp buffer;
  int64_t first = kForever, last = -1;
  std::array<int64_t, kLateness.size()> sent{}; ///< until when messages read it, about
  int64_t entryEnds = -1;                       ///< of the entry that sends it
  int64_t bytes = 0;
  int64_t offset = -1;
  Operation *within = nullptr; ///< the buffer whose bytes this one continues

  void include(int64_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
};

using Intervals = llvm::MapVector<Operation *, Interval>;

Intervals liveIntervals(ProgramOp program, int64_t alignment) {
  Intervals intervals;
  for (auto buffer : program.getOps<BufferOp>()) {
    Interval &interval = intervals[buffer];
    interval.buffer = buffer;
    int64_t span = (buffer.getSlots() - 1) * buffer.getSlotStride() + buffer.getBytes();
    interval.bytes =
        llvm::alignTo(std::max<int64_t>(span, 1), span < alignment ? kLeastAlignment : alignment);
  }
  // `load` comes first; what it writes and a later entry uses must last for all steps.
  int64_t time = 1, stepBegins = 1;
  for (auto entry : program.getOps<EntryOp>()) {
    bool isLoad = entry.getSymName() == "load";
    if (!isLoad && stepBegins == 1)
      stepBegins = time;
    for (Operation &op : entry.getBody().front()) {
      auto instruction = cast<InstructionOpInterface>(op);
      for (Value value : instruction.getReads())
        intervals[rootOf(value).first].include(time);
      for (Value value : instruction.getWrites())
        intervals[rootOf(value).first].include(time);
      ++time;
    }
  }
  if (!program.lookupSymbol("load"))
    stepBegins = 1;
  for (auto port : program.getOps<PortOp>())
    if (port.getBuffer()) {
      Interval &interval = intervals[rootOf(port.getBuffer()).first];
      bool lasts = port.getRole() == Role::Parameter || port.getRole() == Role::State;
      interval.include(lasts ? 0 : stepBegins);
      interval.include(kForever);
    }
  for (auto &[op, interval] : intervals) {
    if (interval.buffer.getBinding() != Binding::None) {
      interval.include(0);
      interval.include(kForever);
    } else if (interval.first < stepBegins && interval.last >= stepBegins) {
      interval.last = kForever;
    }
  }
  return intervals;
}

/// The instructions of an entry, counted through all entries.
std::pair<int64_t, int64_t> timesOf(ProgramOp program, EntryOp wanted) {
  int64_t time = 1;
  for (auto entry : program.getOps<EntryOp>()) {
    auto count = static_cast<int64_t>(entry.getBody().front().getOperations().size());
    if (entry == wanted)
      return {time, time + count - 1};
    time += count;
  }
  return {0, 0};
}

/// What a round reads before it writes it has to be there for the next round too, and what it hands
/// on until its end.
void liveThroughRounds(ProgramOp program, const ProgramRounds &rounds, Intervals &intervals) {
  EntryOp round = rounds.repeated();
  if (!round)
    return;
  int64_t last = timesOf(program, round).second;
  llvm::SmallDenseSet<Operation *> written, handedTo;
  for (HandOnOp op : rounds.handOns()) {
    handedTo.insert(op.getTo().getDefiningOp());
    intervals[op.getFrom().getDefiningOp()].include(last);
  }
  for (Operation &op : round.getBody().front()) {
    auto instruction = cast<InstructionOpInterface>(op);
    for (Value value : instruction.getReads()) {
      Operation *root = rootOf(value).first;
      if (!written.contains(root) && !handedTo.contains(root))
        intervals[root].include(last);
    }
    for (Value value : instruction.getWrites())
      written.insert(rootOf(value).first);
  }
}

bool mayContinue(Interval &replaced, Interval &written, int64_t time) {
  auto isOwn = [](BufferOp buffer) {
    return buffer.getBinding() == Binding::None && buffer.getSlots() == 1;
  };
  return replaced.last == time && written.first == time && replaced.bytes == written.bytes &&
         replaced.buffer.getSpace() == written.buffer.getSpace() && isOwn(replaced.buffer) &&
         isOwn(written.buffer);
}

/// Results that may be written over an operand which nobody needs any more get its bytes: what the
/// library accumulates into is then in place already.
void continueInPlace(ProgramOp program, Intervals &intervals) {
  int64_t time = 1;
  for (auto entry : program.getOps<EntryOp>())
    for (Operation &op : entry.getBody().front()) {
      auto instruction = cast<InstructionOpInterface>(op);
      int64_t now = time++;
      Value replaced = instruction.getReplaced();
      if (!replaced)
        continue;
      auto [from, fromOffset] = rootOf(replaced);
      auto [to, toOffset] = rootOf(instruction.getWrites().front());
      auto readsFrom = [&](Value value) { return rootOf(value).first == from; };
      if (fromOffset != 0 || toOffset != 0 || from == to ||
          llvm::count_if(instruction.getReads(), readsFrom) != 1)
        continue;
      Interval &source = intervals[from], &target = intervals[to];
      if (!mayContinue(source, target, now))
        continue;
      target.within = source.within ? source.within : from.getOperation();
      intervals[target.within].last = target.last;
    }
}

/// What goes to other ranks. Copies to host memory stand where their bytes may go.
bool isMessage(InstructionOpInterface instruction) {
  Queue queue = instruction.getQueue();
  return queue != Queue::Compute && queue != Queue::CopyIn && queue != Queue::CopyOut;
}

/// A message or a collective reads its bytes long after it began: messages to one peer go one
/// behind the other, and collectives do, but what goes to several peers, and collectives beside it,
/// go side by side. Who gets the bytes meanwhile waits for them.
void findMessages(ProgramOp program, Intervals &intervals) {
  int64_t time = 1;
  for (auto entry : program.getOps<EntryOp>()) {
    std::vector<double> computed; // microseconds, up to each instruction of the entry
    for (Operation &op : entry.getBody().front()) {
      bool isKernel = cast<InstructionOpInterface>(op).getQueue() == Queue::Compute;
      computed.push_back((computed.empty() ? 0 : computed.back()) +
                         (isKernel ? microseconds(&op) : 0));
    }
    int64_t end = time + static_cast<int64_t>(computed.size());
    // What kernels have computed when the messages so far are through, by peer; collectives have
    // none.
    DenseMap<int64_t, std::array<double, kLateness.size()>> ends;
    for (auto [index, op] : llvm::enumerate(entry.getBody().front())) {
      auto instruction = cast<InstructionOpInterface>(op);
      if (!isMessage(instruction))
        continue;
      SmallVector<Interval *, 1> read;
      for (Value value : instruction.getReads()) {
        Interval &own = intervals[rootOf(value).first];
        read.push_back(own.within ? &intervals[own.within] : &own);
        read.back()->entryEnds = end;
      }
      auto send = dyn_cast<SendOp>(op);
      auto &through = ends[send ? int64_t(send.getPeer()) : -1];
      for (size_t lateness = 0; lateness < through.size(); ++lateness) {
        through[lateness] =
            std::max(through[lateness], computed[index]) + kLateness[lateness] * microseconds(&op);
        int64_t last = time + (llvm::lower_bound(computed, through[lateness]) - computed.begin());
        for (Interval *interval : read)
          interval->sent[lateness] = std::max(interval->sent[lateness], last);
      }
    }
    time = end;
  }
}

struct PlanMemoryPass : exec::impl::PlanMemoryPassBase<PlanMemoryPass> {
  using Base::Base;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    if (alignment < kLeastAlignment || alignment % kLeastAlignment != 0) {
      program.emitError() << "alignment must be a multiple of " << kLeastAlignment << ", it is "
                          << int64_t(alignment);
      return signalPassFailure();
    }
    Intervals intervals = liveIntervals(program, alignment);
    ProgramRounds rounds(program);
    liveThroughRounds(program, rounds, intervals);
    continueInPlace(program, intervals);
    SmallVector<HandOnOp> copied = findPlaces(program, rounds, intervals);
    findMessages(program, intervals);
    SmallVector<int64_t> arena(3, 0);
    for (size_t space = 0; space < arena.size(); ++space)
      arena[space] = planSpace(intervals, static_cast<Space>(space));
    Builder builder(program.getContext());
    for (auto &[op, interval] : intervals) {
      int64_t offset = interval.within ? intervals[interval.within].offset : interval.offset;
      if (offset >= 0)
        interval.buffer.setOffsetAttr(builder.getI64IntegerAttr(offset));
      else
        interval.buffer.erase();
    }
    for (HandOnOp op : copied)
      copyAtEnd(rounds.repeated(), op);
    for (HandOnOp op : rounds.handOns())
      op.erase();
    program.setArena(arena);
    if (refuse && limit > 0 && arena[0] > limit) {
      program.emitError() << "the program needs " << arena[0]
                          << " bytes of device memory per rank, " << arena[0] - int64_t(limit)
                          << " over the limit of " << int64_t(limit)
                          << " bytes: use more ranks, a smaller batch or a higher limit";
      signalPassFailure();
    }
    if (refuse && hostLimit > 0 && arena[1] > hostLimit) {
      program.emitError() << "the program needs " << arena[1] << " bytes of host memory per rank, "
                          << arena[1] - int64_t(hostLimit) << " over the " << int64_t(hostLimit)
                          << " that the host has for one device: use more ranks, or "
                             "offload=none";
      signalPassFailure();
    }
  }

private:
  /// Buffers that have one place, by any of them.
  llvm::EquivalenceClasses<Interval *> places;

  /// Buffers of which each is handed on to another get one place, where they do not live at the
  /// same time. Returns what is copied instead at the end of a round.
  SmallVector<HandOnOp> findPlaces(ProgramOp program, const ProgramRounds &rounds,
                                   Intervals &intervals) {
    SmallVector<HandOnOp> copied;
    auto intervalOf = [&](Value buffer) {
      Interval &own = intervals[buffer.getDefiningOp()];
      return own.within ? &intervals[own.within] : &own;
    };
    auto [first, last] = timesOf(program, rounds.repeated());
    llvm::SmallDenseSet<Operation *> apart;
    for (bool isFound = false; !isFound;) {
      places = {};
      isFound = true;
      for (HandOnOp op : rounds.handOns())
        if (!apart.contains(op) && intervalOf(op.getFrom()) != intervalOf(op.getTo()))
          places.unionSets(intervalOf(op.getTo()), intervalOf(op.getFrom()));
      for (HandOnOp op : rounds.handOns()) {
        Interval *from = intervalOf(op.getFrom()), *to = intervalOf(op.getTo());
        if (apart.contains(op) || from == to || livesOneByOne(to))
          continue;
        apart.insert(op);
        to->include(first);
        to->include(last);
        copied.push_back(op);
        isFound = false;
      }
    }
    return copied;
  }

  /// Whether no two of the buffers that are to have one place live at the same time, and they are
  /// of one size.
  bool livesOneByOne(Interval *any) const {
    SmallVector<Interval *> all(places.findLeader(any), places.member_end());
    llvm::sort(all, [](Interval *a, Interval *b) { return a->first < b->first; });
    for (size_t i = 1; i < all.size(); ++i)
      if (all[i - 1]->last >= all[i]->first || all[i - 1]->bytes != all[i]->bytes)
        return false;
    return true;
  }

  static void copyAtEnd(EntryOp round, HandOnOp op) {
    OpBuilder builder = OpBuilder::atBlockEnd(&round.getBody().front());
    BufferOp from = rootOf(op.getFrom()).first;
    auto copy = CopyOp::create(builder, op.getLoc(), from, 0, op.getTo(), 0, from.getBytes());
    copy.setId((from.getName() + ".handed_on").str());
    copy.setKey("copy");
    copy.setBytes(2 * from.getBytes());
    for (Operation &other : round.getBody().front())
      if (other.hasAttr("evaluated") &&
          llvm::any_of(cast<InstructionOpInterface>(other).getWrites(),
                       [&](Value value) { return rootOf(value).first == from; }))
        copy.setEvaluated(true);
  }

  /// Where buffers are, and the end of the highest; nothing where that is above `most`. Of those
  /// that have one place the first stands for all.
  std::optional<int64_t> place(ArrayRef<Interval *> rest, int64_t base, int64_t most,
                               function_ref<int64_t(const Interval &)> last,
                               std::vector<int64_t> &offsets) const {
    std::vector<Lifetime> lifetimes;
    DenseMap<const Interval *, SmallVector<size_t, 1>> placedAs;
    for (auto [index, interval] : llvm::enumerate(rest)) {
      lifetimes.push_back({interval->first, std::max(interval->last, last(*interval))});
      if (places.contains(interval))
        placedAs[places.getLeaderValue(interval)].push_back(index);
    }
    PlacedBuffers placed(lifetimes, base);
    int64_t peak = base;
    offsets.assign(rest.size(), -1);
    for (auto [index, interval] : llvm::enumerate(rest)) {
      if (offsets[index] >= 0)
        continue;
      SmallVector<size_t, 1> own{index};
      if (places.contains(interval))
        own = placedAs.lookup(places.getLeaderValue(interval));
      int64_t offset = placed.place(own, interval->bytes);
      for (size_t each : own)
        offsets[each] = offset;
      peak = std::max(peak, offset + interval->bytes);
      if (peak > most)
        return std::nullopt;
    }
    return peak;
  }

  /// Whether messages still read what nobody else needs.
  static bool isSent(ArrayRef<Interval *> rest, size_t lateness) {
    return llvm::any_of(
        rest, [&](const Interval *interval) { return interval->sent[lateness] > interval->last; });
  }

  int64_t planSpace(Intervals &intervals, Space space) {
    SmallVector<Interval *> order;
    for (auto &[op, interval] : intervals)
      if (!interval.within && interval.buffer.getSpace() == space &&
          (interval.last >= 0 || !op->use_empty()))
        order.push_back(&interval);
    // Buffers that live forever meet everything: they go first, below the rest.
    auto lasts = [](const Interval *interval) {
      return interval->first == 0 && interval->last == kForever;
    };
    auto places = [&](const Interval *interval) {
      return std::make_tuple(!lasts(interval), -interval->bytes, interval);
    };
    llvm::sort(order, [&](const Interval *a, const Interval *b) { return places(a) < places(b); });
    // The smaller a buffer the later it comes, so that all before it have sizes of its step.
    int64_t base = 0;
    for (Interval *interval : order) {
      if (!lasts(interval))
        continue;
      interval->offset = base;
      base += interval->bytes;
    }
    base = llvm::alignTo(base, alignment);
    std::vector<Interval *> rest;
    for (Interval *interval : order) {
      if (interval->offset >= 0)
        continue;
      if (interval->last < 0)
        interval->include(0);
      rest.push_back(interval);
    }
    std::vector<int64_t> offsets;
    auto itsLast = [](const Interval &) { return 0; };
    int64_t peak = *place(rest, base, kForever, itsLast, offsets);
    // Bytes that messages read are spared where that takes next to no memory: as long as late ones
    // would read them, or at least as long as they should.
    int64_t memory = std::max(peak, static_cast<int64_t>(limit)), small = peak / kSmall;
    int64_t most = peak + std::min(memory / ::autopar::kWorthOfWaiting, peak / kMostOfPeak);
    if (limit > 0)
      most = std::min(most, memory);
    for (size_t lateness = 0; lateness < kLateness.size() && isSent(rest, lateness); ++lateness) {
      auto last = [&](const Interval &interval) {
        return interval.bytes <= small ? interval.entryEnds : interval.sent[lateness];
      };
      std::vector<int64_t> spared;
      if (std::optional<int64_t> end = place(rest, base, most, last, spared)) {
        offsets = std::move(spared);
        peak = *end;
        break;
      }
    }
    for (auto [interval, offset] : llvm::zip_equal(rest, offsets))
      interval->offset = offset;
    return peak;
  }
};
} // namespace
