// SPDX-License-Identifier: Apache-2.0
// Shapes as messages have them.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace autopar {

/// "[8,128]"
std::string shapeText(std::span<const int64_t> shape);

} // namespace autopar
