// SPDX-License-Identifier: Apache-2.0
// A plan in the words of those who write such plans by hand.
#pragma once

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

} // namespace autopar
