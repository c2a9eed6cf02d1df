// SPDX-License-Identifier: Apache-2.0
// Walks two imports of one model, at different extents, operation by operation.
#pragma once

#include "FoldedConstants.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

class SideBySide {
public:
  SideBySide(func::FuncOp function, func::FuncOp other) : function(function), other(other) {}
  virtual ~SideBySide() = default;

  /// What is computed of constants alone is visited where it is read: how many constants there are,
  /// and which operations import folds, goes by their size. Failure of the first visit that fails.
  LogicalResult walk();

protected:
  virtual LogicalResult visitArgument(BlockArgument argument, BlockArgument other) = 0;
  virtual LogicalResult visitResult(Operation &op, int64_t number, Type other) = 0;
  virtual LogicalResult visitAttributes(Operation &op, Operation &other) = 0;
  /// Whether operations on constants alone, the same ones, are visited as others are.
  virtual bool visitsConstantOps() const { return true; }
  /// Both are computed of constants alone, by different operations or none.
  virtual LogicalResult visitConstants(OpOperand &operand, Operation *op, Operation *other) = 0;
  /// Of an operation that the other graph lacks, the operand that it hands on there as it is; null
  /// where it does something.
  virtual Value handedOnThere(Operation &op) { return nullptr; }
  /// The two are different graphs.
  virtual LogicalResult differ(Location loc, const Twine &why) = 0;

  func::FuncOp function, other;
  FoldedConstants folds;
  DenseMap<Value, Value> matching;

private:
  LogicalResult visit(Operation &op, Operation &other);
  LogicalResult visitOperand(OpOperand &operand, Value other);
};

} // namespace mlir::autopar
