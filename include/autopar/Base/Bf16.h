// SPDX-License-Identifier: Apache-2.0
// Floats of 16 bits that have the exponent of f32 (bfloat16), as their bits.
#pragma once

#include <cstdint>
#include <cstring>

namespace autopar {

inline float fromBf16(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

/// To nearest, ties to even; NaN stays NaN.
inline uint16_t toBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, 4);
  if ((bits & 0x7fffffffu) > 0x7f800000u)
    return uint16_t(bits >> 16) | 0x40;
  return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1)) >> 16);
}

} // namespace autopar
