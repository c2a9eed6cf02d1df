// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryActivationGradient.h"

#include "autopar/Transforms/LibraryContraction.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

/// Rows of the value at which the library takes the derivative have a multiple of so many elements.
static constexpr int64_t kStep = 8;

std::optional<ActivationGradientMode>
mlir::autopar::activationGradientModeFromName(StringRef name) {
  return llvm::StringSwitch<std::optional<ActivationGradientMode>>(name)
      .Case("auto", ActivationGradientMode::Automatic)
      .Case("kernels", ActivationGradientMode::Kernels)
      .Default(std::nullopt);
}

FailureOr<ActivationGradientMode> mlir::autopar::activationGradientModeOf(Operation *op,
                                                                          StringRef name) {
  if (std::optional<ActivationGradientMode> mode = activationGradientModeFromName(name))
    return *mode;
  return op->emitError() << "unknown mode \"" << name << "\"; expected auto or kernels";
}

static int64_t extentOf(RankedTensorType type, ArrayRef<int64_t> dims) {
  int64_t extent = 1;
  for (int64_t dim : dims)
    extent *= type.getDimSize(dim);
  return extent;
}

bool mlir::autopar::takesActivationGradient(DotGeneralOp product, UnaryKind activation) {
  RankedTensorType lhs = product.getLhs().getType(), rhs = product.getRhs().getType();
  Type element = product.getType().getElementType();
  return activation == UnaryKind::GeluTanh && (element.isBF16() || element.isF16()) &&
         isLibraryContraction(product) && extentOf(lhs, product.getLhsBatch()) == 1 &&
         extentOf(lhs, product.getLhsFree()) % kStep == 0 &&
         extentOf(rhs, product.getRhsFree()) % kStep == 0;
}

DotGeneralOp mlir::autopar::productTaking(UnaryGradOp gradient) {
  Value multiplied = gradient.getGradient();
  if (multiplied == gradient.getInput())
    return {};
  while (auto reshape = multiplied.getDefiningOp<ReshapeOp>()) {
    if (!multiplied.hasOneUse())
      return {};
    multiplied = reshape.getInput();
  }
  auto product = multiplied.getDefiningOp<DotGeneralOp>();
  bool fits =
      product && multiplied.hasOneUse() && takesActivationGradient(product, gradient.getKind());
  return fits ? product : DotGeneralOp();
}
