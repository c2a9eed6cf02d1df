// SPDX-License-Identifier: Apache-2.0
// The list of families.
#include "autopar/Dialect/AutoPar/Gradients/Gradients.h"

#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

FailureOr<Value> mlir::autopar::noGradient(Operation *op, const Twine &why) {
  return op->emitOpError() << "has no gradient: " << why;
}

void mlir::autopar::registerGradientModels(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, AutoParDialect *) {
    attachElementwiseGradients(*context);
    attachContractionGradients(*context);
    attachGroupedProductGradients(*context);
    attachReductionGradients(*context);
    attachWindowGradients(*context);
    attachRowGradients(*context);
    attachAttentionGradients(*context);
    attachDataMovementGradients(*context);
    attachGatherGradients(*context);
    attachProfiledGradients(*context);
  });
}
