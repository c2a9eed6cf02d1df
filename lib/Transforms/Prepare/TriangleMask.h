// SPDX-License-Identifier: Apache-2.0
// Masks that let every row see the columns up to its own, all or the last of them.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace mlir::autopar {

/// What is added to a score, or put in its place, so that its share of a softmax is zero: at most
/// this.
constexpr double kForbidden = -1e9;

/// What rows see: the columns up to row + columns - rows, of these the last `window`.
struct Triangle {
  int64_t window = 0; ///< 0: all of them
};

/// Recognizes masks; every constant is looked at once, as all layers of a model share one.
class TriangleMasks {
public:
  /// The triangle on which a tensor of conditions [..., rows, columns] holds exactly, the same for
  /// all leading dimensions: a constant, or comparisons of positions.
  std::optional<Triangle> triangleOf(Value condition);

  /// The triangle on which a tensor of floats is 0, where it forbids everything else.
  std::optional<Triangle> triangleOfBias(Value bias);

private:
  DenseMap<Attribute, std::optional<Triangle>> constants;
};

} // namespace mlir::autopar
