// SPDX-License-Identifier: Apache-2.0
// What the families of gradients share.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Interfaces/ExpansionInterface.h"
#include "autopar/Interfaces/GradientInterface.h"

namespace mlir::autopar {

/// Fails with "has no gradient ...: what is missing".
FailureOr<Value> noGradient(Operation *op, const Twine &why);

/// `value` without the addends whose sum over `dims` is zero whatever their elements are:
/// deviations from their mean over these dimensions, times what is equal along them. Null if
/// nothing is left.
Value withoutVanishing(Value value, ArrayRef<int64_t> dims, FormulaBuilder &b);

/// The families of gradients; each file attaches its own.
void attachElementwiseGradients(MLIRContext &context);
void attachContractionGradients(MLIRContext &context);
void attachGroupedProductGradients(MLIRContext &context);
void attachReductionGradients(MLIRContext &context);
void attachWindowGradients(MLIRContext &context);
void attachRowGradients(MLIRContext &context);
void attachAttentionGradients(MLIRContext &context);
void attachDataMovementGradients(MLIRContext &context);
void attachGatherGradients(MLIRContext &context);
void attachProfiledGradients(MLIRContext &context);

} // namespace mlir::autopar
