// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Artifact/CudaScratch.h"

#include <algorithm>

namespace autopar::artifact {

static int64_t aligned(int64_t bytes) {
  return (bytes + kCudaScratchAlignment - 1) / kCudaScratchAlignment * kCudaScratchAlignment;
}

CudaGradientSums cudaGradientSums(const AttentionGeometry &geometry) {
  if (!geometry.isGradient())
    return {};
  const std::vector<int64_t> &query = geometry.operands[0].dims;
  int64_t rows = query[0] * query[1] * query[2];
  return {aligned(rows * query[3] * 4), aligned(rows * 4)};
}

int64_t cudaScratchBytes(const AttentionGeometry &geometry) {
  constexpr int64_t kAlways = 256, kMostParts = 32, kMostRows = 2048;
  const std::vector<int64_t> &query = geometry.operands[0].dims, &key = geometry.operands[1].dims,
                             &value = geometry.operands[2].dims;
  if (!geometry.isGradient()) {
    // The keys of a single query are divided where heads are few: a row of sums in f32, the largest
    // score and the sum of weights for each part.
    int64_t rows = std::min(query[0] * query[1] * kMostParts, kMostRows);
    return kAlways + (query[2] == 1 ? aligned(rows * (value[3] + 2) * 4) : 0);
  }
  // Before Hopper, and where sequences are short, engines sum the queries' gradient in blocks of
  // their own.
  int64_t heads = query[0] * query[1], block = heads * ((query[2] + 15) / 16 * 16) * query[3] * 4;
  int64_t perHead = query[1] == key[1] ? 0 : heads * key[2] * (key[3] + value[3]) * 2;
  return cudaGradientSums(geometry).total() + kAlways + aligned(block + perHead);
}

int64_t cudaScratchBytes(const ConvolutionGeometry &geometry) {
  constexpr int64_t kPartialSums = int64_t{4} << 20;
  // Engines of f32 read tensors as they lie.
  if (geometry.xType == DataType::F32)
    return kPartialSums;
  auto inEights = [](std::vector<int64_t> dims, size_t first) {
    int64_t elements = 1;
    for (size_t dim = 0; dim < dims.size(); ++dim)
      elements *= dim >= first && dim < 2 ? (dims[dim] + 7) / 8 * 8 : dims[dim];
    return elements;
  };
  int64_t elements = inEights(geometry.input(), 1) + inEights(geometry.filter(), 0) +
                     inEights(geometry.output(), 1);
  return kPartialSums + aligned(elements * byteSize(geometry.xType));
}

} // namespace autopar::artifact
