// SPDX-License-Identifier: Apache-2.0
// Metrics beside the loss: what a step tells of its batch, and an evaluation of held-out data.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Training/CallSyntax.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <string>
#include <vector>

namespace mlir::autopar {

struct Metric {
  std::string name; ///< by which a step tells it
  ::autopar::Call call;
};

/// Reads "accuracy(logits, labels), top5=accuracy(logits, labels, top=5)". A metric without a name
/// has that of its function. BadInput: no such text, or a name that is taken.
::autopar::Result<std::vector<Metric>> parseMetrics(StringRef text);

/// Builds a metric in front of the return of `function`, a scalar: the mean over the batch.
///
///   accuracy(logits, labels, top=1, axis=-1, ignore_index=...)
///       part of the rows whose label is among the `top` greatest logits; of equal ones the first
///       are greater, as for an argmax
///   binary_accuracy(logits, targets, threshold=0)
///       part of the elements that are above the threshold where the target is above 1/2, and not
///       where it is not; 0 is a probability of 1/2 in front of the sigmoid
///   mean_absolute_error(prediction, targets)       also: mae
///   every loss of buildLoss(), with its arguments
///   NAME                                           a result of one element
///
/// Arguments are as for buildLoss(). A label that a term of `loss` leaves out is left out here too,
/// unless the call says something else.
::autopar::Result<Value> buildMetric(func::FuncOp function, ::autopar::Call &call,
                                     ArrayRef<::autopar::WeightedCall> loss);

} // namespace mlir::autopar
