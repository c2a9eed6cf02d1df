// SPDX-License-Identifier: Apache-2.0
// The families of lowering models; each file attaches its own.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"

namespace mlir::autopar {

void attachElementwiseModels(MLIRContext &context);
void attachDataMovementModels(MLIRContext &context);
void attachGatherModels(MLIRContext &context);
void attachGenerationModels(MLIRContext &context);
void attachReductionModels(MLIRContext &context);
void attachWindowModels(MLIRContext &context);
void attachContractionModels(MLIRContext &context);
void attachBlockDotModels(MLIRContext &context);
void attachScatterModels(MLIRContext &context);
void attachCumulativeModels(MLIRContext &context);
void attachSortModels(MLIRContext &context);
void attachGroupedProductModels(MLIRContext &context);

/// Element type of a ranked tensor value.
inline Type elementTypeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getElementType();
}
inline ArrayRef<int64_t> shapeOf(Value tensor) {
  return cast<RankedTensorType>(tensor.getType()).getShape();
}

} // namespace mlir::autopar
