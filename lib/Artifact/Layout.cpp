// SPDX-License-Identifier: Apache-2.0
// Sizes of activations in the layouts that convolutions use.
#include "autopar/Artifact/Layout.h"

#include "autopar/Artifact/Verify.h"

#include <algorithm>

namespace autopar::artifact {

int64_t paddedChannels(int64_t channels, Layout layout) {
  int64_t block = layout == Layout::Blocked8 ? 8 : layout == Layout::Blocked16 ? 16 : 1;
  return (channels + block - 1) / block * block;
}

std::optional<int64_t> layoutBytes(const std::vector<int64_t> &dims, DataType type, Layout layout) {
  std::vector<int64_t> padded = dims;
  if (padded.size() > 1 && padded[1] >= 0 && padded[1] <= INT64_MAX - 16)
    padded[1] = paddedChannels(padded[1], layout);
  return checkedBytes(padded, type);
}

std::vector<int64_t> Port::callerShape() const {
  if (!modelShape.empty())
    return modelShape;
  if (microBatches == 1)
    return shape;
  std::vector<int64_t> joined(shape.begin() + 1, shape.end());
  joined.front() *= shape.front();
  return joined;
}

std::vector<int64_t> Port::sourceShape() const {
  std::vector<int64_t> result = callerShape();
  if (!transposeOf.empty())
    std::reverse(result.begin(), result.end());
  return result;
}

} // namespace autopar::artifact
