// SPDX-License-Identifier: Apache-2.0
// Time that stands still while anybody can go on, and then jumps to the next thing that happens.
#pragma once

#include "autopar/Base/Clock.h"

#include <cstddef>
#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

namespace autopar {

/// Three years: what would go on for longer is refused, so that no sum of times overflows.
constexpr int64_t kHorizonNs = 100'000'000'000'000'000;

/// Rounded; what takes longer than the horizon takes the horizon.
int64_t virtualNs(double us);

class VirtualClock : public Clock {
public:
  int64_t nowNs() const override { return now; }

  /// Something happens to `sleeper` at a time that is not past.
  void wake(int64_t atNs, int32_t sleeper);
  /// Moves to the earliest time that somebody wakes at, and gives those who do, each once, in
  /// order. False when nobody will.
  bool advance(std::vector<int32_t> &awake);

private:
  using Call = std::pair<int64_t, size_t>; ///< a time, and who wakes then: a place in `rooms`
  int64_t now = 0;
  std::priority_queue<Call, std::vector<Call>, std::greater<>> agenda;
  std::vector<std::vector<int32_t>> rooms;
  std::vector<size_t> emptyRooms;
  /// Equal ranks do equal things one after the other: the next sleeper mostly goes into the same
  /// room.
  Call last{-1, 0};
};

} // namespace autopar
