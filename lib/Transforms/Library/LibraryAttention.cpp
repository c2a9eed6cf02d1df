// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Transforms/LibraryAttention.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

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

/// Rows that cuDNN multiplies forward and backward: of whole 16 bytes, 128 elements on GPUs of any
/// generation; those of latent attention (DeepSeek-AI 2024) on Hopper and Blackwell of data
/// centers.
static bool hasRowsOf(int64_t chip, const AttentionShape &shape) {
  auto fits = [](int64_t extent) { return extent % 8 == 0 && extent <= 128; };
  bool isLatent = shape.size == 192 && shape.valueSize == 128;
  return (fits(shape.size) && fits(shape.valueSize)) || (isLatent && chip >= 90 && chip < 120);
}

bool mlir::autopar::isLibraryAttention(Target target, int64_t chip, Type element,
                                       const AttentionShape &shape) {
  bool isHalf = element.isBF16() || element.isF16();
  if (target == Target::Cpu)
    return isHalf || element.isF32();
  // cuDNN: half precision. Of masks it gets the one that hides no row; beside a bias, which its own
  // frontend gives it with a triangle of squares only, the same.
  // Its gradients multiply what lies behind the last key, or the only query, by zero where their
  // tiles of 128 and rows end: NaN, as PyTorch (issue 196678) and cuDNN's frontend (issue 1072)
  // found, where the sum of a row is as small as exp(-89).
  if (shape.isGradient && ((shape.hasBias && shape.keys % 128 == 64) || shape.queries == 1))
    return false;
  // Beside a window it had no bias before 9.10.2.
  if (shape.hasWindow && shape.hasBias)
    return false;
  bool isSeen = shape.hasBias ? shape.queries == shape.keys : shape.queries <= shape.keys;
  return isHalf && hasRowsOf(chip, shape) && (!shape.causal || isSeen) &&
         shape.queries * (shape.keys - shape.mostHidden) > 1;
}

bool mlir::autopar::clearsHiddenRows(Target target) { return target == Target::Cpu; }

/// Reads the shape of attention or its gradient; nothing of any other operation.
static std::optional<AttentionShape> shapeOf(Operation *op) {
  auto read = [&](auto attention) {
    auto query = cast<RankedTensorType>(attention.getQuery().getType()),
         key = cast<RankedTensorType>(attention.getKey().getType()),
         value = cast<RankedTensorType>(attention.getValue().getType());
    AttentionShape shape;
    shape.queries = query.getDimSize(2);
    shape.keys = key.getDimSize(2);
    if (attention.getParts())
      shape.mostHidden = (static_cast<int64_t>(*attention.getParts()) - 1) * shape.queries;
    shape.size = query.getDimSize(3);
    shape.valueSize = value.getDimSize(3);
    shape.causal = attention.getCausal();
    shape.hasWindow = attention.getWindow().has_value();
    shape.hasBias = attention.getBias() != nullptr;
    shape.isGradient = isa<AttentionGradOp>(op);
    return shape;
  };
  if (auto attention = dyn_cast<AttentionOp>(op))
    return read(attention);
  if (auto gradient = dyn_cast<AttentionGradOp>(op))
    return read(gradient);
  return std::nullopt;
}

bool mlir::autopar::isLibraryAttention(Target target, int64_t chip, Operation *op) {
  std::optional<AttentionShape> shape = shapeOf(op);
  return shape && isLibraryAttention(target, chip, getElementTypeOrSelf(op->getOperand(0)), *shape);
}

bool mlir::autopar::expandsAttention(Target target, Type element, const AttentionShape &shape) {
  bool isLibraryType = element.isF32() || element.isBF16() || element.isF16();
  return target == Target::Cuda && isLibraryType && shape.causal && shape.queries <= shape.keys;
}

int64_t mlir::autopar::attentionRowsAtOnce(Target target, Operation *op) {
  std::optional<AttentionShape> shape = shapeOf(op);
  if (!shape || shape->queries == 0)
    return 0;
  // Of the product with values, a GPU's multiprocessors take so many rows of a head each. Fewer
  // such tiles leave some idle, however many keys there are.
  constexpr int64_t tile = 128, leastTiles = 128;
  // More blocks leave out little more than they cost in launches; fewer leave out little.
  constexpr int64_t mostBlocks = 8, leastBlocks = 4;
  auto query = cast<RankedTensorType>(op->getOperand(0).getType());
  // A quarter of the scores at least.
  bool hidesMuch = shape->hasWindow || 2 * shape->queries >= shape->keys;
  if (!expandsAttention(target, query.getElementType(), *shape) || !hidesMuch)
    return shape->queries;
  int64_t heads = query.getDimSize(0) * query.getDimSize(1);
  int64_t rows = llvm::alignTo(llvm::divideCeil(shape->queries, mostBlocks), tile);
  while (rows < shape->queries && heads * (rows / tile) < leastTiles)
    rows *= 2;
  auto covered = static_cast<int64_t>(llvm::alignTo(shape->queries, rows));
  return rows * leastBlocks <= covered ? rows : shape->queries;
}
