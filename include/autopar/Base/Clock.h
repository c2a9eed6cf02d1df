// SPDX-License-Identifier: Apache-2.0
// Where a part of the program takes the time from: the machine's clock, or one of a simulation.
#pragma once

#include <cstdint>

namespace autopar {

class Clock {
public:
  virtual ~Clock() = default;
  /// Nanoseconds since some moment; never goes back.
  virtual int64_t nowNs() const = 0;
};

/// The machine's own, the same in all of the process.
const Clock &steadyClock();

} // namespace autopar
