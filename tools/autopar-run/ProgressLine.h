// SPDX-License-Identifier: Apache-2.0
// One line on stderr that is rewritten where a person watches; in a log, one now and then.
#pragma once

#include "autopar/Base/LogPace.h"

#include <cstdint>
#include <string>

namespace autopar::tools {

class ProgressLine {
public:
  ProgressLine(bool isWanted, int64_t total);
  ~ProgressLine();

  /// After step `done`: its metrics ("loss 3.21", may be empty), its time, and how much of what it
  /// did in a second ("5120 tokens/s", may be empty).
  void step(int64_t done, const std::string &metrics, double ms, const std::string &rate);

private:
  bool isWanted, isWatched, hasColor;
  LogPace pace;
  int64_t total;
  double meanMs = 0; ///< of recent steps
};

} // namespace autopar::tools
