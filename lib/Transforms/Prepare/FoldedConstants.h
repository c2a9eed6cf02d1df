// SPDX-License-Identifier: Apache-2.0
// What a model computes of constants alone, folded or not: import folds by size.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

class FoldedConstants {
public:
  /// Whether an operation computes with nothing but constants.
  bool isConstant(Operation *op);
  /// The result of such an operation as a constant in front of it, which varies as it does; null
  /// where it is too large, or made of numbers that extents decide.
  ConstantOp fold(Operation *op);

private:
  DenseMap<Operation *, bool> known;
  DenseMap<Operation *, ConstantOp> folded;
};

} // namespace mlir::autopar
