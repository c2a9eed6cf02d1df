// SPDX-License-Identifier: Apache-2.0
// Copies a box of one sample, widening integers on the way.
#pragma once

#include "autopar/Base/DataType.h"

#include <cstdint>
#include <vector>

namespace autopar::runtime {

/// Whether elements are whole numbers; truth values are none.
bool isInteger(DataType type);
/// Whether every value of `from` is one of `to`, without a change of kind.
bool widens(DataType from, DataType to);

/// The box [offset, offset + extent) of the row-major `row` of shape `shape`, to the row-major
/// `out` of shape `extent`. `from` must widen to `to`. Dimensions before `first` are not those of a
/// row and are skipped.
void copyRowBox(const uint8_t *row, DataType from, const std::vector<int64_t> &shape,
                const std::vector<int64_t> &offset, const std::vector<int64_t> &extent,
                size_t first, DataType to, uint8_t *out);

} // namespace autopar::runtime
