// SPDX-License-Identifier: Apache-2.0
// A plan as one HTML file that needs nothing else: no network, no fonts, no libraries.
#pragma once

#include <cstdint>
#include <string>

#include "autopar/Plan/PlanDetails.h"

namespace autopar {

/// What a report tells besides the plan.
struct ReportInput {
  std::string model; ///< its file's name
  bool trains = false;
  int64_t samples = 0, tokens = 0; ///< of a step; 0: unknown
  const Plan &plan;
  const PlanDetails &details;
};

/// The page. Its data stands in it as JSON (script id="data"): "plan" is the plan's file; "rows"
/// are parameters and operations with repeated layers folded.
std::string htmlReport(const ReportInput &input);

} // namespace autopar
