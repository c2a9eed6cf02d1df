// SPDX-License-Identifier: Apache-2.0
// When the bytes of a program's buffers matter, and which buffers are to have one place.
#pragma once

#include "ProgramRounds.h"

#include "llvm/ADT/MapVector.h"

#include <array>
#include <limits>

namespace mlir::exec {

/// Of every buffer; those as large as the alignment that is asked for start at multiples of that.
constexpr int64_t kLeastAlignment = 64;
constexpr int64_t kForever = std::numeric_limits<int64_t>::max();
/// How much longer a message may take than it is thought to. The most that can be spared is.
constexpr std::array<double, 4> kLateness = {4, 2, 1, 0.5};

/// A buffer and the instructions, counted through all entries, between which its bytes matter.
struct Interval {
  BufferOp buffer;
  int64_t first = kForever, last = -1;
  std::array<int64_t, kLateness.size()> sent{}; ///< until when messages read it, about
  /// Until when of a round messages of the round before read it; 0: until none.
  std::array<int64_t, kLateness.size()> sentBefore{};
  int64_t entryEnds = -1;     ///< of the entry that sends it
  bool isSentInRound = false; ///< that is run several times
  int64_t bytes = 0;
  int64_t offset = -1;
  bool lasts = false;         ///< from before the first step on
  Interval *within = nullptr; ///< of the buffer whose bytes this one continues

  void include(int64_t time) {
    first = std::min(first, time);
    last = std::max(last, time);
  }
};

class LiveIntervals {
public:
  LiveIntervals(ProgramOp program, int64_t alignment);

  /// By buffer, in their order.
  llvm::MapVector<Operation *, Interval> &all() { return intervals; }
  /// Of the buffer whose bytes a buffer or view has.
  Interval &bytesOf(Value value) {
    Interval &own = intervals[rootOf(value).first];
    return own.within ? *own.within : own;
  }
  /// Those that are to have one place with `one`, itself included; they do not live at the same
  /// time.
  SmallVector<Interval *, 2> sharing(Interval *one) const {
    auto found = numbers.find(one);
    return found == numbers.end() ? SmallVector<Interval *, 2>{one} : places[found->second];
  }
  bool isShared(const Interval *one) const { return numbers.contains(one); }
  /// What cannot lie where the next round finds it: it is copied there when the round ends.
  ArrayRef<HandOnOp> copied() const { return apart; }
  /// The first and the last instruction of the entry that is run several times; 0 where none is.
  int64_t roundBegin() const { return roundBegins; }
  int64_t roundEnd() const { return roundEnds; }

private:
  void findLives(ProgramOp program);
  void liveThroughRounds(ProgramOp program, const ProgramRounds &rounds);
  void shareHandedOn(const ProgramRounds &rounds);
  void continueInPlace(ProgramOp program);
  /// Lets `written` have the bytes of `replaced` from `time` on, where that is possible.
  void continueOne(Interval &replaced, Interval &written, int64_t time);
  void keepApart(HandOnOp op);
  /// Gives those that continue the bytes of a buffer bytes of their own.
  void separate(Interval &bytes);

  llvm::MapVector<Operation *, Interval> intervals;
  DenseMap<const Interval *, size_t> numbers; ///< of those that are not alone, in `places`
  std::vector<SmallVector<Interval *, 2>> places;
  SmallVector<HandOnOp> apart;
  DenseMap<const Interval *, int64_t> ownLasts; ///< of those whose bytes others continue
  int64_t roundBegins = 0, roundEnds = 0;       ///< the first and the last instruction
};

} // namespace mlir::exec
