// SPDX-License-Identifier: Apache-2.0
// What lanes of a warp do together: shuffles, votes, reductions.
#include "Decoder.h"

namespace emulated {

namespace {

enum class ShuffleKind { Up, Down, Butterfly, Index };

template <ShuffleKind kind>
void shuffle(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d), result[kLanes], inside = 0;
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t by = b[l] & 31, clamp = c[l] & 31, segment = c[l] >> 8 & 31;
    uint32_t most = (l & segment) | (clamp & ~segment), least = l & segment, from = l;
    bool isInside = false;
    if (kind == ShuffleKind::Up) {
      isInside = int32_t(l) - int32_t(by) >= int32_t(most);
      from = l - by;
    } else if (kind == ShuffleKind::Down) {
      from = l + by;
      isInside = from <= most;
    } else if (kind == ShuffleKind::Butterfly) {
      from = l ^ by;
      isInside = from <= most;
    } else {
      from = least | (by & ~segment);
      isInside = from <= most;
    }
    if (!isInside)
      from = l;
    // What a lane that takes no part would give is undefined.
    result[l] = warp.active >> from & 1 ? a[from] : 0xdeadbeef;
    inside |= uint32_t(isInside) << l;
  });
  eachLane(warp, [&](uint32_t l) { d[l] = result[l]; });
  if (!op.vector.empty()) {
    uint32_t &p = warp.predicate(op.vector[0]);
    p = (p & ~warp.active) | inside;
  }
}

void ballot(Warp &warp, const Operation &op) {
  uint32_t bits = (warp.predicate(op.a) ^ uint32_t(op.offset)) & warp.active;
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = bits; });
}
enum class Vote { All, Any, Uniform };
template <Vote kind>
void vote(Warp &warp, const Operation &op) {
  uint32_t bits = (warp.predicate(op.a) ^ uint32_t(op.offset)) & warp.active;
  bool result = kind == Vote::All   ? bits == warp.active
                : kind == Vote::Any ? bits != 0
                                    : bits == 0 || bits == warp.active;
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (result ? warp.active : 0);
}
void activeMask(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = warp.active; });
}
template <typename T, typename F>
void reduceAcross(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a);
  T sum = a[__builtin_ctz(warp.active)];
  for (uint32_t rest = warp.active & (warp.active - 1); rest; rest &= rest - 1)
    sum = F::template run<T>(sum, a[__builtin_ctz(rest)]);
  T *d = warp.lanes<T>(op.d);
  eachLane(warp, [&](uint32_t l) { d[l] = sum; });
}

} // namespace

// `e`: which lanes take part.
void Decoder::addShuffle() {
  if (!has("sync") || lastPart() != "b32")
    unknown();
  op.kind = Operation::Kind::Together;
  op.d = place(0, 4);
  if (!operand(0).second.empty())
    op.vector.push_back(predicate(operand(0).second));
  op.a = place(1, 4);
  op.b = place(2, 4);
  op.c = place(3, 4);
  op.e = place(4, 4);
  emit(has("up")     ? &shuffle<ShuffleKind::Up>
       : has("down") ? &shuffle<ShuffleKind::Down>
       : has("bfly") ? &shuffle<ShuffleKind::Butterfly>
       : has("idx")  ? &shuffle<ShuffleKind::Index>
                     : (unknown(), nullptr));
}

void Decoder::addVote() {
  if (!has("sync"))
    unknown();
  op.kind = Operation::Kind::Together;
  op.a = predicate(operand(1).name);
  op.offset = operand(1).isNegated ? 0xffffffff : 0;
  op.e = place(2, 4);
  if (has("ballot")) {
    op.d = place(0, 4);
    return emit(&ballot);
  }
  op.d = predicate(operand(0).name);
  emit(has("all")   ? &vote<Vote::All>
       : has("any") ? &vote<Vote::Any>
       : has("uni") ? &vote<Vote::Uniform>
                    : (unknown(), nullptr));
}

void Decoder::addActiveMask() {
  op.d = place(0, 4);
  return emit(&activeMask);
}

void Decoder::addReduceAcross() {
  op.kind = Operation::Kind::Together;
  op.d = place(0, 4), op.a = place(1, 4), op.e = place(2, 4);
  bool isSigned = type() == NumberType::S32;
  return emit(has("add")   ? &reduceAcross<uint32_t, Add>
              : has("and") ? &reduceAcross<uint32_t, And>
              : has("or")  ? &reduceAcross<uint32_t, Or>
              : has("xor") ? &reduceAcross<uint32_t, Xor>
              : has("min") ? (isSigned ? &reduceAcross<int32_t, Min> : &reduceAcross<uint32_t, Min>)
              : has("max") ? (isSigned ? &reduceAcross<int32_t, Max> : &reduceAcross<uint32_t, Max>)
                           : (unknown(), nullptr));
}

} // namespace emulated
