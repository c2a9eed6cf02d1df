// SPDX-License-Identifier: Apache-2.0
// One line on stderr that is rewritten, only where a person watches.
#pragma once

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
  bool isShown, hasColor;
  int64_t total;
  double meanMs = 0; ///< of recent steps
};

} // namespace autopar::tools
