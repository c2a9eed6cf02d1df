// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits and less as numbers.
#pragma once

#include "autopar/Base/DataType.h"

namespace autopar {

/// The number that the bits mean; `type` is one of those floats (isByteFloat).
double decodeByteFloat(DataType type, uint8_t bits);
/// The nearest number of `type`, of two the even one. What lies beyond the largest becomes
/// infinite, NaN where the type has no infinity, and the largest where it has neither.
uint8_t encodeByteFloat(DataType type, double number);

} // namespace autopar
