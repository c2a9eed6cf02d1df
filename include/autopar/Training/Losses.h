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
/// and targets. A target is an input or a result of the function if one has that name, else a new
/// input. Means are over the whole batch.
///
///   softmax_cross_entropy(logits, labels, axis=-1, label_smoothing=0, z_loss=0, ignore_index=...)
///   soft_cross_entropy(logits, probabilities, axis=-1)
///   distillation(logits, teacher_logits, axis=-1, temperature=1)
///   negative_log_likelihood(log_probabilities, labels, axis=-1, ignore_index=...)
///   dpo(logits, labels, reference, axis=-1, beta=0.1, label_smoothing=0, ignore_index=...)
///   ppo(logits, actions, advantages, old, axis=-1, clip=0.2, clip_high=clip, ignore_index=...)
///   binary_cross_entropy(logits, targets, pos_weight=1)      logits in front of the sigmoid
///   binary_focal(logits, targets, alpha=0.25, gamma=2)
///   mean_squared_error(prediction, targets)                  also: mse
///   mean_absolute_error(prediction, targets)                 also: mae
///   huber(prediction, targets, delta=1)
///   smooth_l1(prediction, targets, beta=1)
///   NAME                            a result of one element that is the loss itself
///
/// A third argument of the other functions names weights (f32; f64 for f64), a number for each that
/// the mean is over (rows of logits; labels that are ignored do not count): what is averaged is
/// multiplied. Targets of soft_cross_entropy and distillation, where results, have no derivative by
/// the loss. `labels` are class numbers (i64) of the shape of `logits` without the axis; `ignored`
/// is the ignore_index of a call that gives none, NaN for none. BadInput says what does not fit.
::autopar::Result<Loss> buildLoss(func::FuncOp function, ::autopar::Call &call,
                                  double ignored = std::numeric_limits<double>::quiet_NaN());

/// Builds the sum of several losses, each times its factor.
::autopar::Result<Loss> buildLoss(func::FuncOp function,
                                  MutableArrayRef<::autopar::WeightedCall> terms);

/// The functions that buildLoss() knows.
SmallVector<StringRef> knownLosses();

} // namespace mlir::autopar
