// SPDX-License-Identifier: Apache-2.0
// Static memory: every buffer gets an offset, so that the peak is known before anything runs.
// Greedy by size, the strategy that Pisarchyk and Lee found best among simple ones ("Efficient
// memory management for deep neural net inference", 2020).
#include "InstructionTime.h"
#include "LiveIntervals.h"
#include "PlacedBuffers.h"

#include "autopar/Dialect/Exec/Transforms/Passes.h"
#include "autopar/VirtualTime/FillWaits.h"

#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

#include <array>
#include <map>
#include <optional>

namespace mlir::exec {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
/// Of what a small program takes, messages may have no more than one in so many.
constexpr int64_t kMostOfPeak = 8;
/// One part in so many of the memory is left alone until the end, where a message reads it: who
/// receives it may be late too.
constexpr int64_t kSmall = 1024 * ::autopar::kWorthOfWaiting;

/// What goes to other ranks. Copies to host memory stand where their bytes may go.
bool isMessage(InstructionOpInterface instruction) {
  Queue queue = instruction.getQueue();
  return queue != Queue::Compute && queue != Queue::CopyIn && queue != Queue::CopyOut;
}

/// What kernels of an entry have computed up to each of its instructions, in microseconds.
std::vector<double> computedIn(EntryOp entry) {
  std::vector<double> computed;
  for (Operation &op : entry.getBody().front()) {
    bool isKernel = cast<InstructionOpInterface>(op).getQueue() == Queue::Compute;
    computed.push_back((computed.empty() ? 0 : computed.back()) +
                       (isKernel ? microseconds(&op) : 0));
  }
  return computed;
}

/// A message or a collective reads its bytes long after it began: messages to one peer go one
/// behind the other, and collectives do, but what goes to several peers, and collectives beside it,
/// go side by side. Who gets the bytes meanwhile waits for them.
void findMessages(ProgramOp program, LiveIntervals &intervals) {
  SmallVector<EntryOp> entries(program.getOps<EntryOp>());
  EntryOp round = ProgramRounds(program).repeated();
  int64_t time = 1;
  for (auto [number, entry] : llvm::enumerate(entries)) {
    std::vector<double> computed = computedIn(entry), next;
    if (round && (entry == round || (number + 1 < entries.size() && entries[number + 1] == round)))
      next = computedIn(round);
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
        read.push_back(&intervals.bytesOf(value));
        read.back()->entryEnds = end;
        read.back()->isSentInRound |= entry == round;
      }
      auto send = dyn_cast<SendOp>(op);
      auto &through = ends[send ? int64_t(send.getPeer()) : -1];
      for (size_t lateness = 0; lateness < through.size(); ++lateness) {
        through[lateness] =
            std::max(through[lateness], computed[index]) + kLateness[lateness] * microseconds(&op);
        int64_t last = time + (llvm::lower_bound(computed, through[lateness]) - computed.begin());
        // What a round sends last is on its way while the next one runs.
        int64_t behind = last < end ? 0
                                    : llvm::lower_bound(next, through[lateness] - computed.back()) -
                                          next.begin();
        for (Interval *interval : read) {
          interval->sent[lateness] = std::max(interval->sent[lateness], last + behind);
          if (entry == round && behind > 0)
            interval->sentBefore[lateness] =
                std::max(interval->sentBefore[lateness], time + behind - 1);
        }
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
    LiveIntervals intervals(program, alignment);
    findMessages(program, intervals);
    SmallVector<int64_t> arena(3, 0);
    for (size_t space = 0; space < arena.size(); ++space)
      arena[space] = planSpace(intervals, static_cast<Space>(space));
    Builder builder(program.getContext());
    for (auto &[op, interval] : intervals.all()) {
      int64_t offset = interval.within ? interval.within->offset : interval.offset;
      if (offset >= 0)
        interval.buffer.setOffsetAttr(builder.getI64IntegerAttr(offset));
      else
        interval.buffer.erase();
    }
    ProgramRounds rounds(program);
    for (HandOnOp op : intervals.copied())
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

  /// How long messages read a buffer: in the order of instructions, and at the beginning of a round
  /// what the one before has sent (0: nothing).
  struct Sent {
    int64_t last = 0, before = 0;
  };

  /// Where buffers are, and the end of the highest; nothing where that is above `most`. Of those
  /// that share a place the first stands for all.
  static std::optional<int64_t> place(const LiveIntervals &intervals, ArrayRef<Interval *> rest,
                                      int64_t base, int64_t most,
                                      function_ref<Sent(const Interval &)> sent,
                                      std::vector<int64_t> &offsets) {
    std::vector<Lifetime> lifetimes;
    DenseMap<const Interval *, SmallVector<size_t, 2>> lives;
    for (const Interval *interval : rest) {
      Sent own = sent(*interval);
      lives[interval].push_back(lifetimes.size());
      lifetimes.push_back({interval->first, std::max(interval->last, own.last)});
      if (own.before > 0) {
        lives[interval].push_back(lifetimes.size());
        lifetimes.push_back({intervals.roundBegin(), own.before});
      }
    }
    PlacedBuffers placed(lifetimes, base);
    int64_t peak = base;
    DenseMap<const Interval *, int64_t> found;
    // By size and name, where those of other micro-batches lie: what a round has at one place comes
    // before it and behind it too, so that is where most others fit in between.
    std::map<std::pair<int64_t, StringRef>, SmallVector<int64_t>> alike;
    for (Interval *interval : rest) {
      if (found.contains(interval))
        continue;
      SmallVector<size_t, 4> all;
      for (Interval *other : intervals.sharing(interval))
        llvm::append_range(all, lives.at(other));
      SmallVector<int64_t> *others = nullptr;
      if (intervals.roundBegin() > 0)
        others = &alike[{interval->bytes, interval->buffer.getName().rsplit('@').first}];
      auto isFree = [&](int64_t at) { return placed.placeAt(at, all, interval->bytes); };
      auto *known = others ? llvm::find_if(*others, isFree) : nullptr;
      bool isKnown = others && known != others->end();
      int64_t offset = isKnown ? *known : placed.place(all, interval->bytes);
      if (others && !isKnown)
        others->push_back(offset);
      for (Interval *other : intervals.sharing(interval))
        found[other] = offset;
      peak = std::max(peak, offset + interval->bytes);
      if (peak > most)
        return std::nullopt;
    }
    offsets.clear();
    for (const Interval *interval : rest)
      offsets.push_back(found.at(interval));
    return peak;
  }

  /// Whether messages still read what nobody else needs.
  static bool isSent(ArrayRef<Interval *> rest, size_t lateness) {
    return llvm::any_of(rest, [&](const Interval *interval) {
      return interval->sent[lateness] > interval->last || interval->sentBefore[lateness] > 0;
    });
  }

  /// Buffers of a space: those that have a place for good, one behind the other, and the others in
  /// the order in which they look for one.
  struct Order {
    SmallVector<std::pair<Interval *, int64_t>> fixed; ///< with their offsets
    std::vector<Interval *> rest;
    int64_t base = 0; ///< where the rest begins
  };

  /// Buffers that live forever meet everything: they go first, below the rest. So may those that
  /// load makes for all steps: what is left is one piece then, which programs beside each other may
  /// have in common.
  Order orderOf(LiveIntervals &intervals, Space space, bool madeAreFixed) const {
    auto isFixed = [&](const Interval *interval) {
      return interval->lasts && (madeAreFixed || interval->first == 0);
    };
    SmallVector<Interval *> all;
    for (auto &[op, interval] : intervals.all())
      if (!interval.within && interval.buffer.getSpace() == space &&
          (interval.last >= 0 || !op->use_empty()))
        all.push_back(&interval);
    auto places = [&](const Interval *interval) {
      return std::make_tuple(!isFixed(interval), -interval->bytes, !intervals.isShared(interval),
                             interval);
    };
    llvm::sort(all, [&](const Interval *a, const Interval *b) { return places(a) < places(b); });
    // The smaller a buffer the later it comes, so that all before it have sizes of its step.
    Order order;
    for (Interval *interval : all) {
      if (!isFixed(interval)) {
        order.rest.push_back(interval);
        continue;
      }
      order.fixed.push_back({interval, order.base});
      order.base += interval->bytes;
    }
    order.base = llvm::alignTo(order.base, alignment);
    return order;
  }

  int64_t planSpace(LiveIntervals &intervals, Space space) {
    for (auto &[op, interval] : intervals.all())
      if (!interval.within && interval.buffer.getSpace() == space && interval.last < 0 &&
          !op->use_empty())
        interval.include(0);
    auto itsLast = [](const Interval &) { return Sent(); };
    auto peakOf = [&](const Order &order, std::vector<int64_t> &offsets) {
      return *place(intervals, order.rest, order.base, kForever, itsLast, offsets);
    };
    std::vector<int64_t> offsets;
    Order order = orderOf(intervals, space, /*madeAreFixed=*/true);
    int64_t peak = peakOf(order, offsets);
    if (llvm::any_of(order.fixed, [](auto &fixed) { return fixed.first->first > 0; })) {
      std::vector<int64_t> freeOffsets;
      Order free = orderOf(intervals, space, /*madeAreFixed=*/false);
      if (int64_t freePeak = peakOf(free, freeOffsets); freePeak < peak)
        std::tie(order, peak, offsets) = std::tie(free, freePeak, freeOffsets);
    }
    for (auto [interval, offset] : order.fixed)
      interval->offset = offset;
    const std::vector<Interval *> &rest = order.rest;
    // Bytes that messages read are spared where that takes next to no memory: as long as late ones
    // would read them, or at least as long as they should.
    int64_t memory = std::max(peak, static_cast<int64_t>(limit)), small = peak / kSmall;
    int64_t most = peak + std::min(memory / ::autopar::kWorthOfWaiting, peak / kMostOfPeak);
    if (limit > 0)
      most = std::min(most, memory);
    for (size_t lateness = 0; lateness < kLateness.size() && isSent(rest, lateness); ++lateness) {
      auto sent = [&](const Interval &interval) -> Sent {
        if (interval.bytes <= small)
          return {interval.entryEnds, interval.isSentInRound ? intervals.roundEnd() : 0};
        return {interval.sent[lateness], interval.sentBefore[lateness]};
      };
      std::vector<int64_t> spared;
      if (std::optional<int64_t> end = place(intervals, rest, order.base, most, sent, spared)) {
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
