// SPDX-License-Identifier: Apache-2.0
// Copies of boxes between a whole tensor and a rank's padded buffer.
#include "autopar/Runtime/ParameterStore.h"

#include <cstring>

namespace autopar::runtime {
namespace {

/// Walks the box row by row (innermost dim contiguous) and calls visit(global offset, local offset,
/// bytes), offsets in bytes.
template <typename Visit>
void forEachRow(const std::vector<int64_t> &globalShape, const Box &box,
                const std::vector<int64_t> &localShape, int64_t elementBytes, Visit visit) {
  size_t rank = globalShape.size();
  for (int64_t extent : box.extent)
    if (extent == 0)
      return;
  if (rank == 0)
    return visit(int64_t{0}, int64_t{0}, elementBytes);
  std::vector<int64_t> index(rank, 0);
  int64_t rowBytes = box.extent[rank - 1] * elementBytes;
  while (true) {
    int64_t global = 0, local = 0;
    for (size_t d = 0; d < rank; ++d) {
      global = global * globalShape[d] + box.offset[d] + index[d];
      local = local * localShape[d] + index[d];
    }
    visit(global * elementBytes, local * elementBytes, rowBytes);
    size_t d = rank - 1;
    while (d > 0 && ++index[d - 1] == box.extent[d - 1])
      index[--d] = 0;
    if (d == 0)
      return;
  }
}

} // namespace

void copyBoxToLocal(const void *global, const std::vector<int64_t> &globalShape, const Box &box,
                    void *local, const std::vector<int64_t> &localShape, int64_t elementBytes) {
  forEachRow(globalShape, box, localShape, elementBytes,
             [&](int64_t from, int64_t to, int64_t bytes) {
               std::memcpy(static_cast<uint8_t *>(local) + to,
                           static_cast<const uint8_t *>(global) + from, size_t(bytes));
             });
}

void copyBoxToGlobal(const void *local, const std::vector<int64_t> &localShape, const Box &box,
                     void *global, const std::vector<int64_t> &globalShape, int64_t elementBytes) {
  forEachRow(globalShape, box, localShape, elementBytes,
             [&](int64_t to, int64_t from, int64_t bytes) {
               std::memcpy(static_cast<uint8_t *>(global) + to,
                           static_cast<const uint8_t *>(local) + from, size_t(bytes));
             });
}

} // namespace autopar::runtime
