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
/// `labels` are class numbers (i64) of the shape of `logits` without the axis. BadInput says what
/// does not fit.
::autopar::Result<Loss> buildLoss(func::FuncOp function, ::autopar::Call &call);

/// Whether a result is the next value of a donated argument, not an output of the model.
bool isStateResult(func::FuncOp function, unsigned result);

/// Adds an argument named `name` at the end of the signature, with more attributes where given.
BlockArgument addArgument(func::FuncOp function, RankedTensorType type, const Twine &name,
                          ArrayRef<NamedAttribute> attributes = {});
/// The same for many arguments at once.
ArrayRef<BlockArgument> addArguments(func::FuncOp function, TypeRange types,
                                     ArrayRef<std::string> names,
                                     ArrayRef<NamedAttribute> attributes = {});

} // namespace mlir::autopar
