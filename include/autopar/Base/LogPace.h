// SPDX-License-Identifier: Apache-2.0
// When a log, where nothing can be rewritten, gets another line of progress.
#pragma once

#include <cstdint>

namespace autopar {

class LogPace {
public:
  /// A line every AUTOPAR_PROGRESS_SECONDS of the environment, 10 where it says nothing; the first
  /// one that much behind this.
  LogPace();
  /// Whether it is time; the next one is that much later.
  bool isDue();

private:
  int64_t everyNs, lastNs;
};

} // namespace autopar
