// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryContraction.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

static bool isLibraryConvolution(ConvolutionOp op) {
  size_t spatial = op.getStrides().size();
  auto isNegative = [](int64_t pad) { return pad < 0; };
  return spatial >= 1 && spatial <= 3 &&
         llvm::all_of(op.getInputDilation(), [](int64_t dilation) { return dilation == 1; }) &&
         llvm::none_of(op.getPadBegin(), isNegative) && llvm::none_of(op.getPadEnd(), isNegative);
}

bool autopar::isContractionOfBytes(Operation *op) {
  if (!isa<DotGeneralOp, ConvolutionOp>(op))
    return false;
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  return elementOf(op->getOperand(0)).isInteger(8) &&
         elementOf(op->getOperand(1)).isSignlessInteger(8) &&
         elementOf(op->getResult(0)).isSignlessInteger(32);
}

bool autopar::isLibraryContraction(Operation *op) {
  auto typeOf = [](Value value) { return cast<RankedTensorType>(value.getType()); };
  auto product = dyn_cast<DotGeneralOp>(op);
  if (product && product.getScaledTo())
    return false; // several operations
  if (isContractionOfBytes(op))
    return llvm::all_of(op->getOperands(),
                        [&](Value value) { return typeOf(value).getNumElements() != 0; }) &&
           (product || isLibraryConvolution(cast<ConvolutionOp>(op)));
  auto isLibraryType = [&](Value value) {
    Type element = typeOf(value).getElementType();
    bool isByte = product && isa<Float8E4M3FNType>(element) && value != product.getResult();
    return (element.isF32() || element.isBF16() || element.isF16() || isByte) &&
           typeOf(value).getNumElements() != 0;
  };
  if (!isa<DotGeneralOp, ConvolutionOp>(op) || !llvm::all_of(op->getOperands(), isLibraryType) ||
      !llvm::all_of(op->getResults(), isLibraryType) ||
      typeOf(op->getOperand(0)).getElementType() != typeOf(op->getOperand(1)).getElementType())
    return false;
  auto convolution = dyn_cast<ConvolutionOp>(op);
  return !convolution || isLibraryConvolution(convolution);
}

bool autopar::hasLibraryContraction(Operation *groupOrOp) {
  return groupOrOp
      ->walk([](Operation *inner) {
        return isLibraryContraction(inner) ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}
