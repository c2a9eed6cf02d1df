// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryConvolution.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/LibraryContraction.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

std::optional<ConvolutionMode> mlir::autopar::convolutionModeFromName(StringRef name) {
  return llvm::StringSwitch<std::optional<ConvolutionMode>>(name)
      .Case("auto", ConvolutionMode::Automatic)
      .Case("kernels", ConvolutionMode::Kernels)
      .Default(std::nullopt);
}

int64_t mlir::autopar::channelBlock() { return __builtin_cpu_supports("avx512f") ? 16 : 8; }

static bool isFloat(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  return element.isF32() || element.isBF16() || element.isF16();
}

static bool fitsLibrary(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t elements = type.getNumElements();
  return type.getRank() <= 5 && elements > 0 && elements <= INT32_MAX;
}

bool mlir::autopar::isLibraryConvolution(Operation *op, Target target) {
  auto elementOf = [](Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  };
  auto ask = [&](auto convolution) {
    auto isNegative = [](int64_t pad) { return pad < 0; };
    Type element = elementOf(op->getOperand(0));
    bool isOfFloats = llvm::all_of(op->getOperands(), isFloat) && isFloat(op->getResult(0)) &&
                      elementOf(op->getOperand(1)) == element &&
                      (target == Target::Cpu || elementOf(op->getResult(0)) == element);
    return (isOfFloats || (target == Target::Cpu && isContractionOfBytes(op))) &&
           llvm::all_of(op->getOperands(), fitsLibrary) && fitsLibrary(op->getResult(0)) &&
           llvm::all_of(convolution.getInputDilation(), [](int64_t step) { return step == 1; }) &&
           llvm::none_of(convolution.getPadBegin(), isNegative) &&
           llvm::none_of(convolution.getPadEnd(), isNegative);
  };
  if (auto convolution = dyn_cast<ConvolutionOp>(op))
    return ask(convolution);
  if (auto gradient = dyn_cast<ConvolutionInputGradOp>(op))
    return ask(gradient);
  if (auto gradient = dyn_cast<ConvolutionFilterGradOp>(op))
    return ask(gradient);
  return false;
}
