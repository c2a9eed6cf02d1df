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

/// A dimension of a constant of which the last places go with its end.
struct MovedEnd {
  int64_t dim;
  int64_t growth; ///< of the dimension, where the extent grows by a step
  int64_t tail;   ///< places
  int64_t more;   ///< by so much is what stands there more where the extent grows by a step
};

/// Compares what the model holds at the most with what it holds where the extent is a step more
/// (`direction` 1) or less (-1).
class VaryingNumbers {
public:
  VaryingNumbers(Following extent, int64_t direction) : following{extent}, direction(direction) {}

  /// A dimension that follows the extent.
  void add(Following dimension);

  /// The one number that a constant holds.
  static double numberOf(DenseElementsAttr splat);
  /// An element, in row-major order, as bits.
  static APInt bitsAt(DenseElementsAttr values, int64_t index);

  /// Whether both hold the same wherever both have a position.
  static bool agreeInCommon(DenseElementsAttr ours, DenseElementsAttr theirs);

  /// Where both hold the same but for a last position, which those behind it are clamped to (the
  /// border of a resized image): how that follows.
  std::optional<Following> clampOf(DenseElementsAttr ours, DenseElementsAttr theirs) const;

  /// Where both hold the same but for a dimension whose last places go with its end, and what
  /// stands in front of them is regular, so that there may be fewer by `steps` steps.
  std::optional<MovedEnd> endOf(DenseElementsAttr ours, DenseElementsAttr theirs,
                                int64_t steps) const;

  /// The rule by which the extent, or a dimension that follows it, decides the one number that each
  /// holds. Each has one coefficient, which two values tell, if it is one of these.
  std::optional<NumberRule> ruleOf(DenseElementsAttr ours, DenseElementsAttr theirs) const;

private:
  SmallVector<Following> following;
  int64_t direction;
};

} // namespace mlir::autopar
