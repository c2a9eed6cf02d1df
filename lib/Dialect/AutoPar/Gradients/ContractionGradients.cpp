// SPDX-License-Identifier: Apache-2.0
// Gradients of matrix products and convolutions.
#include "GradientModels.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

//===-- dot_general --------------------------------------------------------------------------===//

SmallVector<int64_t> range(int64_t begin, int64_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(begin, begin + count));
}

/// Position in ascending order of every entry.
SmallVector<int64_t> ranks(ArrayRef<int64_t> dims) {
  SmallVector<int64_t> sorted(dims), result;
  llvm::sort(sorted);
  for (int64_t dim : dims)
    result.push_back(llvm::find(sorted, dim) - sorted.begin());
  return result;
}

/// A product of the cotangent and the other operand: which dimension of the sought operand each
/// dimension of its result is.
struct Product {
  Value first, second;
  SmallVector<int64_t> firstBatch, secondBatch, firstContract, secondContract, order;
};

/// The gradient of an operand is the cotangent times the other operand. Of the two orders of the
/// factors the one is taken whose result needs no transposition, if there is one.
struct DotGeneralGradient : GradientOpInterface::ExternalModel<DotGeneralGradient, DotGeneralOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto dot = cast<DotGeneralOp>(op);
    FormulaBuilder b(builder, op);
    bool ofLhs = operand == 0;
    Value g = cotangents[0], other = ofLhs ? dot.getRhs() : dot.getLhs();
    SmallVector<int64_t> ownBatch(ofLhs ? dot.getLhsBatch() : dot.getRhsBatch()),
        otherBatch(ofLhs ? dot.getRhsBatch() : dot.getLhsBatch()),
        ownContract(ofLhs ? dot.getLhsContract() : dot.getRhsContract()),
        otherContract(ofLhs ? dot.getRhsContract() : dot.getLhsContract()),
        ownFree = ofLhs ? dot.getLhsFree() : dot.getRhsFree(),
        otherFree = ofLhs ? dot.getRhsFree() : dot.getLhsFree();
    int64_t batch = ownBatch.size(), lhsFree = dot.getLhsFree().size();
    SmallVector<int64_t> resultBatch = range(0, batch),
                         summed = range(ofLhs ? batch + lhsFree : batch, otherFree.size());
    // Contracted dimensions come in the order in which the other operand has them.
    SmallVector<int64_t> contracted(ownContract.size());
    for (auto [rank, dim] : llvm::zip_equal(ranks(otherContract), ownContract))
      contracted[rank] = dim;
    Product before{g, other, resultBatch, otherBatch, summed, otherFree, ownBatch};
    before.order.append(ownFree);
    before.order.append(contracted);
    Product behind{other, g, otherBatch, resultBatch, otherFree, summed, ownBatch};
    behind.order.append(contracted);
    behind.order.append(ownFree);
    bool isInOrder = llvm::equal(behind.order, range(0, behind.order.size()));
    Product &chosen = isInOrder ? behind : before;
    auto product =
        DotGeneralOp::create(builder, op->getLoc(), chosen.first, chosen.second, chosen.firstBatch,
                             chosen.secondBatch, chosen.firstContract, chosen.secondContract);
    // A weight's gradient is summed over many samples, some of which would be rounded away.
    if (dot.getScaledTo() && parameterIn(other))
      product.setScaledToAttr(dot.getScaledToAttr());
    return b.transpose(product, inverted(chosen.order));
  }
};

//===-- convolution --------------------------------------------------------------------------===//

/// A convolution, or a gradient of one, with the attributes of another.
template <typename Op, typename Of>
Value createLike(OpBuilder &builder, Of of, Value sought, Value first, Value second) {
  return Op::create(builder, of.getLoc(), sought.getType(), first, second, of.getStridesAttr(),
                    of.getPadBeginAttr(), of.getPadEndAttr(), of.getInputDilationAttr(),
                    of.getFilterDilationAttr(), of.getGroupsAttr());
}

struct ConvolutionGradient
    : GradientOpInterface::ExternalModel<ConvolutionGradient, ConvolutionOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto convolution = cast<ConvolutionOp>(op);
    Value input = convolution.getInput(), filter = convolution.getFilter(), g = cotangents[0];
    if (operand == 0)
      return createLike<ConvolutionInputGradOp>(builder, convolution, input, g, filter);
    return createLike<ConvolutionFilterGradOp>(builder, convolution, filter, input, g);
  }
};

/// What a transposed convolution spreads is gathered again by the convolution.
struct ConvolutionInputGradGradient
    : GradientOpInterface::ExternalModel<ConvolutionInputGradGradient, ConvolutionInputGradOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto transposed = cast<ConvolutionInputGradOp>(op);
    Value image = transposed.getGradient(), filter = transposed.getFilter(), g = cotangents[0];
    if (operand == 0)
      return createLike<ConvolutionOp>(builder, transposed, image, g, filter);
    return createLike<ConvolutionFilterGradOp>(builder, transposed, filter, g, image);
  }
};

} // namespace

void mlir::autopar::attachContractionGradients(MLIRContext &context) {
  DotGeneralOp::attachInterface<DotGeneralGradient>(context);
  ConvolutionOp::attachInterface<ConvolutionGradient>(context);
  ConvolutionInputGradOp::attachInterface<ConvolutionInputGradGradient>(context);
}
