// SPDX-License-Identifier: Apache-2.0
// Gradients of matrix products and convolutions: products and convolutions again.
#include "GradientModels.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

//===-- dot_general
//-------------------------------------------------------------------------------===//

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
    Value product =
        DotGeneralOp::create(builder, op->getLoc(), chosen.first, chosen.second, chosen.firstBatch,
                             chosen.secondBatch, chosen.firstContract, chosen.secondContract);
    return b.transpose(product, inverted(chosen.order));
  }
};

//===-- convolution
//-------------------------------------------------------------------------------===//

/// y[o] = sum over k of x[o * stride + k * dilation - padBegin] w[k], with x spread by
/// inputDilation. Everything per spatial dimension.
struct Window {
  SmallVector<int64_t> strides, padBegin, padEnd, inputDilation, filterDilation;
};

Value convolve(FormulaBuilder &b, Value input, Value filter, const Window &window, int64_t groups) {
  ArrayRef<int64_t> in = b.typeOf(input).getShape(), kernel = b.typeOf(filter).getShape();
  SmallVector<int64_t> shape{in[0], kernel[0]};
  for (size_t i = 0; i < window.strides.size(); ++i) {
    int64_t spread = (in[i + 2] - 1) * window.inputDilation[i] + 1;
    int64_t reach = (kernel[i + 2] - 1) * window.filterDilation[i] + 1;
    shape.push_back((spread + window.padBegin[i] + window.padEnd[i] - reach) / window.strides[i] +
                    1);
  }
  return ConvolutionOp::create(b.builder, b.loc, b.typeOf(input).clone(shape), input, filter,
                               window.strides, window.padBegin, window.padEnd, window.inputDilation,
                               window.filterDilation, groups);
}

/// Splits dimension `dim` of `x` into (groups, rest) and swaps the outer one of the two with the
/// dimension `with`, so that groups end up there.
Value regroup(FormulaBuilder &b, Value x, ArrayRef<int64_t> split, ArrayRef<int64_t> permutation,
              ArrayRef<int64_t> joined) {
  return b.reshape(b.transpose(b.reshape(x, split), permutation), joined);
}

SmallVector<int64_t> withSpatial(std::initializer_list<int64_t> head, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> result(head);
  result.append(shape.begin() + 2, shape.end());
  return result;
}

/// {head..., head.size(), head.size() + 1, ...}: spatial dimensions stay behind.
SmallVector<int64_t> permuting(std::initializer_list<int64_t> head, size_t spatial) {
  SmallVector<int64_t> result(head);
  for (size_t i = 0; i < spatial; ++i)
    result.push_back(head.size() + i);
  return result;
}

// The filter is turned around, its channels swapped, and slides over the spread cotangent.
Value inputGradient(FormulaBuilder &b, ConvolutionOp op, Value g) {
  ArrayRef<int64_t> x = op.getInput().getType().getShape(), w = op.getFilter().getType().getShape(),
                    y = b.typeOf(g).getShape();
  int64_t groups = op.getGroups(), out = w[0] / groups, in = w[1];
  size_t spatial = x.size() - 2;
  Value filter = regroup(b, op.getFilter(), withSpatial({groups, out, in}, w),
                         permuting({0, 2, 1}, spatial), withSpatial({groups * in, out}, w));
  filter = b.reverse(filter, range(2, spatial));
  Window window;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t reach = (w[i + 2] - 1) * op.getFilterDilation()[i];
    int64_t begin = reach - op.getPadBegin()[i];
    int64_t spread = (y[i + 2] - 1) * op.getStrides()[i] + 1;
    window.strides.push_back(op.getInputDilation()[i]);
    window.padBegin.push_back(begin);
    window.padEnd.push_back((x[i + 2] - 1) * op.getInputDilation()[i] + reach + 1 - spread - begin);
    window.inputDilation.push_back(op.getStrides()[i]);
    window.filterDilation.push_back(op.getFilterDilation()[i]);
  }
  return convolve(b, g, filter, window, groups);
}

