// SPDX-License-Identifier: Apache-2.0
// What differs between two plans, told by group, with repeated layers folded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopar/Plan/Plan.h"

namespace autopar {

struct PlanDifference {
  std::string group; ///< "cluster", "mesh", "stages", "micro-batches", "schedule", "recompute",
                     ///< "offload", "shardings", "operations", "time", "memory"
  std::string name;  ///< within the group; may be empty
  int64_t count = 1; ///< layers that differ alike
  std::string a, b;  ///< in words; "-" where a plan has none
  bool operator==(const PlanDifference &) const = default;
};

/// Empty where the plans decide and believe the same.
std::vector<PlanDifference> comparePlans(const Plan &a, const Plan &b);

/// One line per difference under the name of its group.
std::string differencesAsText(const std::vector<PlanDifference> &differences);
/// {"equal": false, "differences": [{"group": ..., "name": ..., "count": ..., "a": ..., "b": ...}]}
std::string differencesAsJson(const std::vector<PlanDifference> &differences);

} // namespace autopar
