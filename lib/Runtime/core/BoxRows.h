// SPDX-License-Identifier: Apache-2.0
// The rows of a box of a tensor, for who computes its elements by where they are in the whole.
#pragma once

#include "autopar/Runtime/Initializer.h"

#include <functional>

namespace autopar::runtime {

/// Calls `visit(global index, place in local, count)` for every row of the box of a tensor of
/// `shape`, its elements along the last dimension; on several threads where there are many.
void forEachRow(const std::vector<int64_t> &shape, const Box &box,
                const std::vector<int64_t> &localShape,
                const std::function<void(int64_t, int64_t, int64_t)> &visit);

} // namespace autopar::runtime
