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

namespace {

class EpilogueMatcher {
public:
  EpilogueMatcher(Operation *contraction, DenseSet<Operation *> &claimed)
      : contraction(contraction), claimed(claimed), current(contraction->getResult(0)) {
    ops.push_back(contraction);
  }

  SmallVector<Operation *> match() {
    while (!hasActivation && !hasScale && step())
      ;
    return ops;
  }

private:
  bool step();
  bool takesAdd(BinaryOp add);
  bool takesUnary(UnaryOp unary);
  bool takesScale(BinaryOp scale);
  bool takesGradient(UnaryGradOp gradient);
  bool isBias(Value value) const;
  bool isResidual(Value value) const;
  Operation *sinkReshapes(Operation *user, ArrayRef<Operation *> reshapes);

  Operation *contraction;
  DenseSet<Operation *> &claimed;
  Value current;
  SmallVector<Operation *> ops;
  bool hasBias = false, hasResidual = false, hasActivation = false, hasScale = false;
};

/// A vector repeated along everything but the columns of a product (the last dimensions, as many as
/// rhs has free ones) or the channels of a convolution.
bool EpilogueMatcher::isBias(Value value) const {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return false;
  RankedTensorType input = broadcast.getInput().getType();
  int64_t first = 1, count = 1;
  if (auto dot = dyn_cast<DotGeneralOp>(contraction)) {
    count = dot.getRhsFree().size();
    first = typeOf(value).getRank() - count;
  }
  if (count < 1 || first < 0 || input.getRank() != count)
    return false;
  for (int64_t i = 0; i < count; ++i)
    if (broadcast.getDims()[i] != first + i ||
        input.getDimSize(i) != typeOf(value).getDimSize(first + i))
      return false;
  return true;
}

/// A value that is in memory anyway.
bool EpilogueMatcher::isResidual(Value value) const {
  Value source = value;
  while (auto reshape = source.getDefiningOp<ReshapeOp>())
    source = reshape.getInput();
  Operation *op = source.getDefiningOp();
  return !op || (!isFluid(op) && op != contraction);
}

bool EpilogueMatcher::takesAdd(BinaryOp add) {
  Value other = add.getLhs() == current ? add.getRhs() : add.getLhs();
  if (add.getLhs() == add.getRhs())
    return false;
  if (!hasBias && !hasResidual && isBias(other))
    return hasBias = true;
  if (!hasResidual && isResidual(other))
    return hasResidual = true;
  return false;
}

bool EpilogueMatcher::takesUnary(UnaryOp unary) {
  hasActivation = unary.getKind() == UnaryKind::Relu || unary.getKind() == UnaryKind::Gelu ||
                  unary.getKind() == UnaryKind::GeluTanh;
  return hasActivation;
}

/// What was left to the product (autopar-expand-gradients); the value at which the derivative is
/// taken is read as a residual is.
bool EpilogueMatcher::takesGradient(UnaryGradOp gradient) {
  auto product = dyn_cast<DotGeneralOp>(contraction);
  hasActivation = product && !hasBias && !hasResidual && gradient.getInput() != current &&
                  isResidual(gradient.getInput()) &&
                  takesActivationGradient(product, gradient.getKind());
  return hasActivation;
}

/// Scores of attention are scaled where they are read again for the softmax; only a scale that
/// nothing else would fuse is left to the library.
bool EpilogueMatcher::takesScale(BinaryOp scale) {
  bool isDivision = scale.getKind() == BinaryKind::Div;
  if ((scale.getKind() != BinaryKind::Mul && !isDivision) || !isa<DotGeneralOp>(contraction) ||
      hasBias || hasResidual || (isDivision && scale.getLhs() != current))
    return false;
  Value factor = traceFluids(scale.getLhs() == current ? scale.getRhs() : scale.getLhs(), {}).first;
  DenseElementsAttr value;
  if (!matchPattern(factor, m_Constant(&value)) || !value.isSplat())
    return false;
  hasScale = llvm::all_of(scale->getUsers(), [](Operation *user) {
    return !isa<ElementLoweringOpInterface>(user) || isa<DotGeneralOp, TransposeOp>(user);
  });
  return hasScale;
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
    if (auto broadcast = operand.getDefiningOp<BroadcastOp>(); broadcast && isBias(operand)) {
      Value again = BroadcastOp::create(builder, loc, type, broadcast.getInput(),
                                        ArrayRef<int64_t>{type.getRank() - 1});
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
  Value outer = current;
  current = here;
  bool taken = false;
  if (auto binary = dyn_cast<BinaryOp>(user))
    taken = binary.getKind() == BinaryKind::Add ? takesAdd(binary)
                                                : reshapes.empty() && takesScale(binary);
  else if (auto unary = dyn_cast<UnaryOp>(user))
    taken = takesUnary(unary);
  else if (auto gradient = dyn_cast<UnaryGradOp>(user))
    taken = takesGradient(gradient);
  current = outer;
  if (!taken)
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
