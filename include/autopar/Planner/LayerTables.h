// SPDX-License-Identifier: Apache-2.0
// Costs of ranges of layers from costs of single layers: sums, a running maximum, and transfers at
// the two borders. Fits StageCutProblem::cost.
#pragma once

#include <cstdint>
#include <vector>

#include "autopar/Planner/StageCut.h"

namespace autopar {

/// A stage's connection to its neighbours on one sub-mesh.
struct StageLink {
  double latencyUs = 0;
  double bytesPerUs = 0; ///< <= 0: transfers take the latency alone
};

/// Everything about a chain of layers on every sub-mesh.
struct LayerTable {
  /// [sub-mesh][layer]
  std::vector<std::vector<StageCost>> layers;
  /// [border]: bytes that one micro-batch sends each way across the border before this layer
  /// (activation forward, its gradient backward); border 0 and the last one are never crossed.
  std::vector<int64_t> borderBytes;
  std::vector<StageLink> links; ///< [sub-mesh]
};

/// A cost function that keeps its own tables; BadInput where the table's sizes disagree. A transfer
/// is paid by both of its ends, each at the speed of its own link: both are busy with it.
Result<std::function<StageCost(int32_t, int32_t, int32_t)>> rangeCosts(const LayerTable &table);

} // namespace autopar
