// SPDX-License-Identifier: Apache-2.0
// A plan looked at closely: what happens when, what every operation and parameter costs. It is
// worked out for reports, and stands in no file.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopar/Plan/Plan.h"

namespace autopar {

/// A stretch of time on a queue: a mesh, a link between meshes, or the collectives of a mesh.
struct TimelineSlice {
  int32_t queue = 0;
  std::string kind; ///< "F", "B", "W" as in schedules; "before", "after", "message", "compute",
                    ///< "collective"
  std::string name;
  int32_t stage = -1, microBatch = -1; ///< -1: none
  double startUs = 0, endUs = 0;
};

/// How a value lies while a plan runs.
struct RowSharding {
  std::vector<AxisList> dims; ///< one per dimension
  AxisList partial;           ///< axes over which the value is an unreduced part
  std::string partialKind;    ///< "sum", "max", ...; empty where nothing is partial
};

/// How a parameter lies or an operation is run, and what that costs in a step.
struct PlanRow {
  std::string name;
  bool isParameter = false;
  std::vector<int64_t> shape; ///< of the value, or of the operation's first result
  RowSharding sharding;       ///< of the same
  int64_t stage = -1;
  int64_t bytes = 0;       ///< of a rank's part
  double computeUs = 0;    ///< on one rank
  double collectiveUs = 0; ///< of what moves before an operation, or to and from a parameter
};

struct PlanDetails {
  PlanBelief believed;            ///< stepUs, peakBytes, time, memory, axes and state only
  std::vector<int64_t> hostBytes; ///< per mesh: what lies in host memory, of a device
  std::vector<std::string> queues;
  std::vector<TimelineSlice> timeline;
  std::vector<PlanRow> rows; ///< parameters, then operations in order
};

} // namespace autopar
