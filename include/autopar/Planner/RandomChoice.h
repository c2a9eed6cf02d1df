// SPDX-License-Identifier: Apache-2.0
// Arbitrary choices, for holding plans of any kind against a single rank.
#pragma once

#include <cstdint>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar {

/// One strategy per node, drawn from `seed`: none and no pair of them is forbidden, whatever they
/// cost and hold. BadInput with the node where none was found.
Result<std::vector<int32_t>> drawChoice(const CostGraph &graph, uint64_t seed);

} // namespace autopar
