// SPDX-License-Identifier: Apache-2.0
// Constants of one model, imported at two extents: by which rule their numbers follow the extent.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <optional>

namespace mlir::autopar {

/// Something that follows the extent: how much it is at the most, and by how much it grows where
/// the extent does by a step.
struct Following {
  int64_t most, growth;
  bool operator==(const Following &) const = default;
};

/// A number that something which follows the extent decides.
struct NumberRule {
  Following from;
  StringRef rule; ///< as in `kDecidesAttribute`
};

/// Compares what the model holds at the most with what it holds where the extent is a step more
/// (`direction` 1) or less (-1).
class VaryingNumbers {
public:
  VaryingNumbers(Following extent, int64_t direction) : following{extent}, direction(direction) {}

  /// A dimension that follows the extent.
  void add(Following dimension);

  /// Whether both hold the same wherever both have a position.
  static bool agreeInCommon(DenseElementsAttr ours, DenseElementsAttr theirs);

  /// Where both hold the same but for a last position, which those behind it are clamped to (the
  /// border of a resized image): how that follows.
  std::optional<Following> clampOf(DenseElementsAttr ours, DenseElementsAttr theirs) const;

  /// The rule by which the extent, or a dimension that follows it, decides the one number that each
  /// holds. Each has one coefficient, so that two values tell whether it holds.
  std::optional<NumberRule> ruleOf(DenseElementsAttr ours, DenseElementsAttr theirs) const;

private:
  SmallVector<Following> following;
  int64_t direction;
};

} // namespace mlir::autopar
