// SPDX-License-Identifier: Apache-2.0
// Extents that a model leaves open, and that stay open in a program.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace autopar {

/// Where a range of extents begins, and by how much it goes on; its most is bound beside it.
struct ExtentRange {
  int64_t least = 1, step = 1;
};
/// By the name of the extent.
using ExtentRanges = std::map<std::string, ExtentRange>;

} // namespace autopar
