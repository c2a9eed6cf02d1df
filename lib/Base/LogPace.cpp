// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/LogPace.h"

#include "autopar/Base/Clock.h"

#include <cstdlib>

namespace autopar {

LogPace::LogPace() : everyNs(10'000'000'000), lastNs(steadyClock().nowNs()) {
  const char *said = std::getenv("AUTOPAR_PROGRESS_SECONDS");
  char *end = nullptr;
  double seconds = said ? std::strtod(said, &end) : 0;
  if (said && end != said && *end == '\0' && seconds >= 0 && seconds < 1e9)
    everyNs = static_cast<int64_t>(seconds * 1e9);
}

bool LogPace::isDue() {
  int64_t now = steadyClock().nowNs();
  if (now - lastNs < everyNs)
    return false;
  lastNs = now;
  return true;
}

} // namespace autopar
