// SPDX-License-Identifier: Apache-2.0
#include "BoxRows.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace autopar::runtime {

/// Fewer elements are not worth a thread.
static constexpr int64_t kLeastOfThread = int64_t{1} << 18;

void forEachRow(const std::vector<int64_t> &shape, const Box &box,
                const std::vector<int64_t> &localShape,
                const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  size_t rank = shape.size();
  int64_t rows = 1, length = rank == 0 ? 1 : box.extent[rank - 1];
  for (size_t d = 0; d + 1 < rank; ++d)
    rows *= box.extent[d];
  if (length == 0)
    return;
  std::atomic<int64_t> next = 0;
  int64_t atOnce = std::max<int64_t>(1, kLeastOfThread / length);
  auto work = [&] {
    for (int64_t first; (first = next.fetch_add(atOnce)) < rows;)
      for (int64_t row = first; row < std::min(first + atOnce, rows); ++row) {
        int64_t global = 0, at = 0, left = row, step = 1, localStep = 1;
        for (size_t d = rank; d-- > 0;) {
          int64_t index = d + 1 == rank ? 0 : left % box.extent[d];
          left = d + 1 == rank ? left : left / box.extent[d];
          global += (box.offset[d] + index) * step, at += index * localStep;
          step *= shape[d], localStep *= localShape[d];
        }
        visit(global, at, length);
      }
  };
  std::vector<std::thread> others;
  int64_t most = std::max<int64_t>(1, std::thread::hardware_concurrency());
  for (int64_t i = 1; i < std::min(most, (rows + atOnce - 1) / atOnce); ++i)
    others.emplace_back(work);
  work();
  for (std::thread &other : others)
    other.join();
}

} // namespace autopar::runtime
