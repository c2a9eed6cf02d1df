// SPDX-License-Identifier: Apache-2.0
// A plan in the words of those who write such plans by hand.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopar/Plan/Plan.h"

namespace autopar {

struct PlanWord {
  std::string what; ///< "x = 4", "pipeline", "optimizer state", ...
  std::string how;
  bool operator==(const PlanWord &) const = default;
};

/// How work, parameters and state are shared: the axes of the meshes, stages and micro-batches,
/// ZeRO and what it saves, what is computed again, what lies in host memory. Only what the plan's
/// beliefs tell: of one that was never costed, the meshes and stages.
std::vector<PlanWord> planWords(const Plan &plan);

/// "1.16 s", "32.1 ms", "840 us"
std::string timeWords(double us);
/// "75.9 GiB", "512 MiB", "1.50 KiB"
std::string bytesWords(double bytes);
/// "8 %", "0.4 %"
std::string percentWords(double part);

} // namespace autopar
