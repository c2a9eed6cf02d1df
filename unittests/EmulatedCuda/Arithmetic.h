// SPDX-License-Identifier: Apache-2.0
// What the arithmetic instructions do to one lane.
#pragma once

#include "Numbers.h"
#include "Warp.h"

#include <algorithm>
#include <limits>
#include <type_traits>

namespace emulated {

template <typename T>
constexpr bool isNarrow = std::is_same_v<T, Half> || std::is_same_v<T, BFloat>;
template <typename T>
constexpr bool isFloating = std::is_floating_point_v<T> || isNarrow<T>;
/// The type to compute in.
template <typename T>
using Wide = std::conditional_t<isNarrow<T>, double, T>;

template <typename T>
bool isNan(T value) {
  if constexpr (isFloating<T>)
    return Wide<T>(value) != Wide<T>(value);
  return false;
}

#define EMULATED_BINARY(Name, expression)                                                          \
  struct Name {                                                                                    \
    template <typename T>                                                                          \
    static T run(T a, T b) {                                                                       \
      using W [[maybe_unused]] = Wide<T>;                                                          \
      return expression;                                                                           \
    }                                                                                              \
  };
template <typename T>
using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
template <typename T, typename F>
T wrap(T a, T b, F f) {
  if constexpr (std::is_integral_v<T>)
    return T(f(Bits<T>(a), Bits<T>(b)));
  else
    return Make<T>::from(f(Wide<T>(a), Wide<T>(b)));
}
EMULATED_BINARY(Add, wrap(a, b, [](auto x, auto y) { return x + y; }))
EMULATED_BINARY(Sub, wrap(a, b, [](auto x, auto y) { return x - y; }))
EMULATED_BINARY(Mul, wrap(a, b, [](auto x, auto y) { return x * y; }))
struct Div {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (isFloating<T>)
      return Make<T>::from(Wide<T>(a) / Wide<T>(b));
    else
      return b == 0 ? T(-1) : std::is_signed_v<T> && b == T(-1) ? T(-Bits<T>(a)) : T(a / b);
  }
};
struct Rem {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (isFloating<T>)
      return a;
    else
      return b == 0 ? a : std::is_signed_v<T> && b == T(-1) ? T(0) : T(a % b);
  }
};
/// A number is preferred to NaN.
struct Min {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == 0 && b == 0)
        return std::signbit(a) ? a : b;
    }
    return isNan(a) ? b : isNan(b) ? a : Wide<T>(b) < Wide<T>(a) ? b : a;
  }
};
struct Max {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (a == 0 && b == 0)
        return std::signbit(a) ? b : a;
    }
    return isNan(a) ? b : isNan(b) ? a : Wide<T>(a) < Wide<T>(b) ? b : a;
  }
};
EMULATED_BINARY(MinNan, isNan(a) ? a : isNan(b) ? b : Min::run(a, b))
EMULATED_BINARY(MaxNan, isNan(a) ? a : isNan(b) ? b : Max::run(a, b))
struct And {
  template <typename T>
  static T run(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <typename T>
  static T run(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <typename T>
  static T run(T a, T b) {
    return a ^ b;
  }
};
struct MulHi {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (!std::is_integral_v<T>)
      return a;
    else if constexpr (sizeof(T) == 8)
      return std::is_signed_v<T> ? T(__int128(a) * __int128(b) >> 64)
                                 : T((unsigned __int128)(a) * (unsigned __int128)(b) >> 64);
    else
      return T(int64_t(a) * int64_t(b) >> (8 * sizeof(T)));
  }
};
struct CopySign {
  template <typename T>
  static T run(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::copysign(b, a);
    else
      return b;
  }
};

#define EMULATED_UNARY(Name, floats, integers)                                                     \
  struct Name {                                                                                    \
    template <typename T>                                                                          \
    static T run(T a) {                                                                            \
      using W [[maybe_unused]] = Wide<T>;                                                          \
      if constexpr (isFloating<T>)                                                                 \
        return Make<T>::from(floats);                                                              \
      else                                                                                         \
        return T(integers);                                                                        \
    }                                                                                              \
  };
EMULATED_UNARY(Neg, -W(a), -Bits<T>(a))
EMULATED_UNARY(Abs, std::fabs(W(a)), std::is_signed_v<T> &&a < T(0) ? -Bits<T>(a) : Bits<T>(a))
EMULATED_UNARY(Sqrt, std::sqrt(W(a)), a)
EMULATED_UNARY(Rsqrt, W(1) / std::sqrt(W(a)), a)
EMULATED_UNARY(Rcp, W(1) / W(a), a)
EMULATED_UNARY(Ex2, std::exp2(W(a)), a)
EMULATED_UNARY(Lg2, std::log2(W(a)), a)
EMULATED_UNARY(Sin, std::sin(W(a)), a)
EMULATED_UNARY(Cos, std::cos(W(a)), a)
EMULATED_UNARY(Tanh, std::tanh(W(a)), a)
EMULATED_UNARY(Move, W(a), a)
/// As wrong as the instruction may be: results that are no f32 are off by `ulps`, up or down.
/// `flushes`: denormals become 0, given or made.
template <typename F, int ulps, bool flushes>
struct Approximate {
  static float flushed(float value) {
    return flushes && std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
  }
  template <typename T>
  static T run(T a) {
    a = flushed(a);
    double exact = F::template run<double>(a);
    float result = float(exact);
    if (double(result) == exact || !std::isnormal(result))
      return flushed(result);
    uint32_t bits;
    std::memcpy(&bits, &a, sizeof(bits));
    float limit = bits * 2654435761u >> 31 ? std::numeric_limits<float>::infinity() : 0.0f;
    for (int i = 0; i < ulps; ++i)
      result = std::nextafter(result, std::copysign(limit, result));
    return flushed(result);
  }
};
struct Not {
  template <typename T>
  static T run(T a) {
    return T(~a);
  }
};
struct CNot {
  template <typename T>
  static T run(T a) {
    return T(a == 0);
  }
};
struct BitReverse {
  template <typename T>
  static T run(T a) {
    T r = 0;
    for (size_t i = 0; i < 8 * sizeof(T); ++i)
      r = T(r << 1) | T(a >> i & 1);
    return r;
  }
};

struct Fma {
  template <typename T>
  static T run(T a, T b, T c) {
    if constexpr (isFloating<T>)
      return Make<T>::from(std::fma(Wide<T>(a), Wide<T>(b), Wide<T>(c)));
    else
      return T(Bits<T>(a) * Bits<T>(b) + Bits<T>(c));
  }
};

/// A function for all lanes that the operation is for.
template <typename F>
inline void eachLane(Warp &warp, F &&f) {
  if (warp.active == ~0u) {
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      f(lane);
    return;
  }
  for (uint32_t rest = warp.active; rest; rest &= rest - 1)
    f(uint32_t(__builtin_ctz(rest)));
}

template <typename T, typename F>
void unary(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a);
  eachLane(warp, [&](uint32_t l) { d[l] = F::template run<T>(a[l]); });
}
template <typename T, typename F>
void binary(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b);
  eachLane(warp, [&](uint32_t l) { d[l] = F::template run<T>(a[l], b[l]); });
}
template <typename T, typename F>
void ternary(Warp &warp, const Operation &op) {
  T *d = warp.lanes<T>(op.d);
  const T *a = warp.lanes<T>(op.a), *b = warp.lanes<T>(op.b), *c = warp.lanes<T>(op.c);
  eachLane(warp, [&](uint32_t l) { d[l] = F::template run<T>(a[l], b[l], c[l]); });
}
/// Two narrow numbers in a word.
template <typename T>
struct Pair {
  T low, high;
};
template <typename T, typename F>
struct ForPair {
  template <typename P>
  static P run(P a) {
    return {F::template run<T>(a.low), F::template run<T>(a.high)};
  }
  template <typename P>
  static P run(P a, P b) {
    return {F::template run<T>(a.low, b.low), F::template run<T>(a.high, b.high)};
  }
  template <typename P>
  static P run(P a, P b, P c) {
    return {F::template run<T>(a.low, b.low, c.low), F::template run<T>(a.high, b.high, c.high)};
  }
};
/// [0, 1], NaN becomes 0.
template <typename F>
struct Saturated {
  template <typename T, typename... A>
  static T run(A... a) {
    T value = F::template run<T>(a...);
    return Make<T>::from(Wide<T>(value) > Wide<T>(0) ? std::min(Wide<T>(value), Wide<T>(1))
                                                     : Wide<T>(0));
  }
};

