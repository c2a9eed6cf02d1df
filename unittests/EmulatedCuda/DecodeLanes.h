// SPDX-License-Identifier: Apache-2.0
// Instructions that do one thing to every lane, by what they do (Arithmetic.h).
#pragma once

#include "Decoder.h"

namespace emulated {

template <typename F>
void Decoder::addUnary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  bool known = withType(type(), [&](auto t) { emit(&unary<decltype(t), F>); });
  if (!known && type() == NumberType::F16x2)
    emit(&unary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && type() == NumberType::BF16x2)
    emit(&unary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

/// An instruction that has an approximate form of f32, off by up to `ulps`.
template <typename F, int ulps>
void Decoder::addApproximate() {
  if (!has("approx") || type() != NumberType::F32)
    return addUnary<F>();
  op.d = place(0, 4);
  op.a = place(1, 4);
  emit(has("ftz") ? &unary<float, Approximate<F, ulps, true>>
                  : &unary<float, Approximate<F, ulps, false>>);
}

template <typename F>
void Decoder::addBinary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  bool isSaturated = has("sat");
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    if (!isSaturated)
      emit(&binary<T, F>);
    else if constexpr (isFloating<T>)
      emit(&binary<T, Saturated<F>>);
    else
      unknown();
  });
  if (!known && !isSaturated && type() == NumberType::F16x2)
    emit(&binary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && !isSaturated && type() == NumberType::BF16x2)
    emit(&binary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

template <typename F>
void Decoder::addTernary() {
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  op.c = place(3, bytes);
  bool isSaturated = has("sat");
  bool known = withType(type(), [&](auto t) {
    using T = decltype(t);
    if (!isSaturated)
      emit(&ternary<T, F>);
    else if constexpr (isFloating<T>)
      emit(&ternary<T, Saturated<F>>);
    else
      unknown();
  });
  if (!known && !isSaturated && type() == NumberType::F16x2)
    emit(&ternary<Pair<Half>, ForPair<Half, F>>), known = true;
  if (!known && !isSaturated && type() == NumberType::BF16x2)
    emit(&ternary<Pair<BFloat>, ForPair<BFloat, F>>), known = true;
  if (!known)
    unknown();
}

template <typename F>
void combinePredicates(Warp &warp, const Operation &op) {
  uint32_t value = F::run(warp.predicate(op.a), warp.predicate(op.b));
  uint32_t &d = warp.predicate(op.d);
  d = (d & ~warp.active) | (value & warp.active);
}

template <typename F>
void Decoder::addBitwise() {
  if (lastPart() == "pred") {
    op.d = predicate(operand(0).name);
    op.a = predicate(operand(1).name);
    op.b = predicate(operand(2).name);
    return emit(&combinePredicates<F>);
  }
  uint32_t bytes = bytesOf(type());
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, bytes);
  if (!withInteger(type(), [&](auto t) { emit(&binary<decltype(t), F>); }))
    unknown();
}

} // namespace emulated
