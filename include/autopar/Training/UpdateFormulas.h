// SPDX-License-Identifier: Apache-2.0
// What an optimizer does to one parameter, as operations with formulas that parameters share.
#pragma once

#include "autopar/Training/Optimizers.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// Scalars beside the optimizer's own that an update reads; null where there are none.
struct UpdateConditions {
  Value clipFactor; ///< what the gradient is multiplied with
  Value isFinite;   ///< without it nothing changes
};

/// What an update starts from.
struct UpdateInputs {
  Value parameter, gradient;
  ValueRange state;  ///< in the order of Optimizer::keptNames
  ValueRange shared; ///< in the order of Optimizer::shared
  UpdateConditions conditions;
  bool decays = true;
  ParameterMatrix matrix; ///< where the optimizer has a preconditioner
};

class UpdateFormulas {
public:
  explicit UpdateFormulas(func::FuncOp function);

  /// The next value of a parameter, made by an UpdateOp, then that of its state.
  SmallVector<Value> apply(FormulaBuilder &b, const Optimizer &optimizer,
                           const UpdateInputs &inputs);

private:
  /// Of one operation; `kept` are replaced by its first results.
  struct Operands {
    Type element; ///< that it computes in: the parameter's
    SmallVector<Value> kept;
    Value gradient;
    ValueRange shared;
    UpdateConditions conditions;
  };
  /// The results from what `kept`, `gradient` and `shared` are of one element, all of the
  /// parameter's type.
  using Body = function_ref<SmallVector<Value>(FormulaBuilder &, ValueRange, Value, ValueRange)>;

  UpdateOp update(FormulaBuilder &b, const Twine &name, bool decays, const Operands &operands,
                  TypeRange results, Body body);
  FormulaOp build(StringRef name, ArrayRef<Type> numbers, const Operands &operands, Body body);

  SymbolTable symbols;
  FloatType narrow; ///< null: parameters' own
  DenseMap<std::tuple<Attribute, Attribute, unsigned>, FormulaOp>
      formulas; ///< by name, types, decay
  DenseMap<std::pair<Value, Type>, Value> casts;
};

} // namespace mlir::autopar
