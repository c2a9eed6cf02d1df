// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryAttention.h"

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

bool mlir::autopar::isLibraryAttention(const AttentionTarget &target, Type element, int64_t size,
                                       int64_t valueSize) {
  bool isHalf = element.isBF16() || element.isF16();
  if (target.name == "cpu")
    return isHalf || element.isF32();
  // cuDNN: half precision, rows of whole 16 bytes, at most 256 elements. The runtime does not call
  // it.
  auto fits = [](int64_t extent) { return extent % 8 == 0 && extent <= 256; };
  return target.planOnly && isHalf && fits(size) && fits(valueSize);
}
