// SPDX-License-Identifier: Apache-2.0
// Element-wise reduction of several contributions in a fixed order.
#pragma once

#include "autopar/Artifact/Program.h"

#include <cstdint>
#include <vector>

namespace autopar::runtime {

/// target[i] = sources[0][i] op sources[1][i] op ... in this order. 16-bit floats accumulate in f32
/// and round once. target may be one of the sources. Bool: sum and max are "or", min and prod are
/// "and".
void reduceInOrder(void *target, const std::vector<const void *> &sources, int64_t count,
                   DataType dtype, artifact::Reduction reduction);

} // namespace autopar::runtime
