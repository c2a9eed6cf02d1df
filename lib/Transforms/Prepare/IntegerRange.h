// SPDX-License-Identifier: Apache-2.0
// Which whole numbers a value may hold: what came out of 8 bits is small, and products of small
// numbers are sums that floats hold exactly.
#pragma once

#include "mlir/IR/Value.h"

#include <algorithm>
#include <cstdint>
#include <optional>

namespace mlir::autopar {

/// The whole numbers from `least` to `most`.
struct IntegerRange {
  int64_t least, most;

  bool contains(IntegerRange other) const { return least <= other.least && other.most <= most; }
  int64_t magnitude() const { return std::max(-least, most); }
};

/// The range of a value of integers (at most that of its type, of up to 32 bits), or of floats that
/// are known to be whole and exact; none if neither is known.
std::optional<IntegerRange> integerRangeOf(Value value);

} // namespace mlir::autopar
