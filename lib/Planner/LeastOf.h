// SPDX-License-Identifier: Apache-2.0
// The least of many numbers. The order in which numbers are compared is not for the compiler to
// change, so loops say themselves that lanes of a vector are compared apart.
#pragma once

#include <array>
#include <cstddef>
#include <limits>

#include "VectorClones.h"

namespace autopar::planner {

constexpr size_t kLanes = 16;

inline double lower(double least, double value) { return value < least ? value : least; }

/// The least of `valueAt(0)` to `valueAt(count - 1)`, none of which is NaN; infinite without any.
template <typename ValueAt>
inline __attribute__((always_inline)) double leastOf(size_t count, ValueAt valueAt) {
  std::array<double, kLanes> least;
  least.fill(std::numeric_limits<double>::infinity());
  size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (size_t lane = 0; lane < kLanes; ++lane)
      least[lane] = lower(least[lane], valueAt(i + lane));
  for (; i < count; ++i)
    least[0] = lower(least[0], valueAt(i));
  for (size_t lane = 1; lane < kLanes; ++lane)
    least[0] = lower(least[0], least[lane]);
  return least[0];
}

/// The least of `count` values.
double leastOf(const double *values, size_t count);

} // namespace autopar::planner
