// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "LeastOf.h"

namespace autopar::planner {

AUTOPAR_VECTOR_CLONES
double leastOf(const double *values, size_t count) {
  return leastOf(
      count, [=](size_t i) __attribute__((always_inline)) { return values[i]; });
}

} // namespace autopar::planner