// Channels become the batch and samples the channels; the cotangent is the filter, and strides and
// dilations change places.
Value filterGradientAsConvolution(FormulaBuilder &b, ConvolutionOp op, Value g) {
  ArrayRef<int64_t> x = op.getInput().getType().getShape(), w = op.getFilter().getType().getShape(),
                    y = b.typeOf(g).getShape();
  int64_t groups = op.getGroups(), samples = x[0], in = w[1], out = w[0];
  size_t spatial = x.size() - 2;
  Value input = regroup(b, op.getInput(), withSpatial({samples, groups, in}, x),
                        permuting({2, 1, 0}, spatial), withSpatial({in, groups * samples}, x));
  SmallVector<int64_t> swap = permuting({1, 0}, spatial);
  Value filter = b.transpose(g, swap);
  Window window;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t begin = op.getPadBegin()[i];
    int64_t spread = (x[i + 2] - 1) * op.getInputDilation()[i] + 1;
    int64_t reach = (y[i + 2] - 1) * op.getStrides()[i] + 1;
    window.strides.push_back(op.getFilterDilation()[i]);
    window.padBegin.push_back(begin);
    window.padEnd.push_back((w[i + 2] - 1) * op.getFilterDilation()[i] + reach - spread - begin);
    window.inputDilation.push_back(op.getInputDilation()[i]);
    window.filterDilation.push_back(op.getStrides()[i]);
  }
  Value gradient = convolve(b, input, filter, window, groups); // [in, out, kernel...]
  assert(b.typeOf(gradient).getDimSize(1) == out);
  (void)out;
  return b.transpose(gradient, swap);
}

/// The input with its border, so that every window lies inside.
Value bordered(FormulaBuilder &b, ConvolutionOp op) {
  SmallVector<int64_t> shape(op.getInput().getType().getShape()), low(2, 0), starts(2, 0);
  SmallVector<int64_t> cut = shape, ones(shape.size(), 1);
  for (size_t i = 0; i + 2 < shape.size(); ++i) {
    int64_t begin = op.getPadBegin()[i], end = op.getPadEnd()[i];
    starts.push_back(std::max<int64_t>(-begin, 0));
    low.push_back(std::max<int64_t>(begin, 0));
    cut[i + 2] += std::min<int64_t>(begin, 0) + std::min<int64_t>(end, 0);
    shape[i + 2] += begin + end;
  }
  return b.pad(b.slice(op.getInput(), starts, ones, cut), low, shape);
}

/// For every position in the filter a matrix product of the cotangent and what that position saw of
/// the input, summed over samples and places.
Value filterGradientAsProducts(FormulaBuilder &b, ConvolutionOp op, Value g) {
  ArrayRef<int64_t> w = op.getFilter().getType().getShape(), y = b.typeOf(g).getShape();
  int64_t groups = op.getGroups(), samples = y[0], positions = 1;
  size_t spatial = y.size() - 2;
  SmallVector<int64_t> summed{0};
  summed.append(range(3, spatial));
  Value input = bordered(b, op);
  Value cotangent = b.reshape(g, withSpatial({samples, groups, w[0] / groups}, y));
  SmallVector<int64_t> seen = withSpatial({samples, groups * w[1]}, y);
  for (int64_t extent : w.drop_front(2))
    positions *= extent;
  SmallVector<Value> parts;
  for (int64_t position = 0; position < positions; ++position) {
    SmallVector<int64_t> starts(2 + spatial, 0), steps(2 + spatial, 1);
    for (int64_t i = spatial, rest = position; i-- > 0; rest /= w[i + 2]) {
      starts[i + 2] = rest % w[i + 2] * op.getFilterDilation()[i];
      steps[i + 2] = op.getStrides()[i];
    }
    Value part =
        b.reshape(b.slice(input, starts, steps, seen), withSpatial({samples, groups, w[1]}, y));
    SmallVector<int64_t> group{1};
    Value product =
        DotGeneralOp::create(b.builder, b.loc, cotangent, part, group, group, summed, summed);
    parts.push_back(b.reshape(product, {w[0], w[1], 1}));
  }
  Value all = parts.front();
  if (positions > 1)
    all =
        ConcatOp::create(b.builder, b.loc, b.typeOf(all).clone({w[0], w[1], positions}), parts, 2);
  return b.reshape(all, w);
}

Value filterGradient(FormulaBuilder &b, ConvolutionOp op, Value g) {
  constexpr int64_t mostPositions = 64;
  int64_t positions = 1;
  for (int64_t extent : op.getFilter().getType().getShape().drop_front(2))
    positions *= extent;
  bool isDense = llvm::all_of(op.getInputDilation(), [](int64_t step) { return step == 1; });
  return isDense && positions <= mostPositions ? filterGradientAsProducts(b, op, g)
                                               : filterGradientAsConvolution(b, op, g);
}

struct ConvolutionGradient
    : GradientOpInterface::ExternalModel<ConvolutionGradient, ConvolutionOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    FormulaBuilder b(builder, op);
    auto convolution = cast<ConvolutionOp>(op);
    return operand == 0 ? inputGradient(b, convolution, cotangents[0])
                        : filterGradient(b, convolution, cotangents[0]);
  }
};

} // namespace

void mlir::autopar::attachContractionGradients(MLIRContext &context) {
  DotGeneralOp::attachInterface<DotGeneralGradient>(context);
  ConvolutionOp::attachInterface<ConvolutionGradient>(context);
}
