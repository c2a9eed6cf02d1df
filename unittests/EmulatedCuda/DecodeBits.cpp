// SPDX-License-Identifier: Apache-2.0
// Instructions on bits and bytes.
#include "Decoder.h"

namespace emulated {

namespace {

template <typename T>
void populationCount(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const T *a = warp.lanes<T>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = uint32_t(__builtin_popcountll(a[l])); });
}
template <typename T>
void leadingZeros(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const T *a = warp.lanes<T>(op.a);
  eachLane(warp, [&](uint32_t l) {
    d[l] = a[l] ? uint32_t(__builtin_clzll(a[l])) - uint32_t(64 - 8 * sizeof(T))
                : uint32_t(8 * sizeof(T));
  });
}
void lookUpBits(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t result = 0;
    for (uint32_t i = 0; i < 8; ++i)
      if (op.offset >> i & 1)
        result |= (i & 4 ? a[l] : ~a[l]) & (i & 2 ? b[l] : ~b[l]) & (i & 1 ? c[l] : ~c[l]);
    d[l] = result;
  });
}
void permuteBytes(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint64_t both = uint64_t(b[l]) << 32 | a[l];
    uint32_t result = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      uint32_t selector = c[l] >> (4 * i) & 15;
      uint8_t byte = uint8_t(both >> (8 * (selector & 7)));
      if (selector & 8)
        byte = byte & 0x80 ? 0xff : 0;
      result |= uint32_t(byte) << (8 * i);
    }
    d[l] = result;
  });
}
template <typename T>
void extractBits(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a);
  const uint32_t *b = warp.lanes<uint32_t>(op.b), *c = warp.lanes<uint32_t>(op.c);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    uint32_t begin = b[l] & 255, count = c[l] & 255;
    using U = Bits<T>;
    U value = begin >= width ? 0 : U(a[l]) >> begin;
    if (count < width)
      value &= (U(1) << count) - 1;
    if (std::is_signed_v<T> && count > 0) {
      uint32_t last = std::min(begin + count - 1, width - 1);
      if (U(a[l]) >> last & 1) {
        uint32_t have = std::min(count, begin >= width ? 0u : width - begin);
        if (have < width)
          value |= ~((U(1) << have) - 1);
      }
    }
    d[l] = T(value);
  });
}
template <typename T>
void insertBits(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  const uint32_t *c = warp.lanes<uint32_t>(op.c), *e = warp.lanes<uint32_t>(op.e);
  constexpr uint32_t width = 8 * sizeof(T);
  eachLane(warp, [&](uint32_t l) {
    uint32_t begin = c[l] & 255, count = e[l] & 255;
    T mask = begin >= width ? T(0) : T((count >= width ? ~T(0) : T((T(1) << count) - 1)) << begin);
    d[l] = (b[l] & ~mask) | (begin >= width ? T(0) : T(a[l] << begin) & mask);
  });
}
template <bool isLeft, bool wraps>
void funnelShift(Warp &warp, const Operation &op) {
  uint32_t *d = warp.lanes<uint32_t>(op.d);
  const uint32_t *a = warp.lanes<uint32_t>(op.a), *b = warp.lanes<uint32_t>(op.b),
                 *c = warp.lanes<uint32_t>(op.c);
  eachLane(warp, [&](uint32_t l) {
    uint32_t by = wraps ? c[l] & 31 : std::min(c[l], 32u);
    uint64_t both = uint64_t(b[l]) << 32 | a[l];
    d[l] = isLeft ? uint32_t(both << by >> 32) : uint32_t(both >> by);
  });
}

} // namespace

void Decoder::addBits() {
  const std::string &name = statement->opcode[0];
  uint32_t bytes = bytesOf(type());
  if (name == "popc" || name == "clz") {
    op.d = place(0, 4);
    op.a = place(1, bytes);
    return emit(name == "popc"
                    ? (bytes == 4 ? &populationCount<uint32_t> : &populationCount<uint64_t>)
                    : (bytes == 4 ? &leadingZeros<uint32_t> : &leadingZeros<uint64_t>));
  }
  if (name == "bfe") {
    op.d = place(0, bytes), op.a = place(1, bytes), op.b = place(2, 4), op.c = place(3, 4);
    if (!withInteger(type(), [&](auto t) { emit(&extractBits<decltype(t)>); }))
      unknown();
    return;
  }
  if (name == "bfi") {
    op.d = place(0, bytes), op.a = place(1, bytes), op.b = place(2, bytes), op.c = place(3, 4),
    op.e = place(4, 4);
    return emit(bytes == 4 ? &insertBits<uint32_t> : &insertBits<uint64_t>);
  }
  op.d = place(0, 4), op.a = place(1, 4), op.b = place(2, 4), op.c = place(3, 4);
  if (name == "lop3") {
    op.offset = int64_t(operand(4).bits);
    return emit(&lookUpBits);
  }
  if (name == "prmt" && lastPart() == "b32" && statement->opcode.size() == 2)
    return emit(&permuteBytes);
  if (name == "shf")
    return emit(has("l") ? (has("wrap") ? &funnelShift<true, true> : &funnelShift<true, false>)
                         : (has("wrap") ? &funnelShift<false, true> : &funnelShift<false, false>));
  unknown();
}

} // namespace emulated
