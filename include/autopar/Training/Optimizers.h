// SPDX-License-Identifier: Apache-2.0
// Optimizers: how a parameter and its state follow from the gradient. Updates are graphs of
// elementwise operations, which become one kernel per parameter; what needs a matrix as a whole
// stands in front of them as operations like any other, which a plan shards.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Training/CallSyntax.h"
#include "autopar/Training/ParameterMatrices.h"

#include <memory>

namespace mlir::autopar {

/// Makes of the gradient of a matrix, as a whole, the direction that its update follows instead.
class Preconditioner {
public:
  virtual ~Preconditioner() = default;

  /// Names of the tensors of the parameter's shape that are kept per parameter; they start at zero.
  virtual SmallVector<StringRef> stateNames() const = 0;
  /// Element by element: the new state, then a direction.
  virtual SmallVector<Value> accumulate(FormulaBuilder &b, Value gradient,
                                        ValueRange state) const = 0;
  /// That direction as a whole tensor, of `matrix`, into the one that the update follows, of the
  /// same type. Products read and give elements of `narrow`.
  virtual Value precondition(FormulaBuilder &b, Value direction, const ParameterMatrix &matrix,
                             FloatType narrow) const = 0;
};

class Optimizer {
public:
  virtual ~Optimizer() = default;

  std::string name;        ///< as it is called
  double learningRate = 0; ///< where no schedule says otherwise
  double rateScale = 1;    ///< of the learning rate, whatever a schedule makes of it
  double weightDecay = 0;
  int stateBits = 32; ///< 16: what is kept is bf16, but for averages of parameters

  /// Names of all tensors that are kept per parameter: of its preconditioner, then its own.
  SmallVector<StringRef> keptNames() const;

  /// Names of the tensors of the parameter's shape that `update` keeps; they start at zero.
  virtual SmallVector<StringRef> stateNames() const = 0;
  /// Numbers that all parameters share (f64 scalars), from the learning rate and the number of this
  /// step counted from 1 (f64 scalars).
  virtual SmallVector<Value> shared(FormulaBuilder &b, Value rate, Value count) const {
    return {rate};
  }
  /// The largest part of itself that a state keeps in a step.
  virtual double keptPart() const = 0;
  /// The new parameter, then the new state. `shared` are the numbers above, of the parameter's
  /// type. `decay` is the weight decay of this parameter.
  virtual SmallVector<Value> update(FormulaBuilder &b, Value parameter, Value gradient,
                                    ValueRange state, ValueRange shared, double decay) const = 0;
  /// What makes the gradient that `update` reads; null where it reads that of the loss. Lives as
  /// long as the optimizer.
  virtual const Preconditioner *preconditioner() const { return nullptr; }
};

/// What a call names: one optimizer for all parameters, or one of their own for those that are
/// matrices of inner products (see ParameterMatrices.h).
struct Optimizers {
  std::unique_ptr<Optimizer> others;
  std::unique_ptr<Optimizer> ofMatrices; ///< null: as the others
};

/// The optimizers that `call` names:
///
///   sgd(lr=0.01, momentum=0, nesterov=false, weight_decay=0)       momentum: 0.9
///   adam(lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0)
///   adamw(... weight_decay=0.01)
///   adagrad(lr=0.01, eps=1e-10, weight_decay=0)
///   lion(lr=1e-4, beta1=0.9, beta2=0.99, weight_decay=0)
///   muon(lr=1e-3, momentum=0.95, nesterov=true, steps=5, rms=0.2, weight_decay=0.1,
///        adamw_lr=lr, beta1=0.9, beta2=0.95, eps=1e-8)
///
/// Each takes ema=N, too: exponential moving averages of the parameters, of which a step keeps N;
/// and state_bits=16: what is kept of parameters of more bits is bf16.
/// BadInput points at what is wrong.
::autopar::Result<Optimizers> makeOptimizers(::autopar::Call &call);

} // namespace mlir::autopar
