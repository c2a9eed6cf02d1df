// SPDX-License-Identifier: Apache-2.0
#include "autopar/Artifact/Program.h"

#include <charconv>

namespace autopar::artifact {

std::string Instruction::idIn(int32_t slot) const {
  size_t at = id.find('@');
  if (slot == 0 || at == std::string::npos)
    return id;
  int64_t number = 0;
  auto [end, error] = std::from_chars(id.data() + at + 1, id.data() + id.size(), number);
  if (error != std::errc())
    return id;
  return id.substr(0, at + 1) + std::to_string(number + slot) + id.substr(size_t(end - id.data()));
}

} // namespace autopar::artifact
