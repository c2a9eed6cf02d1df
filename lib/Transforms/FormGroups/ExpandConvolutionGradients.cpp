// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-convolution-gradients.
#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Transforms/LibraryConvolution.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDCONVOLUTIONGRADIENTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

SmallVector<int64_t> range(int64_t begin, int64_t count) {
  return llvm::to_vector(llvm::seq<int64_t>(begin, begin + count));
}

/// y[o] = sum over k of x[o * stride + k * dilation - padBegin] w[k], with x spread by
/// inputDilation. Everything per spatial dimension.
struct Window {
  SmallVector<int64_t> strides, padBegin, padEnd, inputDilation, filterDilation;
};

Value convolve(FormulaBuilder &b, Value input, Value filter, const Window &window, int64_t groups,
               Type element) {
  ArrayRef<int64_t> in = b.typeOf(input).getShape(), kernel = b.typeOf(filter).getShape();
  SmallVector<int64_t> shape{in[0], kernel[0]};
  for (size_t i = 0; i < window.strides.size(); ++i) {
    int64_t spread = (in[i + 2] - 1) * window.inputDilation[i] + 1;
    int64_t reach = (kernel[i + 2] - 1) * window.filterDilation[i] + 1;
    shape.push_back((spread + window.padBegin[i] + window.padEnd[i] - reach) / window.strides[i] +
                    1);
  }
  return ConvolutionOp::create(b.builder, b.loc, RankedTensorType::get(shape, element), input,
                               filter, window.strides, window.padBegin, window.padEnd,
                               window.inputDilation, window.filterDilation, groups);
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
Value expand(FormulaBuilder &b, ConvolutionInputGradOp op) {
  Value g = op.getGradient();
  ArrayRef<int64_t> x = op.getType().getShape(), w = op.getFilter().getType().getShape(),
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
  return convolve(b, g, filter, window, groups, op.getType().getElementType());
}

// Channels become the batch and samples the channels; the cotangent is the filter, and strides and
// dilations change places.
Value asConvolution(FormulaBuilder &b, ConvolutionFilterGradOp op) {
  Value g = op.getGradient();
  ArrayRef<int64_t> x = op.getInput().getType().getShape(), w = op.getType().getShape(),
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
  // [in, out, kernel...]
  Value gradient = convolve(b, input, filter, window, groups, op.getType().getElementType());
  assert(b.typeOf(gradient).getDimSize(1) == out);
  (void)out;
  return b.transpose(gradient, swap);
}

/// The input with its border, so that every window lies inside.
Value bordered(FormulaBuilder &b, ConvolutionFilterGradOp op) {
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
Value asProducts(FormulaBuilder &b, ConvolutionFilterGradOp op) {
  Value g = op.getGradient();
  ArrayRef<int64_t> w = op.getType().getShape(), y = b.typeOf(g).getShape();
  int64_t groups = op.getGroups(), samples = y[0], positions = llvm::product_of(w.drop_front(2));
  size_t spatial = y.size() - 2;
  SmallVector<int64_t> summed{0};
  summed.append(range(3, spatial));
  Value input = bordered(b, op);
  Value cotangent = b.reshape(g, withSpatial({samples, groups, w[0] / groups}, y));
  SmallVector<int64_t> seen = withSpatial({samples, groups * w[1]}, y);
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
    auto product =
        DotGeneralOp::create(b.builder, b.loc, cotangent, part, group, group, summed, summed);
    // Gradients of parameters may be wider than what they are products of.
    product.getResult().setType(product.getType().clone(op.getType().getElementType()));
    parts.push_back(b.reshape(product, {w[0], w[1], 1}));
  }
  Value all = parts.front();
  if (positions > 1)
    all =
        ConcatOp::create(b.builder, b.loc, b.typeOf(all).clone({w[0], w[1], positions}), parts, 2);
  return b.reshape(all, w);
}

Value expand(FormulaBuilder &b, ConvolutionFilterGradOp op) {
  constexpr int64_t mostPositions = 64;
  int64_t positions = llvm::product_of(op.getType().getShape().drop_front(2));
  bool isDense = llvm::all_of(op.getInputDilation(), [](int64_t step) { return step == 1; });
  return isDense && positions <= mostPositions ? asProducts(b, op) : asConvolution(b, op);
}

/// The last operation takes the gradient's name, the others follow it.
void nameMade(Operation *gradient, Operation *before, Value result) {
  StringRef id = getOpId(gradient);
  if (id.empty())
    return;
  llvm::StringMap<int> counts;
  Operation *last = result.getDefiningOp();
  Operation *op = before ? before->getNextNode() : &gradient->getBlock()->front();
  for (; op != gradient; op = op->getNextNode()) {
    std::string name = (id + "/" + op->getName().stripDialect()).str();
    if (int count = counts[name]++)
      name += "." + std::to_string(count);
    setOpId(op, op == last ? id.str() : name);
  }
}

struct ExpandConvolutionGradients
    : mlir::autopar::impl::ExpandConvolutionGradientsPassBase<ExpandConvolutionGradients> {
  using ExpandConvolutionGradientsPassBase::ExpandConvolutionGradientsPassBase;

  void runOnOperation() override {
    std::optional<ConvolutionMode> chosen = convolutionModeFromName(mode);
    if (!chosen) {
      getOperation()->emitError() << "convolutions: expected auto or kernels, got \"" << mode
                                  << "\"";
      return signalPassFailure();
    }
    getOperation().walk([&](Operation *op) {
      if (*chosen == ConvolutionMode::Automatic && isLibraryConvolution(op, target))
        return;
      if (auto gradient = dyn_cast<ConvolutionInputGradOp>(op))
        replace(gradient);
      else if (auto gradient = dyn_cast<ConvolutionFilterGradOp>(op))
        replace(gradient);
    });
  }

  template <typename Op>
  static void replace(Op gradient) {
    OpBuilder builder(gradient);
    FormulaBuilder b(builder, gradient);
    Operation *before = gradient->getPrevNode();
    Value result = expand(b, gradient);
    nameMade(gradient, before, result);
    gradient.getResult().replaceAllUsesWith(result);
    gradient.erase();
  }
};

} // namespace
