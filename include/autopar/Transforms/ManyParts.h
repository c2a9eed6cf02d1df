// SPDX-License-Identifier: Apache-2.0
// Concatenations of many parts, such as those of the steps of a recurrence.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Parts of one kernel: a GPU's kernel gets 4,352 bytes of arguments.
constexpr size_t kMostParts = 256;

/// Whether a concatenation stays alone: next to nothing is saved where one of so many parts is not
/// stored, while the loops of all parts become those of the most scattered one.
inline bool hasManyParts(ConcatOp concat) { return concat.getInputs().size() >= 16; }

} // namespace mlir::autopar
