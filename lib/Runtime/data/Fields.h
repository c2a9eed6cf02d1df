// SPDX-License-Identifier: Apache-2.0
// Which array of a data file feeds which input.
#pragma once

#include "autopar/Base/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime {

/// "input = array" takes rows; "input = array[begin:end]" takes a part of a window into a stream.
struct Field {
  std::string input, array;
  bool isWindow = false;
  int64_t dropFirst = 0; ///< places of the window in front of the part
  int64_t dropLast = 0;  ///< places of the window behind it
};

/// "input_ids=tokens[:-1], labels=tokens[1:]"; Usage points at the character that was not expected.
Result<std::vector<Field>> parseFields(const std::string &text);

} // namespace autopar::runtime
