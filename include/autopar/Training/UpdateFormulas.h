// SPDX-License-Identifier: Apache-2.0
// What an optimizer does to one parameter, as one operation with a formula that parameters share.
#pragma once

#include "autopar/Training/Optimizers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Scalars beside the optimizer's own that an update reads; null where there are none.
struct UpdateConditions {
  Value clipFactor; ///< what the gradient is multiplied with
  Value isFinite;   ///< without it nothing changes
};

class UpdateFormulas {
public:
  /// `name`: of the formulas.
  UpdateFormulas(func::FuncOp function, StringRef name, const Optimizer &optimizer);

  /// The next value of a parameter, then that of its state.
  UpdateOp apply(FormulaBuilder &b, Value parameter, Value gradient, ValueRange state,
                 ValueRange shared, UpdateConditions conditions, bool decays);

private:
  FormulaOp build(ArrayRef<Type> numbers, size_t states, size_t shared, UpdateConditions conditions,
                  bool decays);

  SymbolTable symbols;
  std::string name;
  const Optimizer &optimizer;
  DenseMap<std::pair<Attribute, unsigned>, FormulaOp> formulas; ///< by element types and decay
  DenseMap<std::pair<Value, Type>, Value> casts;
};

} // namespace mlir::autopar
