// SPDX-License-Identifier: Apache-2.0
#include "autopar/Base/ShapeText.h"

namespace autopar {

std::string shapeText(std::span<const int64_t> shape) {
  std::string text;
  for (int64_t extent : shape)
    text += (text.empty() ? "" : ",") + std::to_string(extent);
  return "[" + text + "]";
}

} // namespace autopar
