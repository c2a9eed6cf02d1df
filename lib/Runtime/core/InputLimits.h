// SPDX-License-Identifier: Apache-2.0
// Values that mean nothing to the program: labels of no class, positions outside of a table.
#pragma once

#include "autopar/Artifact/Program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime {

struct OutsideValue {
  int64_t place = 0; ///< of the element, counted from the first
  std::string text;  ///< "101 is out of range: expected 0 to 100, or -100"
};

/// The first of `count` integers that is outside of the limits; nothing where there are none.
std::optional<OutsideValue> firstOutside(const std::optional<artifact::Limits> &limits,
                                         DataType dtype, const void *data, int64_t count);

/// "[1,3]"
std::string indexText(int64_t place, const std::vector<int64_t> &shape);

} // namespace autopar::runtime
