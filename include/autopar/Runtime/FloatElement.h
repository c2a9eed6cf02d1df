// SPDX-License-Identifier: Apache-2.0
// One float of any width.
#pragma once

#include "autopar/Base/DataType.h"

namespace autopar::runtime {

/// `dtype` is a float.
double loadFloat(DataType dtype, const void *from);
/// Rounds to nearest, ties to even; types that are no floats become zero.
void storeFloat(DataType dtype, double value, void *to);

} // namespace autopar::runtime
