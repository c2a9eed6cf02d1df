// SPDX-License-Identifier: Apache-2.0
// A table of the formats; bits are exponent and mantissa behind a sign.
#include "autopar/Base/ByteFloat.h"

#include <array>
#include <cmath>
#include <limits>

namespace autopar {
namespace {

struct Format {
  int mantissaBits, bias;
  uint8_t sign;    ///< the sign's bit
  uint8_t largest; ///< of finite numbers
  int infinity;    ///< -1: there is none
  int nan;         ///< -1: there is none; the sign's bit alone: there is no negative zero
};

const Format &formatOf(DataType type) {
  static constexpr std::array<Format, 5> formats = {{{3, 7, 0x80, 0x7e, -1, 0x7f},
                                                     {3, 8, 0x80, 0x7f, -1, 0x80},
                                                     {2, 15, 0x80, 0x7b, 0x7c, 0x7e},
                                                     {2, 16, 0x80, 0x7f, -1, 0x80},
                                                     {1, 1, 0x8, 0x7, -1, -1}}};
  return formats.at(size_t(type) - size_t(DataType::F8E4M3FN));
}

/// Of the bits of a number without its sign.
double magnitude(const Format &f, int bits) {
  int exponent = bits >> f.mantissaBits, mantissa = bits & ((1 << f.mantissaBits) - 1);
  if (exponent > 0)
    mantissa += 1 << f.mantissaBits;
  return std::ldexp(mantissa, std::max(exponent, 1) - f.bias - f.mantissaBits);
}

} // namespace

double decodeByteFloat(DataType type, uint8_t bits) {
  const Format &f = formatOf(type);
  int unsignedBits = bits & (f.sign - 1);
  if (bits == f.nan || unsignedBits == f.nan || (f.infinity >= 0 && unsignedBits > f.infinity))
    return std::numeric_limits<double>::quiet_NaN();
  double number = unsignedBits == f.infinity ? std::numeric_limits<double>::infinity()
                                             : magnitude(f, unsignedBits);
  return bits & f.sign ? -number : number;
}

uint8_t encodeByteFloat(DataType type, double number) {
  const Format &f = formatOf(type);
  bool hasNegativeZero = f.nan != f.sign;
  auto withSign = [&](int bits) {
    return uint8_t(bits | (std::signbit(number) && (bits || hasNegativeZero) ? f.sign : 0));
  };
  if (std::isnan(number))
    return f.nan >= 0 ? uint8_t(f.nan) : f.sign;
  double size = std::abs(number);
  // Steps are those of the number's own exponent, or of the smallest.
  int exponent = size > 0 ? std::max(std::ilogb(size), 1 - f.bias) : 1 - f.bias;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(size, f.mantissaBits - exponent)),
                              exponent - f.mantissaBits);
  if (rounded > magnitude(f, f.largest))
    return withSign(f.infinity >= 0 ? f.infinity : f.nan >= 0 ? f.nan : f.largest);
  int low = 0, high = f.largest;
  while (low < high) {
    int middle = (low + high) / 2;
    if (magnitude(f, middle) < rounded)
      low = middle + 1;
    else
      high = middle;
  }
  return withSign(low);
}

} // namespace autopar
