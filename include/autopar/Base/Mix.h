// SPDX-License-Identifier: Apache-2.0
// A counter-based source of random bits: the same number for the same counter, wherever it is
// asked.
#pragma once

#include <cstdint>

namespace autopar {

/// SplitMix64's finalizer (Steele, Lea, Flood: Fast splittable pseudorandom number generators,
/// OOPSLA 2014): every bit of the result depends on every bit of `z`.
constexpr uint64_t mix(uint64_t z) {
  z += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}

} // namespace autopar
