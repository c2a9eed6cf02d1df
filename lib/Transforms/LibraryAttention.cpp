// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryAttention.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

std::optional<AttentionMode> mlir::autopar::attentionModeFromName(StringRef name) {
  return llvm::StringSwitch<std::optional<AttentionMode>>(name)
      .Case("auto", AttentionMode::Automatic)
      .Case("fused", AttentionMode::Fused)
      .Case("products", AttentionMode::Products)
      .Default(std::nullopt);
}

FailureOr<AttentionMode> mlir::autopar::readAttentionMode(Operation *op, StringRef name) {
  if (std::optional<AttentionMode> mode = attentionModeFromName(name))
    return *mode;
  return op->emitError() << "attention: expected auto, fused or products, got \"" << name << "\"";
}

bool mlir::autopar::isLibraryAttention(StringRef target, Type element,
                                       const AttentionShape &shape) {
  bool isHalf = element.isBF16() || element.isF16();
  if (target == "cpu")
    return isHalf || element.isF32();
  // cuDNN: half precision, rows of whole 16 bytes, as many elements as its gradients take on GPUs
  // of any generation. Of masks it gets the one that hides no row; beside a bias, which its own
  // frontend gives it with a triangle of squares only, the same.
  auto fits = [](int64_t extent) { return extent % 8 == 0 && extent <= 128; };
  // Its gradients multiply what lies behind the last key, or the only query, by zero where their
  // tiles of 128 and rows end: NaN, as PyTorch (issue 196678) and cuDNN's frontend (issue 1072)
  // found, where the sum of a row is as small as exp(-89).
  if (shape.isGradient && ((shape.hasBias && shape.keys % 128 == 64) || shape.queries == 1))
    return false;
  bool isSeen = shape.hasBias ? shape.queries == shape.keys : shape.queries <= shape.keys;
  return isHalf && fits(shape.size) && fits(shape.valueSize) && (!shape.causal || isSeen) &&
         shape.queries * shape.keys > 1;
}

bool mlir::autopar::clearsHiddenRows(StringRef target) { return target == "cpu"; }

bool mlir::autopar::isLibraryAttention(StringRef target, Operation *op) {
  auto ask = [&](auto attention) {
    auto query = cast<RankedTensorType>(attention.getQuery().getType()),
         key = cast<RankedTensorType>(attention.getKey().getType()),
         value = cast<RankedTensorType>(attention.getValue().getType());
    AttentionShape shape;
    shape.queries = query.getDimSize(2);
    shape.keys = key.getDimSize(2);
    shape.size = query.getDimSize(3);
    shape.valueSize = value.getDimSize(3);
    shape.causal = attention.getCausal();
    shape.hasBias = attention.getBias() != nullptr;
    shape.isGradient = isa<AttentionGradOp>(op);
    return isLibraryAttention(target, query.getElementType(), shape);
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    return ask(attention);
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    return ask(gradient);
  return false;
}
