// SPDX-License-Identifier: Apache-2.0
// Static memory: every buffer gets an offset, so that the peak is known before anything runs.
// Greedy by size, the strategy that Pisarchyk and Lee found best among simple ones ("Efficient
// memory management for deep neural net inference", 2020).
#include "PlacedBuffers.h"

#include "autopar/Dialect/Exec/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

namespace mlir::exec {
#define GEN_PASS_DEF_PLANMEMORYPASS
#include "autopar/Dialect/Exec/Transforms/Passes.h.inc"
} // namespace mlir::exec

using namespace mlir;
using namespace mlir::exec;

namespace {
constexpr int64_t kAlignment = 64;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
/// Kernels move so many bytes while a message moves one, about. Memory of an accelerator is 10
/// times as fast as links inside a node and 60 times as fast as its share of a network, but
/// products, which take most of the time, move far fewer bytes than memory could.
constexpr int64_t kBytesPerSentByte = 16;
/// One part in so many of the memory may go into not waiting for messages.
constexpr int64_t kWorthOfWaiting = 64;

/// A buffer and the instructions, counted through all entries, between which its bytes matter.
struct Interval {
  BufferOp buffer;
  int64_t first = kForever, last = -1;
  int64_t sent = -1; ///< until when what it is sent by is under way, about
  int64_t bytes = 0;
  int64_t offset = -1;
  Operation *within = nullptr; ///< the buffer whose bytes this one continues

  void include(int64_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
};

using Intervals = llvm::MapVector<Operation *, Interval>;

Intervals liveIntervals(ProgramOp program) {
  Intervals intervals;
  for (auto buffer : program.getOps<BufferOp>()) {
    Interval &interval = intervals[buffer];
    interval.buffer = buffer;
    int64_t span = (buffer.getSlots() - 1) * buffer.getSlotStride() + buffer.getBytes();
    interval.bytes = llvm::alignTo(std::max<int64_t>(span, 1), kAlignment);
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

/// A message or a collective reads its bytes long after it began, one behind the other; who gets
/// them meanwhile waits for it.
void findMessages(ProgramOp program, Intervals &intervals) {
  int64_t time = 1;
  for (auto entry : program.getOps<EntryOp>()) {
    std::vector<int64_t> moved; // by kernels, up to each instruction of the entry
    for (Operation &op : entry.getBody().front()) {
      auto bytes = op.getAttrOfType<IntegerAttr>("bytes");
      bool isKernel = cast<InstructionOpInterface>(op).getQueue() == Queue::Compute;
      moved.push_back((moved.empty() ? 0 : moved.back()) +
                      (isKernel && bytes ? bytes.getInt() : 0));
    }
    int64_t through = 0; // what kernels have moved when the messages so far are
    for (auto [index, op] : llvm::enumerate(entry.getBody().front())) {
      auto instruction = cast<InstructionOpInterface>(op);
      if (instruction.getQueue() == Queue::Compute)
        continue;
      SmallVector<Interval *, 1> read;
      int64_t bytes = 0;
      for (Value value : instruction.getReads()) {
        Interval &own = intervals[rootOf(value).first];
        read.push_back(own.within ? &intervals[own.within] : &own);
        bytes += own.bytes;
      }
      through = std::max(through, moved[index]) + kBytesPerSentByte * bytes;
      for (Interval *interval : read)
        interval->sent = std::max<int64_t>(
            interval->sent, time + (llvm::lower_bound(moved, through) - moved.begin()));
    }
    time += static_cast<int64_t>(moved.size());
  }
}

struct PlanMemoryPass : exec::impl::PlanMemoryPassBase<PlanMemoryPass> {
  using Base::Base;

  void runOnOperation() override {
    ProgramOp program = getOperation();
    Intervals intervals = liveIntervals(program);
    continueInPlace(program, intervals);
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
    program.setArena(arena);
    plannedBytes += arena[0];
    if (refuse && limit > 0 && arena[0] > limit) {
      program.emitError() << "the program needs " << arena[0]
                          << " bytes of device memory per rank, " << arena[0] - int64_t(limit)
                          << " over the limit of " << int64_t(limit)
                          << " bytes: use more ranks, a smaller batch or a higher limit";
      signalPassFailure();
    }
  }

private:
  /// Where buffers are, and the end of the highest. One that gets bytes of a message `waits` for
  /// it, or none does.
  static int64_t place(ArrayRef<Interval *> rest, int64_t base, bool waits,
                       std::vector<int64_t> &offsets) {
    std::vector<Lifetime> lifetimes;
    for (const Interval *interval : rest)
      lifetimes.push_back(
          {interval->first, waits ? interval->last : std::max(interval->last, interval->sent)});
    PlacedBuffers placed(lifetimes, base);
    int64_t peak = base;
    for (auto [index, interval] : llvm::enumerate(rest)) {
      offsets.push_back(placed.place(index, interval->bytes));
      peak = std::max(peak, offsets.back() + interval->bytes);
    }
    return peak;
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
    int64_t base = 0;
    for (Interval *interval : order) {
      ++plannedBuffers;
      if (!lasts(interval))
        continue;
      interval->offset = base;
      base += interval->bytes;
    }
    std::vector<Interval *> rest;
    for (Interval *interval : order) {
      if (interval->offset >= 0)
        continue;
      if (interval->last < 0)
        interval->include(0);
      rest.push_back(interval);
    }
    std::vector<int64_t> offsets;
    int64_t peak = place(rest, base, /*waits=*/true, offsets);
    // Bytes that messages read are spared where that takes next to no memory.
    bool isSent = llvm::any_of(
        rest, [&](const Interval *interval) { return interval->sent > interval->last; });
    if (std::vector<int64_t> spared; isSent)
      if (int64_t end = place(rest, base, /*waits=*/false, spared);
          end <= peak + peak / kWorthOfWaiting &&
          (limit == 0 || end <= std::max(peak, int64_t(limit)))) {
        offsets = std::move(spared);
        peak = end;
      }
    for (auto [interval, offset] : llvm::zip_equal(rest, offsets))
      interval->offset = offset;
    return peak;
  }
};
} // namespace
