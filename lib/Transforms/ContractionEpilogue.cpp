// SPDX-License-Identifier: Apache-2.0
// Matching of library epilogues: result = activation(product + bias + residual),
// result = scale * product, and result = product * derivative of an activation.
#include "ContractionEpilogue.h"
#include "FusionClusters.h"

#include "autopar/Transforms/LibraryActivationGradient.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

static bool isLibraryConvolution(ConvolutionOp op) {
  size_t spatial = op.getStrides().size();
  auto isNegative = [](int64_t pad) { return pad < 0; };
  return spatial >= 1 && spatial <= 3 &&
         llvm::all_of(op.getInputDilation(), [](int64_t dilation) { return dilation == 1; }) &&
         llvm::none_of(op.getPadBegin(), isNegative) && llvm::none_of(op.getPadEnd(), isNegative);
}

bool autopar::isLibraryContraction(Operation *op) {
  auto isLibraryType = [](Value value) {
    Type element = typeOf(value).getElementType();
    return (element.isF32() || element.isBF16() || element.isF16()) &&
           typeOf(value).getNumElements() != 0;
  };
  if (!isa<DotGeneralOp, ConvolutionOp>(op) || !llvm::all_of(op->getOperands(), isLibraryType) ||
      !llvm::all_of(op->getResults(), isLibraryType) ||
      typeOf(op->getOperand(0)).getElementType() != typeOf(op->getOperand(1)).getElementType())
    return false;
  auto convolution = dyn_cast<ConvolutionOp>(op);
  return !convolution || isLibraryConvolution(convolution);
}

//===-- what a library applies ----------------------------------------------------------------===//

bool autopar::isEpilogueActivation(UnaryKind kind) {
  return llvm::is_contained({UnaryKind::Relu, UnaryKind::Gelu, UnaryKind::GeluTanh}, kind);
}

std::optional<EpilogueStep> EpilogueGrammar::next(Operation *op, Value value) {
  if (isEnded)
    return std::nullopt;
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() == BinaryKind::Add ? nextAdd(binary, value) : nextScale(binary, value);
  if (auto unary = dyn_cast<UnaryOp>(op))
    return nextActivation(unary);
  auto gradient = dyn_cast<UnaryGradOp>(op);
  return gradient ? nextGradient(gradient, value) : std::nullopt;
}

/// A vector repeated along everything but the columns of a product (the last dimensions, as many as
/// rhs has free ones) or the channels of a convolution.
Value EpilogueGrammar::biasOf(Value value) const {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType input = broadcast.getInput().getType();
  int64_t first = 1, count = 1;
  if (auto dot = dyn_cast<DotGeneralOp>(contraction)) {
    count = dot.getRhsFree().size();
    first = typeOf(value).getRank() - count;
  }
  if (count < 1 || first < 0 || input.getRank() != count)
    return {};
  for (int64_t i = 0; i < count; ++i)
    if (broadcast.getDims()[i] != first + i ||
        input.getDimSize(i) != typeOf(value).getDimSize(first + i))
      return {};
  return broadcast.getInput();
}

std::optional<EpilogueStep> EpilogueGrammar::nextAdd(BinaryOp add, Value value) {
  if (add.getLhs() == add.getRhs() || hasResidual)
    return std::nullopt;
  Value other = add.getLhs() == value ? add.getRhs() : add.getLhs();
  if (Value vector = hasBias ? Value() : biasOf(other)) {
    hasBias = true;
    return EpilogueStep{EpilogueStep::Bias, add, vector};
  }
  Value residual = residualOf(other);
  hasResidual = static_cast<bool>(residual);
  return residual ? std::optional<EpilogueStep>({EpilogueStep::Residual, add, residual})
                  : std::nullopt;
}

std::optional<EpilogueStep> EpilogueGrammar::nextActivation(UnaryOp unary) {
  isEnded = isEpilogueActivation(unary.getKind());
  return isEnded ? std::optional<EpilogueStep>({EpilogueStep::Activation, unary, {}})
                 : std::nullopt;
}

/// What was left to the product (autopar-expand-gradients); the value at which the derivative is
/// taken is read as a residual is.
std::optional<EpilogueStep> EpilogueGrammar::nextGradient(UnaryGradOp gradient, Value value) {
  auto product = dyn_cast<DotGeneralOp>(contraction);
  if (!product || isBegun() || gradient.getGradient() != value || gradient.getInput() == value ||
      !takesActivationGradient(product, gradient.getKind()))
    return std::nullopt;
  Value at = residualOf(gradient.getInput());
  isEnded = static_cast<bool>(at);
  return at ? std::optional<EpilogueStep>({EpilogueStep::Gradient, gradient, at}) : std::nullopt;
}

