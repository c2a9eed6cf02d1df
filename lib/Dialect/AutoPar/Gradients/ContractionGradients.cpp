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

struct DotGeneralGradient : GradientOpInterface::ExternalModel<DotGeneralGradient, DotGeneralOp> {
  FailureOr<Value> buildGradient(Operation *op, OpBuilder &builder, unsigned operand,
                                 ValueRange cotangents) const {
    auto dot = cast<DotGeneralOp>(op);
    FormulaBuilder b(builder, op);
    Value g = cotangents[0];
    int64_t batch = dot.getLhsBatch().size(), lhsFree = dot.getLhsFree().size(),
            rhsFree = dot.getRhsFree().size();
    SmallVector<int64_t> order; // result dimension -> dimension of the operand
    auto place = [&](ArrayRef<int64_t> own, ArrayRef<int64_t> other) {
      // Contracted dimensions come in the order in which the other operand has them.
      SmallVector<int64_t> placed(own.size());
      for (auto [rank, dim] : llvm::zip_equal(ranks(other), own))
        placed[rank] = dim;
      order.append(placed);
    };
    Value product;
    if (operand == 0) {
      product = DotGeneralOp::create(builder, op->getLoc(), g, dot.getRhs(), range(0, batch),
                                     dot.getRhsBatch(), range(batch + lhsFree, rhsFree),
                                     dot.getRhsFree());
      order.append(SmallVector<int64_t>(dot.getLhsBatch()));
      order.append(dot.getLhsFree());
      place(dot.getLhsContract(), dot.getRhsContract());
    } else {
      product = DotGeneralOp::create(builder, op->getLoc(), dot.getLhs(), g, dot.getLhsBatch(),
                                     range(0, batch), dot.getLhsFree(), range(batch, lhsFree));
      order.append(SmallVector<int64_t>(dot.getRhsBatch()));
      place(dot.getRhsContract(), dot.getLhsContract());
      order.append(dot.getRhsFree());
    }
    return b.transpose(product, inverted(order));
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
Value filterGradient(FormulaBuilder &b, ConvolutionOp op, Value g) {
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
