// SPDX-License-Identifier: Apache-2.0
// The state in which an optimizer keeps the moving average of a parameter.
#pragma once

#include <string>

namespace autopar {

inline constexpr const char *kAverageState = "ema";

/// Of the parameter `name`.
inline std::string averageName(const std::string &name) { return name + "/" + kAverageState; }

} // namespace autopar
