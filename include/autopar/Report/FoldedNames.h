// SPDX-License-Identifier: Apache-2.0
// Layers told once: "h.0.fc.weight" and "h.1.fc.weight" are "h.*.fc.weight".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "autopar/Plan/PlanDetails.h"

namespace autopar {

/// The name with numbers that stand alone between '.' or '/' replaced by '*', as constraints
/// understand it; with `foldsLast` also behind the last '.', which numbers operations of one
/// origin.
std::string foldedName(std::string_view name, bool foldsLast = false);

/// How a value lies, in words: "rows over data, columns over tensor × expert; a sum over x is
/// left".
std::string shardingWords(const RowSharding &sharding);

} // namespace autopar
