// SPDX-License-Identifier: Apache-2.0
// A product of two row-major matrices, for tests to vary.
#pragma once

#include "autopar/Artifact/Program.h"

namespace autopar::testing {

/// [m, k] x [k, n], all of one type, with no bias, residual or epilogue.
inline artifact::MatmulGeometry plainProduct(int64_t m, int64_t k, int64_t n, DataType type) {
  artifact::MatmulGeometry g;
  g.aType = g.bType = g.cType = g.biasType = type;
  g.a = {{m, k}, {k, 1}};
  g.b = {{k, n}, {n, 1}};
  g.c = {{m, n}, {n, 1}};
  return g;
}

} // namespace autopar::testing
