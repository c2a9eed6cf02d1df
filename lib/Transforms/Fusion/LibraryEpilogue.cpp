// SPDX-License-Identifier: Apache-2.0
// The grammar of library epilogues: result = activation(product + bias + residual),
// result = scale * product, and result = product * derivative of an activation.
#include "autopar/Transforms/LibraryEpilogue.h"

#include "FusionClusters.h"

#include "autopar/Transforms/TrainingEpilogues.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

bool autopar::isEpilogueActivation(UnaryKind kind) {
  return llvm::is_contained({UnaryKind::Relu, UnaryKind::Gelu, UnaryKind::GeluTanh}, kind);
}

bool autopar::isEpilogueActivation(UnaryKind kind, Target target) {
  return isEpilogueActivation(kind) && (kind != UnaryKind::Gelu || target != Target::Cuda);
}

Value autopar::biasOf(Value value, Operation *contraction) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType type = broadcast.getType(), input = broadcast.getInput().getType();
  int64_t first = 1, count = 1;
  if (auto dot = dyn_cast<DotGeneralOp>(contraction)) {
    count = dot.getRhsFree().size();
    first = type.getRank() - count;
  }
  if (count < 1 || first < 0 || input.getRank() != count)
    return {};
  for (int64_t i = 0; i < count; ++i)
    if (broadcast.getDims()[i] != first + i || input.getDimSize(i) != type.getDimSize(first + i))
      return {};
  return broadcast.getInput();
}

/// The other operand of an operation that reads `value`.
static Value besides(Value value, BinaryOp op) {
  return op.getLhs() == value ? op.getRhs() : op.getLhs();
}

std::optional<EpilogueStep> EpilogueGrammar::next(Operation *op, Value value) {
  // Nothing is applied to integers.
  if (isEnded || isa<IntegerType>(cast<RankedTensorType>(value.getType()).getElementType()))
    return std::nullopt;
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() == BinaryKind::Add ? nextAdd(binary, value) : nextScale(binary, value);
  if (auto unary = dyn_cast<UnaryOp>(op))
    return nextActivation(unary);
  if (auto kept = dyn_cast<KeepMarkedOp>(op))
    return nextGradient(kept, kept.getMask());
  auto gradient = dyn_cast<UnaryGradOp>(op);
  bool fits = gradient && gradient.getGradient() == value && gradient.getInput() != value;
  auto product = dyn_cast<DotGeneralOp>(contraction);
  return fits && product && takesActivationInTraining(product, gradient.getKind())
             ? nextGradient(gradient, gradient.getInput())
             : std::nullopt;
}

/// Whether a window of a convolution may read nothing but pads. oneDNN then leaves the bias out
/// where it adds to a residual (2.6, rows of pads as high as the window).
static bool mayReadPadsAlone(Operation *contraction) {
  auto convolution = dyn_cast<ConvolutionOp>(contraction);
  if (!convolution)
    return false;
  ArrayRef<int64_t> kernel = convolution.getFilter().getType().getShape().drop_front(2),
                    input = convolution.getInput().getType().getShape().drop_front(2),
                    output = convolution.getType().getShape().drop_front(2);
  for (size_t dim = 0; dim < kernel.size(); ++dim)
    for (int64_t place = 0; place < output[dim]; ++place) {
      int64_t start = place * convolution.getStrides()[dim] - convolution.getPadBegin()[dim];
      bool isInside = false;
      for (int64_t tap = 0; tap < kernel[dim] && !isInside; ++tap) {
        int64_t position = start + tap * convolution.getFilterDilation()[dim];
        isInside = position >= 0 && position < input[dim];
      }
      if (!isInside)
        return true;
    }
  return false;
}

std::optional<EpilogueStep> EpilogueGrammar::nextAdd(BinaryOp add, Value value) {
  if (add.getLhs() == add.getRhs())
    return std::nullopt;
  Value other = besides(value, add);
  if (Value vector = hasBias ? Value() : biasOf(other, contraction)) {
    hasBias = true;
    return EpilogueStep{EpilogueStep::Bias, add, vector};
  }
  Value residual = hasResidual ? Value() : residualOf(other);
  if (!residual || mayReadPadsAlone(contraction))
    return std::nullopt;
  hasResidual = true;
  return EpilogueStep{EpilogueStep::Residual, add, residual};
}

std::optional<EpilogueStep> EpilogueGrammar::nextActivation(UnaryOp unary) {
  isEnded = isEpilogueActivation(unary.getKind());
  return isEnded ? std::optional<EpilogueStep>({EpilogueStep::Activation, unary}) : std::nullopt;
}

/// What was left to the product (autopar-expand-gradients); the value at which the derivative is
/// taken, or a mask, is read as a residual is.
std::optional<EpilogueStep> EpilogueGrammar::nextGradient(Operation *gradient, Value value) {
  Value at = isBegun() ? Value() : residualOf(value);
  isEnded = static_cast<bool>(at);
  return at ? std::optional<EpilogueStep>({EpilogueStep::Gradient, gradient, at}) : std::nullopt;
}

std::optional<EpilogueStep> EpilogueGrammar::nextScale(BinaryOp scale, Value value) {
  bool isDivision = scale.getKind() == BinaryKind::Div;
  if ((scale.getKind() != BinaryKind::Mul && !isDivision) || !isa<DotGeneralOp>(contraction) ||
      isBegun() || (isDivision && scale.getLhs() != value))
    return std::nullopt;
  DenseFPElementsAttr number;
  if (!matchPattern(traceFluids(besides(value, scale), {}).first, m_Constant(&number)) ||
      !number.isSplat())
    return std::nullopt;
  double factor = number.getSplatValue<APFloat>().convertToDouble();
  isEnded = factor != 0.0;
  return isEnded ? std::optional<EpilogueStep>(
                       {EpilogueStep::Scale, scale, {}, isDivision ? 1.0 / factor : factor})
                 : std::nullopt;
}
