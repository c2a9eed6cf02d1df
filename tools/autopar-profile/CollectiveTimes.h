// SPDX-License-Identifier: Apache-2.0
// Times of collectives and messages among the ranks of this machine: what a profile database says
// of them.
#pragma once

#include "Measurements.h"

#include "autopar/Cost/MeasuredCollectives.h"

#include <vector>

namespace autopar::tools {

/// Among groups of every size that divides the ranks, all groups at once.
Result<std::vector<MeasuredCollective>> measureCollectives(const Machine &machine);

} // namespace autopar::tools