enum class NumberType {
  U8,
  S8,
  U16,
  S16,
  U32,
  S32,
  U64,
  S64,
  F16,
  BF16,
  F32,
  F64,
  F16x2,
  BF16x2,
  Unknown
};

/// The type of a suffix; "b" types are unsigned.
NumberType typeOf(const std::string &suffix);
uint32_t bytesOf(NumberType type);

/// Calls f with a value of the C++ type.
template <typename F>
bool withInteger(NumberType type, F &&f) {
  switch (type) {
  case NumberType::U16:
    return f(uint16_t()), true;
  case NumberType::S16:
    return f(int16_t()), true;
  case NumberType::U32:
    return f(uint32_t()), true;
  case NumberType::S32:
    return f(int32_t()), true;
  case NumberType::U64:
    return f(uint64_t()), true;
  case NumberType::S64:
    return f(int64_t()), true;
  default:
    return false;
  }
}
template <typename F>
bool withType(NumberType type, F &&f) {
  switch (type) {
  case NumberType::F16:
    return f(Half()), true;
  case NumberType::BF16:
    return f(BFloat()), true;
  case NumberType::F32:
    return f(float()), true;
  case NumberType::F64:
    return f(double()), true;
  default:
    return withInteger(type, f);
  }
}

} // namespace emulated
