// SPDX-License-Identifier: Apache-2.0
// Optimizers: how a parameter and its state follow from the gradient. Updates are graphs of
// elementwise operations, which become one kernel per parameter.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Training/CallSyntax.h"

#include <memory>

namespace mlir::autopar {

class Optimizer {
public:
  virtual ~Optimizer() = default;

  double learningRate = 0; ///< where no schedule says otherwise
  double weightDecay = 0;

  /// Names of the tensors of the parameter's shape that are kept per parameter; they start at zero.
  virtual SmallVector<StringRef> stateNames() const = 0;
  /// Numbers that all parameters share (f64 scalars), from the learning rate and the number of this
  /// step counted from 1 (f64 scalars).
  virtual SmallVector<Value> shared(FormulaBuilder &b, Value rate, Value count) const {
    return {rate};
  }
  /// The new parameter, then the new state. `shared` are the numbers above, of the parameter's
  /// type. `decay` is the weight decay of this parameter.
  virtual SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient,
                                    ValueRange state, ValueRange shared, double decay) const = 0;
};

/// The optimizer that `call` names:
///
///   sgd(lr=0.01, momentum=0, nesterov=false, weight_decay=0)       momentum: 0.9
///   adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0)
///   adamw(... weight_decay=0.01)
///   adagrad(lr=0.01, eps=1e-10, weight_decay=0)
///   lion(lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0)
///
/// Each takes ema=N, too: exponential moving averages of the parameters, of which a step keeps N.
/// BadInput points at what is wrong.
::autopar::Result<std::unique_ptr<Optimizer>> makeOptimizer(::autopar::Call &call);

} // namespace mlir::autopar
