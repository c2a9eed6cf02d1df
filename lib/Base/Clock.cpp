// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/Clock.h"

#include <chrono>

namespace autopar {
namespace {

class SteadyClock : public Clock {
public:
  int64_t nowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

} // namespace

const Clock &steadyClock() {
  static const SteadyClock clock;
  return clock;
}

} // namespace autopar
