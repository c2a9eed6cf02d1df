// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "LiveIntervals.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::exec;

/// Whether no two live at the same time, but for an instruction that reads one and writes the
/// other.
static bool liveOneByOne(SmallVector<Interval *, 2> all, bool mayTouch) {
  llvm::sort(all, [](Interval *a, Interval *b) { return a->first < b->first; });
  for (size_t i = 1; i < all.size(); ++i)
    if (all[i - 1]->last > all[i]->first || (!mayTouch && all[i - 1]->last == all[i]->first))
      return false;
  return true;
}

LiveIntervals::LiveIntervals(ProgramOp program, int64_t alignment) {
  for (auto buffer : program.getOps<BufferOp>()) {
    Interval &interval = intervals[buffer];
    interval.buffer = buffer;
    int64_t span = (buffer.getSlots() - 1) * buffer.getSlotStride() + buffer.getBytes();
    interval.bytes =
        llvm::alignTo(std::max<int64_t>(span, 1), span < alignment ? kLeastAlignment : alignment);
  }
  findLives(program);
  ProgramRounds rounds(program);
  if (rounds.repeated()) {
    liveThroughRounds(program, rounds);
    shareHandedOn(rounds);
  }
  continueInPlace(program);
  // What touches was to be written over what it touches.
  auto isTogether = [&](HandOnOp op) {
    Interval &from = bytesOf(op.getFrom()), &to = bytesOf(op.getTo());
    SmallVector<Interval *, 2> all = sharing(&to);
    return &from == &to ||
           (llvm::is_contained(all, &from) && liveOneByOne(all, /*mayTouch=*/false));
  };
  for (bool changes = true; changes;) {
    changes = false;
    for (HandOnOp op : rounds.handOns())
      if (!llvm::is_contained(apart, op) && !isTogether(op)) {
        separate(bytesOf(op.getTo()));
        keepApart(op);
        changes = true;
      }
  }
}

void LiveIntervals::findLives(ProgramOp program) {
  // `load` comes first; what it writes and a later entry uses must last for all steps.
  int64_t time = 1, stepBegins = 0;
  for (auto entry : program.getOps<EntryOp>()) {
    bool isLoad = entry.getSymName() == "load";
    if (!isLoad && stepBegins == 0)
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
    interval.lasts = interval.first < stepBegins && interval.last == kForever;
  }
}

void LiveIntervals::liveThroughRounds(ProgramOp program, const ProgramRounds &rounds) {
  roundBegins = 1;
  for (auto entry : program.getOps<EntryOp>()) {
    auto count = static_cast<int64_t>(entry.getBody().front().getOperations().size());
    roundEnds = roundBegins + count - 1;
    if (entry == rounds.repeated())
      break;
    roundBegins += count;
  }
  llvm::SmallDenseSet<Operation *> written, handedTo;
  for (HandOnOp op : rounds.handOns()) {
    handedTo.insert(op.getTo().getDefiningOp());
    intervals[op.getFrom().getDefiningOp()].include(roundEnds + 1); // nothing is written over it
  }
  // What a round reads before it writes it has to be there for the next round too.
  for (Operation &op : EntryOp(rounds.repeated()).getBody().front()) {
    auto instruction = cast<InstructionOpInterface>(op);
    for (Value value : instruction.getReads()) {
      Operation *root = rootOf(value).first;
      if (!written.contains(root) && !handedTo.contains(root))
        intervals[root].include(roundEnds + 1);
    }
    for (Value value : instruction.getWrites())
      written.insert(rootOf(value).first);
  }
}

/// What is copied there at the end of a round may be nobody else's bytes.
void LiveIntervals::separate(Interval &bytes) {
  for (auto &[op, interval] : intervals)
    if (interval.within == &bytes)
      interval.within = nullptr;
  if (auto own = ownLasts.find(&bytes); own != ownLasts.end())
    bytes.last = own->second;
}

void LiveIntervals::keepApart(HandOnOp op) {
  Interval &from = bytesOf(op.getFrom()), &to = bytesOf(op.getTo());
  for (Interval *one : {&from, &to})
    if (auto found = numbers.find(one); found != numbers.end()) {
      llvm::erase(places[found->second], one);
      numbers.erase(found);
    }
  to.include(roundBegins);
  to.include(roundEnds + 1);
  apart.push_back(op);
}

/// What one round hands on to the next gets one place with where that finds it, unless they live at
/// the same time. They may meet in one instruction: it may write over what it reads.
void LiveIntervals::shareHandedOn(const ProgramRounds &rounds) {
  for (HandOnOp op : rounds.handOns()) {
    Interval &from = intervals[op.getFrom().getDefiningOp()];
    Interval &to = intervals[op.getTo().getDefiningOp()];
    if (to.last > from.first || to.bytes != from.bytes) {
      keepApart(op);
      continue;
    }
    numbers[&from] = numbers[&to] = places.size();
    places.push_back({&to, &from});
  }
}

static bool mayContinue(Interval &replaced, Interval &written, int64_t time) {
  auto isOwn = [](BufferOp buffer) {
    return buffer.getBinding() == Binding::None && buffer.getSlots() == 1;
  };
  return replaced.last == time && written.first == time && replaced.bytes == written.bytes &&
         replaced.buffer.getSpace() == written.buffer.getSpace() && isOwn(replaced.buffer) &&
         isOwn(written.buffer);
}

void LiveIntervals::continueOne(Interval &replaced, Interval &written, int64_t time) {
  if (!mayContinue(replaced, written, time))
    return;
  Interval *bytes = replaced.within ? replaced.within : &replaced;
  // Whoever shares a place with either shares it with both.
  SmallVector<Interval *, 2> together = sharing(bytes);
  for (Interval *other : sharing(&written))
    if (other != &written && !llvm::is_contained(together, other))
      together.push_back(other);
  llvm::erase(together, &written);
  int64_t before = std::exchange(bytes->last, written.last);
  ownLasts.try_emplace(bytes, before);
  if (!liveOneByOne(together, /*mayTouch=*/true)) {
    bytes->last = before;
    return;
  }
  written.within = bytes;
  numbers.erase(&written);
  if (together.size() == 1) {
    numbers.erase(bytes);
    return;
  }
  for (Interval *one : together)
    numbers[one] = places.size();
  places.push_back(std::move(together));
}

/// Results that may be written over an operand which nobody needs any more get its bytes: what the
/// library accumulates into is then in place already.
void LiveIntervals::continueInPlace(ProgramOp program) {
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
      auto readsFrom = [&, from = from](Value value) { return rootOf(value).first == from; };
      if (fromOffset == 0 && toOffset == 0 && from != to &&
          llvm::count_if(instruction.getReads(), readsFrom) == 1)
        continueOne(intervals[from], intervals[to], now);
    }
}
