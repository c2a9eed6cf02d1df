// SPDX-License-Identifier: Apache-2.0
// Two choices combined into one at least as good: where they differ, the differing nodes fall into
// connected parts whose costs do not touch, so each part is taken from whichever choice it is
// better in, memory permitting. The idea is that of partition crossover (Whitley, Hains and Howe,
// "Tunneling between optima", GECCO 2009).
#pragma once

#include <cstdint>
#include <vector>

#include "ReducedProblem.h"

namespace autopar::planner {

/// The better of `base`, `other` and `base` with the parts of `other` that improve it.
std::vector<int32_t> recombine(const ReducedProblem &problem, const std::vector<int32_t> &base,
                               const std::vector<int32_t> &other);

} // namespace autopar::planner
