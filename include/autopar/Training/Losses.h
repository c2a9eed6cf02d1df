// SPDX-License-Identifier: Apache-2.0
// Loss functions, built behind a forward graph.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Training/CallSyntax.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

struct Loss {
  Value value; ///< a scalar
  /// Derivatives of the loss that its formula knows better than the walk over its operations; see
  /// differentiate().
  SmallVector<std::pair<Value, Value>> seeds;
};

/// Builds `call` in front of the return of `function`; its arguments name results of the function
/// and targets. A target is an input of the function if one has that name, else a new input. Means
/// are over the whole batch.
///
///   softmax_cross_entropy(logits, labels, axis=-1, label_smoothing=0, ignore_index=...)
///   negative_log_likelihood(log_probabilities, labels, axis=-1, ignore_index=...)
///   binary_cross_entropy(logits, targets)       logits in front of the sigmoid
///   mean_squared_error(prediction, targets)     also: mse
///   NAME                                        a result of one element that is the loss itself
///
/// `labels` are class numbers (i64) of the shape of `logits` without the axis; `ignored` is the
/// ignore_index of a call that gives none, NaN for none. BadInput says what does not fit.
::autopar::Result<Loss> buildLoss(func::FuncOp function, ::autopar::Call &call,
                                  double ignored = std::numeric_limits<double>::quiet_NaN());

/// Builds the sum of several losses, each times its factor.
::autopar::Result<Loss> buildLoss(func::FuncOp function,
                                  MutableArrayRef<::autopar::WeightedCall> terms);

/// The functions that buildLoss() knows.
SmallVector<StringRef> knownLosses();

} // namespace mlir::autopar
