// SPDX-License-Identifier: Apache-2.0
// The casts of mixed precision, before and after differentiation.
#pragma once

#include "autopar/Dialect/AutoPar/IR/UniqueIds.h"
#include "autopar/Interfaces/PrecisionInterface.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

Precision precisionOf(Operation *op);
/// Whether a value is an argument of the function, as it is or moved about.
bool isViewOfArgument(Value value);
/// Those of a function now, in order.
SmallVector<Operation *> operationsOf(func::FuncOp function);

/// Casts between f32 and the narrow type in one function: one per value and direction.
class PrecisionCasts {
public:
  PrecisionCasts(func::FuncOp function, FloatType narrow);

  bool isNarrow(Value value) const;
  bool isWide(Value value) const;
  Type wide() const { return wideType; }

  /// The narrow form of an f32 value. Views of arguments are taken of the narrow argument, so that
  /// each argument is rounded once and as a whole.
  Value narrow(Value value);
  /// The f32 form of a narrow value.
  Value widen(Value value);
  /// The operation reads f32 and yields f32; what was narrow before, or is to be `rounded`, is
  /// rounded behind it.
  void computeWide(Operation *op, bool rounded);

private:
  void round(Value result);
  Value cast(Value value, Type element);
  std::string baseOf(Value value);
  void name(Operation *op, const Twine &base);

  func::FuncOp function;
  FloatType narrowType, wideType;
  DenseMap<Value, Value> narrowed, widened;
  UniqueIds ids;
};

} // namespace mlir::autopar
