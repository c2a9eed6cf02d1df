// SPDX-License-Identifier: Apache-2.0
// Half precision in software, rounded to nearest even as the hardware does.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace emulated {

template <typename To, typename From>
inline To bitCast(From value) {
  static_assert(sizeof(To) == sizeof(From));
  To result;
  std::memcpy(&result, &value, sizeof(To));
  return result;
}

/// A double to the nearest number of a narrow format; `exponentBits` and `fractionBits` describe
/// it.
inline uint16_t roundNarrow(double value, int exponentBits, int fractionBits) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  int bias = (1 << (exponentBits - 1)) - 1;
  uint16_t infinity = uint16_t(((1 << exponentBits) - 1) << fractionBits);
  if (std::isnan(value))
    return 0x7fff;
  value = std::fabs(value);
  if (std::isinf(value))
    return sign | infinity;
  if (value == 0)
    return sign;
  int exponent = std::ilogb(value);
  exponent = exponent < 1 - bias ? 1 - bias : exponent;
  double units =
      std::nearbyint(std::ldexp(value, fractionBits - exponent)); // in units of the last place
  if (units >= double(2 << fractionBits)) {
    units /= 2;
    ++exponent;
  }
  if (exponent > bias)
    return sign | infinity;
  uint32_t whole = uint32_t(units);
  return whole < (1u << fractionBits) ? uint16_t(sign | whole)
                                      : uint16_t(sign | ((exponent + bias) << fractionBits) +
                                                            int(whole - (1u << fractionBits)));
}

struct Half {
  uint16_t bits;
  static Half of(double value) { return {roundNarrow(value, 5, 10)}; }
  operator double() const {
    int exponent = bits >> 10 & 31, fraction = bits & 1023;
    double magnitude = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? std::ldexp(fraction, -24)
                                       : std::ldexp(fraction + 1024, exponent - 25);
    return bits & 0x8000 ? -magnitude : magnitude;
  }
};

struct BFloat {
  uint16_t bits;
  static BFloat of(float value) {
    uint32_t wide = bitCast<uint32_t>(value);
    if (value != value)
      return {0x7fff};
    return {uint16_t((wide + 0x7fff + (wide >> 16 & 1)) >> 16)};
  }
  static BFloat of(double value) {
    // Odd in the last place where something was cut off, so that the second rounding sees it.
    float narrow = float(value);
    if (double(narrow) != value && narrow == narrow && !std::isinf(narrow)) {
      uint32_t b = bitCast<uint32_t>(narrow);
      if (std::fabs(double(narrow)) > std::fabs(value))
        --b;
      narrow = bitCast<float>(b | 1);
    }
    return of(narrow);
  }
  operator double() const { return double(bitCast<float>(uint32_t(bits) << 16)); }
};

/// Conversion between any two of the number types.
template <typename T>
struct Make {
  template <typename F>
  static T from(F value) {
    return T(value);
  }
};
template <>
struct Make<Half> {
  template <typename F>
  static Half from(F value) {
    return Half::of(double(value));
  }
};
template <>
struct Make<BFloat> {
  template <typename F>
  static BFloat from(F value) {
    return BFloat::of(double(value));
  }
  static BFloat from(float value) { return BFloat::of(value); }
};

} // namespace emulated
