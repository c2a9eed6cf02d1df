// SPDX-License-Identifier: Apache-2.0
// Products, also wide ones, and shifts.
#include "DecodeLanes.h"

namespace emulated {

namespace {

template <typename Narrow, typename Result, bool accumulates>
void multiplyWide(Warp &warp, const Operation &op) {
  Result *d = warp.lanes<Result>(op.d);
  const Result *c = warp.lanes<Result>(accumulates ? op.c : op.d);
  const Narrow *a = warp.lanes<Narrow>(op.a), *b = warp.lanes<Narrow>(op.b);
  eachLane(warp, [&](uint32_t l) {
    Result product = Result(a[l]) * Result(b[l]);
    d[l] = accumulates ? Result(Bits<Result>(product) + Bits<Result>(c[l])) : product;
  });
}
struct MulHiAdd {
  template <typename T>
  static T run(T a, T b, T c) {
    return Add::run(MulHi::run(a, b), c);
  }
};

} // namespace

void Decoder::addMultiply(bool accumulates) {
  if (has("wide")) {
    NumberType own = type();
    uint32_t bytes = bytesOf(own);
    op.d = place(0, 2 * bytes);
    op.a = place(1, bytes);
    op.b = place(2, bytes);
    op.c = accumulates ? place(3, 2 * bytes) : 0;
    auto pick = [&](auto narrow, auto wide) {
      using N = decltype(narrow);
      using W = decltype(wide);
      emit(accumulates ? &multiplyWide<N, W, true> : &multiplyWide<N, W, false>);
    };
    switch (own) {
    case NumberType::S16:
      return pick(int16_t(), int32_t());
    case NumberType::U16:
      return pick(uint16_t(), uint32_t());
    case NumberType::S32:
      return pick(int32_t(), int64_t());
    case NumberType::U32:
      return pick(uint32_t(), uint64_t());
    default:
      unknown();
    }
  }
  bool isHigh = has("hi");
  if (!accumulates)
    return isHigh ? addBinary<MulHi>() : addBinary<Mul>();
  isHigh ? addTernary<MulHiAdd>() : addTernary<Fma>();
}

namespace {

template <typename T, bool isLeft>
void shift(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a);
  const uint32_t *b = warp.lanes<uint32_t>(op.b);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    if (isLeft)
      d[l] = b[l] >= width ? T(0) : T(Bits<T>(a[l]) << b[l]);
    else
      d[l] = T(a[l] >> std::min(b[l], width - 1)) &
             (std::is_signed_v<T> || b[l] < width ? T(~T(0)) : T(0));
  });
}

} // namespace

void Decoder::addShift() {
  uint32_t bytes = bytesOf(type());
  bool isLeft = statement->opcode[0] == "shl";
  op.d = place(0, bytes);
  op.a = place(1, bytes);
  op.b = place(2, 4);
  if (!withInteger(type(), [&](auto t) {
        emit(isLeft ? &shift<decltype(t), true> : &shift<decltype(t), false>);
      }))
    unknown();
}

} // namespace emulated
