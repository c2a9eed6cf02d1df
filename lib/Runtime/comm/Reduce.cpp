// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction of several contributions in a fixed order.
#include "Reduce.h"

#include "autopar/Base/Bf16.h"
#include "autopar/Base/ByteFloat.h"

#include <algorithm>
#include <cstring>

namespace autopar::runtime {
namespace {

using artifact::Reduction;

constexpr int64_t kBlock = 2048;

struct Bf16 {
  uint16_t bits;
};
template <DataType type>
struct ByteFloat {
  uint8_t bits;
};
float load(Bf16 x) { return fromBf16(x.bits); }
template <DataType type>
float load(ByteFloat<type> x) {
  return float(decodeByteFloat(type, x.bits));
}
float load(_Float16 x) { return float(x); }
template <typename T>
T load(T x) {
  return x;
}
void store(Bf16 &out, float x) { out.bits = toBf16(x); }
template <DataType type>
void store(ByteFloat<type> &out, float x) {
  out.bits = encodeByteFloat(type, x);
}
template <typename T, typename U>
void store(T &out, U x) {
  out = T(x);
}

/// Integer sums wrap, as everywhere else, without undefined behaviour.
template <typename T>
T add(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));
  else
    return a + b;
}
template <typename T>
T multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>)
    return T(uint64_t(a) * uint64_t(b));
  else
    return a * b;
}
/// NaN wins, so that no rank order hides one.
template <typename T>
T larger(T a, T b) {
  return a > b || a != a ? a : b;
}
template <typename T>
T smaller(T a, T b) {
  return a < b || a != a ? a : b;
}

template <typename A, typename T, typename Op>
void accumulate(A *sum, const T *source, int64_t count, Op op) {
  for (int64_t i = 0; i < count; ++i)
    sum[i] = op(sum[i], A(load(source[i])));
}

template <typename A, typename T>
void accumulate(A *sum, const T *source, int64_t count, Reduction reduction) {
  switch (reduction) {
  case Reduction::Sum:
    return accumulate(sum, source, count, add<A>);
  case Reduction::Max:
    return accumulate(sum, source, count, larger<A>);
  case Reduction::Min:
    return accumulate(sum, source, count, smaller<A>);
  case Reduction::Prod:
    return accumulate(sum, source, count, multiply<A>);
  }
}

/// A: the type that accumulates, T: the stored type.
template <typename A, typename T>
void reduce(void *target, const std::vector<const void *> &sources, int64_t count,
            Reduction reduction) {
  A sum[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t size = std::min(kBlock, count - begin);
    const T *first = static_cast<const T *>(sources[0]) + begin;
    for (int64_t i = 0; i < size; ++i)
      sum[i] = A(load(first[i]));
    for (size_t s = 1; s < sources.size(); ++s)
      accumulate(sum, static_cast<const T *>(sources[s]) + begin, size, reduction);
    T *out = static_cast<T *>(target) + begin;
    for (int64_t i = 0; i < size; ++i)
      store(out[i], sum[i]);
  }
}

} // namespace

void reduceInOrder(void *target, const std::vector<const void *> &sources, int64_t count,
                   DataType dtype, Reduction reduction) {
  switch (dtype) {
  case DataType::Bool:
    reduction = reduction == Reduction::Sum || reduction == Reduction::Max ? Reduction::Max
                                                                           : Reduction::Min;
    return reduce<uint8_t, uint8_t>(target, sources, count, reduction);
  case DataType::I8:
    return reduce<int8_t, int8_t>(target, sources, count, reduction);
  case DataType::I16:
    return reduce<int16_t, int16_t>(target, sources, count, reduction);
  case DataType::I32:
    return reduce<int32_t, int32_t>(target, sources, count, reduction);
  case DataType::I64:
    return reduce<int64_t, int64_t>(target, sources, count, reduction);
  case DataType::U8:
    return reduce<uint8_t, uint8_t>(target, sources, count, reduction);
  case DataType::U16:
    return reduce<uint16_t, uint16_t>(target, sources, count, reduction);
  case DataType::U32:
    return reduce<uint32_t, uint32_t>(target, sources, count, reduction);
  case DataType::U64:
    return reduce<uint64_t, uint64_t>(target, sources, count, reduction);
  case DataType::F16:
    return reduce<float, _Float16>(target, sources, count, reduction);
  case DataType::BF16:
    return reduce<float, Bf16>(target, sources, count, reduction);
  case DataType::F32:
    return reduce<float, float>(target, sources, count, reduction);
  case DataType::F64:
    return reduce<double, double>(target, sources, count, reduction);
  case DataType::F8E4M3FN:
    return reduce<float, ByteFloat<DataType::F8E4M3FN>>(target, sources, count, reduction);
  case DataType::F8E4M3FNUZ:
    return reduce<float, ByteFloat<DataType::F8E4M3FNUZ>>(target, sources, count, reduction);
  case DataType::F8E5M2:
    return reduce<float, ByteFloat<DataType::F8E5M2>>(target, sources, count, reduction);
  case DataType::F8E5M2FNUZ:
    return reduce<float, ByteFloat<DataType::F8E5M2FNUZ>>(target, sources, count, reduction);
  case DataType::F4E2M1FN:
    return reduce<float, ByteFloat<DataType::F4E2M1FN>>(target, sources, count, reduction);
  }
}

} // namespace autopar::runtime
