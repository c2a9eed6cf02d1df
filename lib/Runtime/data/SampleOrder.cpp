// SPDX-License-Identifier: Apache-2.0
// A Feistel network over the next power of four, walked until it lands inside (Black and Rogaway:
// Ciphers with arbitrary finite domains, CT-RSA 2002).
#include "SampleOrder.h"

#include "autopar/Base/Mix.h"

#include <bit>

namespace autopar::runtime {
namespace {

constexpr int kRounds = 6;

} // namespace

int64_t SampleOrder::at(int64_t position) const {
  int64_t epoch = position / count, place = position % count;
  if (!isShuffled)
    return place;
  uint64_t key = mix(seed ^ mix(uint64_t(epoch)));
  int half = (std::bit_width(uint64_t(count - 1)) + 1) / 2;
  uint64_t mask = (uint64_t(1) << half) - 1;
  auto walked = uint64_t(place);
  do {
    uint64_t left = walked >> half, right = walked & mask;
    for (int round = 0; round < kRounds; ++round) {
      uint64_t next = left ^ (mix(right ^ mix(key + uint64_t(round))) & mask);
      left = right;
      right = next;
    }
    walked = left << half | right;
  } while (walked >= uint64_t(count));
  return int64_t(walked);
}

} // namespace autopar::runtime
