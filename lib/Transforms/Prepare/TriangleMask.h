// SPDX-License-Identifier: Apache-2.0
// Masks that let every row see the columns up to its own.
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Value.h"

namespace mlir::autopar {

/// What is added to a score, or put in its place, so that its share of a softmax is zero: at most
/// this.
constexpr double kForbidden = -1e9;

/// Recognizes masks; every constant is looked at once, as all layers of a model share one.
class TriangleMasks {
public:
  /// Whether a tensor of conditions [..., rows, columns] holds exactly where column <= row +
  /// columns - rows, the same for all leading dimensions: a constant, or comparisons of positions.
  bool isTriangle(Value condition);

  /// Whether a tensor of floats is 0 on that triangle and forbids everything else.
  bool isTriangleBias(Value bias);

private:
  DenseMap<Attribute, bool> constants;
};

} // namespace mlir::autopar
