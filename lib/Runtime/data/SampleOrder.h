// SPDX-License-Identifier: Apache-2.0
// The order in which samples are seen: a different permutation in every epoch, computed from the
// seed for any place alone, so that neither a list nor a state has to be kept or resumed.
#pragma once

#include <cstdint>

namespace autopar::runtime {

class SampleOrder {
public:
  /// `count` samples, at least one; in order when not shuffled.
  SampleOrder(int64_t count, bool isShuffled, uint64_t seed)
      : count(count), isShuffled(isShuffled), seed(seed) {}

  /// The sample at `position` >= 0 of the endless stream: epoch after epoch, each sample once.
  int64_t at(int64_t position) const;

private:
  int64_t count;
  bool isShuffled;
  uint64_t seed;
};

} // namespace autopar::runtime
