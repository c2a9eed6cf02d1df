// SPDX-License-Identifier: Apache-2.0
// Normalizations along extents that vary.
#pragma once

#include "PaddingMask.h"

namespace mlir::autopar {

/// Puts statistics of what is in front of the end in the place of those of whole rows, and what
/// they normalize in the place of the result.
LogicalResult normalizeToEnd(NormalizeOp op, VaryingDims &dims, PaddingMask &mask);

} // namespace mlir::autopar
