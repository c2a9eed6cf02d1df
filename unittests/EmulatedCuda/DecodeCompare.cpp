// SPDX-License-Identifier: Apache-2.0
// What gives or reads a predicate: comparisons, tests, selections.
#include "Decoder.h"

namespace emulated {

namespace {

#define EMULATED_COMPARE(Name, expression)                                                         \
  struct Name {                                                                                    \
    template <typename T>                                                                          \
    static bool run(T x, T y) {                                                                    \
      Wide<T> a = Wide<T>(x), b = Wide<T>(y);                                                      \
      return expression;                                                                           \
    }                                                                                              \
  };
EMULATED_COMPARE(Equal, a == b)
EMULATED_COMPARE(NotEqual, a == a && b == b && a != b)
EMULATED_COMPARE(Less, a < b)
EMULATED_COMPARE(LessEqual, a <= b)
EMULATED_COMPARE(Greater, a > b)
EMULATED_COMPARE(GreaterEqual, a >= b)
EMULATED_COMPARE(EqualOrNan, !(a == a && b == b) || a == b)
EMULATED_COMPARE(NotEqualOrNan, a != b)
EMULATED_COMPARE(LessOrNan, !(a >= b))
EMULATED_COMPARE(LessEqualOrNan, !(a > b))
EMULATED_COMPARE(GreaterOrNan, !(a <= b))
EMULATED_COMPARE(GreaterEqualOrNan, !(a < b))
EMULATED_COMPARE(BothNumbers, a == a && b == b)
EMULATED_COMPARE(AnyNan, a != a || b != b)

/// c: a predicate to combine with, by e: 0 none, 1 and, 2 or, 3 xor; vector[0]: where the opposite
/// goes.
template <typename T, typename F>
void compare(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLanes; ++l)
    bits |= uint32_t(F::run(a[l], b[l])) << l;
  auto combined = [&](uint32_t value) {
    uint32_t c = op.e ? warp.predicate(op.c) ^ uint32_t(op.offset) : 0;
    return op.e == 1 ? value & c : op.e == 2 ? value | c : op.e == 3 ? value ^ c : value;
  };
  auto put = [&](uint32_t place, uint32_t value) {
    uint32_t &d = warp.predicate(place);
    d = (d & ~warp.active) | (value & warp.active);
  };
  uint32_t first = combined(bits), second = combined(~bits);
  put(op.d, first);
  if (!op.vector.empty())
    put(op.vector[0], second);
}

} // namespace

void Decoder::addCompare() {
  uint32_t bytes = bytesOf(type());
  const std::string &relation =
      statement->opcode.size() > 1 ? statement->opcode[1] : statement->opcode[0];
  op.d = operand(0).name == "_" ? constant(0, 0) : predicate(operand(0).name);
  if (!operand(0).second.empty())
    op.vector.push_back(predicate(operand(0).second));
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  if (statement->operands.size() == 4) {
    op.e = has("and") ? 1 : has("or") ? 2 : has("xor") ? 3 : 0;
    op.c = predicate(operand(3).name);
    op.offset = operand(3).isNegated ? 0xffffffff : 0;
  }
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    const bool f = isFloating<T>;
    Execute found = relation == "eq"   ? &compare<T, Equal>
                    : relation == "ne" ? (f ? &compare<T, NotEqual> : &compare<T, NotEqualOrNan>)
                    : relation == "lt" || relation == "lo" ? &compare<T, Less>
                    : relation == "le" || relation == "ls" ? &compare<T, LessEqual>
                    : relation == "gt" || relation == "hi" ? &compare<T, Greater>
                    : relation == "ge" || relation == "hs" ? &compare<T, GreaterEqual>
                    : relation == "equ"                    ? &compare<T, EqualOrNan>
                    : relation == "neu"                    ? &compare<T, NotEqualOrNan>
                    : relation == "ltu"                    ? &compare<T, LessOrNan>
                    : relation == "leu"                    ? &compare<T, LessEqualOrNan>
                    : relation == "gtu"                    ? &compare<T, GreaterOrNan>
                    : relation == "geu"                    ? &compare<T, GreaterEqualOrNan>
                    : relation == "num"                    ? &compare<T, BothNumbers>
                    : relation == "nan"                    ? &compare<T, AnyNan>
                                                           : nullptr;
    if (!found)
      unknown();
    emit(found);
  });
  if (!known)
    unknown();
}

namespace {

template <typename T>
void select(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  uint32_t chosen = warp.predicate(op.c);
  eachLane(warp, [&](uint32_t l) { d[l] = chosen >> l & 1 ? a[l] : b[l]; });
}

enum class FloatClass { Nan, Infinite, Finite, Number };
template <typename T, FloatClass kind>
void testFloat(Warp &warp, const Operation &op) {
  const T *a = warp.lanes<T>(op.a);
  uint32_t bits = 0;
  for (uint32_t l = 0; l < kLanes; ++l) {
    bool is = kind == FloatClass::Nan        ? std::isnan(a[l])
              : kind == FloatClass::Infinite ? std::isinf(a[l])
              : kind == FloatClass::Finite   ? std::isfinite(a[l])
                                             : !std::isnan(a[l]);
    bits |= uint32_t(is) << l;
  }
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (bits & warp.active);
}

} // namespace

void Decoder::addSelect() {
  uint32_t bytes = bytesOf(type());
  if (bytes < 2)
    unknown();
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  op.c = predicate(operand(3).name);
  emit(bytes == 2 ? &select<uint16_t> : bytes == 4 ? &select<uint32_t> : &select<uint64_t>);
}

void Decoder::addTestFloat() {
  bool isDouble = type() == NumberType::F64;
  op.d = predicate(operand(0).name);
  op.a = place(1, isDouble ? 8 : 4);
  auto pick = [&](auto t) {
    using T = decltype(t);
    emit(has("notanumber") ? &testFloat<T, FloatClass::Nan>
         : has("infinite") ? &testFloat<T, FloatClass::Infinite>
         : has("finite")   ? &testFloat<T, FloatClass::Finite>
         : has("number")   ? &testFloat<T, FloatClass::Number>
                           : (unknown(), nullptr));
  };
  return isDouble ? pick(double()) : pick(float());
}

} // namespace emulated
