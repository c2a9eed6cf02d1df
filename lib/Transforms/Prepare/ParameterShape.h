// SPDX-License-Identifier: Apache-2.0
// Parameters under another shape: the bytes of a parameter are row-major wherever they come from,
// so the argument that reads it may have any shape of as many elements.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::autopar {

/// Gives parameters of one function other shapes.
class ParameterShape {
public:
  explicit ParameterShape(func::FuncOp function);

  /// Whether `value` is an argument with an `autopar.origin` that is read by one operation only and
  /// not yet sharded or partitioned.
  bool mayChange(Value value);
  /// Changes the type of the argument and of its origin. Its users are the caller's concern.
  void change(Value parameter, RankedTensorType type);
  /// Brings the function's type up to date and notes the shapes that the model has
  /// (`autopar.model_shape`); to be called after the last change.
  void finish();

private:
  func::FuncOp function;
  SymbolTable symbols;
  llvm::MapVector<unsigned, SmallVector<int64_t>> modelShapes; ///< by argument: before any change
};

} // namespace mlir::autopar