/// Scores of attention are scaled where they are read again for the softmax; only a scale that
/// nothing else would fuse is left to the library.
std::optional<EpilogueStep> EpilogueGrammar::nextScale(BinaryOp scale, Value value) {
  bool isDivision = scale.getKind() == BinaryKind::Div;
  if ((scale.getKind() != BinaryKind::Mul && !isDivision) || !isa<DotGeneralOp>(contraction) ||
      isBegun() || (isDivision && scale.getLhs() != value))
    return std::nullopt;
  Value factor = traceFluids(scale.getLhs() == value ? scale.getRhs() : scale.getLhs(), {}).first;
  DenseElementsAttr number;
  if (!matchPattern(factor, m_Constant(&number)) || !number.isSplat())
    return std::nullopt;
  isEnded = llvm::all_of(scale->getUsers(), [](Operation *user) {
    return !isa<ElementLoweringOpInterface>(user) || isa<DotGeneralOp, TransposeOp>(user);
  });
  return isEnded ? std::optional<EpilogueStep>({EpilogueStep::Scale, scale, {}}) : std::nullopt;
}

//===-- groups --------------------------------------------------------------------------------===//

namespace {

class EpilogueMatcher : EpilogueGrammar {
public:
  EpilogueMatcher(Operation *contraction, DenseSet<Operation *> &claimed)
      : EpilogueGrammar(contraction), claimed(claimed), current(contraction->getResult(0)) {
    ops.push_back(contraction);
  }

  SmallVector<Operation *> match() {
    while (!hasEnded() && step())
      ;
    return ops;
  }

private:
  bool step();
  Value residualOf(Value value) const override;
  Operation *sinkReshapes(Operation *user, ArrayRef<Operation *> reshapes);

  DenseSet<Operation *> &claimed;
  Value current;
  SmallVector<Operation *> ops;
};

/// A value that is in memory anyway.
Value EpilogueMatcher::residualOf(Value value) const {
  Value source = value;
  while (auto reshape = source.getDefiningOp<ReshapeOp>())
    source = reshape.getInput();
  Operation *op = source.getDefiningOp();
  return !op || (!isFluid(op) && op != contraction) ? value : Value();
}

/// Rewrites f(reshape(x), y) to reshape(f(x, reshape(y))), so that the group has one shape. Returns
/// the new operation; the old one is erased.
Operation *EpilogueMatcher::sinkReshapes(Operation *user, ArrayRef<Operation *> reshapes) {
  OpBuilder builder(user);
  Location loc = user->getLoc();
  RankedTensorType type = typeOf(current);
  IRMapping mapping;
  mapping.map(reshapes.back()->getResult(0), current);
  for (Value operand : user->getOperands()) {
    if (mapping.contains(operand))
      continue;
    if (Value vector = biasOf(operand)) {
      Value again =
          BroadcastOp::create(builder, loc, type, vector, ArrayRef<int64_t>{type.getRank() - 1});
      mapping.map(operand, again);
    } else {
      mapping.map(operand, ReshapeOp::create(builder, loc, type, operand).getResult());
    }
  }
  Operation *copy = builder.clone(*user, mapping);
  copy->getResult(0).setType(type);
  Value back = ReshapeOp::create(builder, loc, user->getResult(0).getType(), copy->getResult(0));
  user->getResult(0).replaceAllUsesWith(back);
  user->erase();
  for (Operation *reshape : llvm::reverse(reshapes))
    reshape->erase();
  return copy;
}

bool EpilogueMatcher::step() {
  SmallVector<Operation *> reshapes;
  Value here = current;
  while (here.hasOneUse() && isa<ReshapeOp>(*here.user_begin())) {
    reshapes.push_back(*here.user_begin());
    here = reshapes.back()->getResult(0);
  }
  // A bias along the last dimension survives a reshape that keeps it; channels do not.
  auto dot = dyn_cast<DotGeneralOp>(contraction);
  bool keepsLast = !reshapes.empty() && dot && dot.getRhsFree().size() == 1 &&
                   typeOf(here).getRank() > 0 && typeOf(current).getRank() > 0 &&
                   typeOf(here).getShape().back() == typeOf(current).getShape().back();
  if (!here.hasOneUse() || (!reshapes.empty() && !keepsLast))
    return false;
  Operation *user = *here.user_begin();
  if (claimed.contains(user))
    return false;
  std::optional<EpilogueStep> taken = next(user, here);
  if (!taken || (taken->kind == EpilogueStep::Scale && !reshapes.empty()))
    return false;
  if (!reshapes.empty())
    user = sinkReshapes(user, reshapes);
  ops.push_back(user);
  claimed.insert(user);
  current = user->getResult(0);
  return true;
}

} // namespace

SmallVector<Operation *> autopar::matchContractionEpilogue(Operation *contraction,
                                                           DenseSet<Operation *> &claimed) {
  return EpilogueMatcher(contraction, claimed).match();
}
