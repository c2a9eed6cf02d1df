// SPDX-License-Identifier: Apache-2.0
// Convolutions that the library does not do (spread input, negative padding, other element types)
// as kernels: the input spread and padded once, then one term per filter position.
#include "LibraryCall.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// Writes a convolution as a sum over filter positions of strided slices times broadcast weights.
struct LoopForm {
  ConvolutionOp op;
  OpBuilder &builder;
  Type element;
  Location loc = op.getLoc();
  ArrayRef<int64_t> resultShape = op.getType().getShape();
  int64_t spatial = op.getType().getRank() - 2;
  int64_t groups = op.getGroups();
  int64_t perGroup = op.getFilter().getType().getDimSize(1);
  int64_t outPerGroup = op.getFilter().getType().getDimSize(0) / std::max<int64_t>(groups, 1);

  RankedTensorType tensor(ArrayRef<int64_t> shape) const {
    return RankedTensorType::get(shape, element);
  }

  Value cast(Value value) {
    auto type = llvm::cast<RankedTensorType>(value.getType());
    return type.getElementType() == element
               ? value
               : CastOp::create(builder, loc, type.clone(element), value).getResult();
  }
  Value zero() {
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(tensor({}), builder.getZeroAttr(element)));
  }

  /// The input spread by the input dilation, padded, and cut where padding is negative.
  Value prepareInput(Value input) {
    SmallVector<int64_t> shape(op.getInput().getType().getShape());
    for (int64_t i = 0; i < spatial; ++i) {
      int64_t dilation = op.getInputDilation()[i];
      if (dilation == 1 || shape[i + 2] == 0)
        continue;
      // [.., n, ..] -> [.., n, 1, ..] -> padded to [.., n, dilation, ..] -> [.., n * dilation, ..]
      SmallVector<int64_t> split(shape);
      split.insert(split.begin() + i + 3, 1);
      Value parts = ReshapeOp::create(builder, loc, tensor(split), input);
      split[i + 3] = dilation;
      parts = PadOp::create(builder, loc, tensor(split), parts, zero(),
                            SmallVector<int64_t>(split.size(), 0));
      shape[i + 2] *= dilation;
      Value joined = ReshapeOp::create(builder, loc, tensor(shape), parts);
      shape[i + 2] -= dilation - 1;
      input = SliceOp::create(builder, loc, tensor(shape), joined,
                              SmallVector<int64_t>(shape.size(), 0),
                              SmallVector<int64_t>(shape.size(), 1));
    }
    SmallVector<int64_t> low(shape.size(), 0), cut(shape.size(), 0), padded(shape), kept(shape);
    bool pads = false, cuts = false;
    for (int64_t i = 0; i < spatial; ++i) {
      int64_t begin = op.getPadBegin()[i], end = op.getPadEnd()[i];
      low[i + 2] = std::max<int64_t>(begin, 0);
      cut[i + 2] = std::max<int64_t>(-begin, 0);
      padded[i + 2] += low[i + 2] + std::max<int64_t>(end, 0);
      kept[i + 2] = shape[i + 2] + begin + end;
      pads |= padded[i + 2] != shape[i + 2];
      cuts |= kept[i + 2] != padded[i + 2];
    }
    if (pads)
      input = PadOp::create(builder, loc, tensor(padded), input, zero(), low);
    if (cuts)
      input = SliceOp::create(builder, loc, tensor(kept), input, cut,
                              SmallVector<int64_t>(shape.size(), 1));
    return input;
  }

  /// [N, groups, out per group, spatial..., channels per group] of one filter position.
  Value term(Value input, Value filter, ArrayRef<int64_t> position) {
    int64_t batch = resultShape[0], rank = spatial + 2;
    SmallVector<int64_t> starts(rank, 0), steps(rank, 1), shape{batch, groups * perGroup};
    SmallVector<int64_t> filterStarts(rank, 0), filterShape{groups * outPerGroup, perGroup};
    SmallVector<int64_t> full{batch, groups, outPerGroup}, grouped{batch, groups, perGroup},
        inputDims{0, 1, rank + 1};
    for (int64_t i = 0; i < spatial; ++i) {
      starts[i + 2] = position[i] * op.getFilterDilation()[i];
      steps[i + 2] = op.getStrides()[i];
      shape.push_back(resultShape[i + 2]);
      filterStarts[i + 2] = position[i];
      filterShape.push_back(1);
      full.push_back(resultShape[i + 2]);
      grouped.push_back(resultShape[i + 2]);
      inputDims.push_back(i + 3);
    }
    full.push_back(perGroup);
    Value window = SliceOp::create(builder, loc, tensor(shape), input, starts, steps);
    window = ReshapeOp::create(builder, loc, tensor(grouped), window);
    // Channels go last, as broadcast wants ascending dimensions.
    SmallVector<int64_t> order{0, 1}, ordered{batch, groups}, orderedDims{0, 1};
    for (int64_t i = 0; i < spatial; ++i) {
      order.push_back(i + 3);
      ordered.push_back(resultShape[i + 2]);
      orderedDims.push_back(i + 3);
    }
    order.push_back(2);
    ordered.push_back(perGroup);
    orderedDims.push_back(rank + 1);
    window = TransposeOp::create(builder, loc, tensor(ordered), window, order);
    window = BroadcastOp::create(builder, loc, tensor(full), window, orderedDims);
    Value weight = SliceOp::create(builder, loc, tensor(filterShape), filter, filterStarts,
                                   SmallVector<int64_t>(rank, 1));
    weight = ReshapeOp::create(builder, loc, tensor({groups, outPerGroup, perGroup}), weight);
    weight =
        BroadcastOp::create(builder, loc, tensor(full), weight, ArrayRef<int64_t>{1, 2, rank + 1});
    Value product = BinaryOp::create(builder, loc, BinaryKind::Mul, window, weight);
    SmallVector<int64_t> reduced(llvm::ArrayRef(full).drop_back());
    return ReduceOp::create(builder, loc, tensor(reduced), ReduceKind::Sum, product,
                            ArrayRef<int64_t>{rank + 1});
  }
};

/// One group for the prepared input, then one per filter position that adds its term.
class LoopLowering {
public:
  LoopLowering(ProgramBuilder &program, ConvolutionOp op) : program(program), op(op) {
    RankedTensorType type = op.getType();
    element = type.getElementType();
    if (element.isF16() || element.isBF16())
      element = Float32Type::get(op.getContext());
    auto groups = static_cast<int64_t>(op.getGroups());
    SmallVector<int64_t> shape{type.getDimSize(0), groups, type.getDimSize(1) / groups};
    llvm::append_range(shape, type.getShape().drop_front(2));
    sumType = RankedTensorType::get(shape, element);
  }

  LogicalResult lower() {
    FailureOr<Value> input = program.rowMajorBuffer(op.getInput()),
                     filter = program.rowMajorBuffer(op.getFilter());
    if (failed(input) || failed(filter))
      return failure();
    Value output = program.createRowMajorResult(op.getResult());
    return success(succeeded(prepare(*input)) && succeeded(addTerms(*filter, output)));
  }

private:
  /// The input as LoopForm::prepareInput makes it.
  LogicalResult prepare(Value input) {
    SmallVector<int64_t> shape(op.getInput().getType().getShape());
    for (size_t i = 2; i < shape.size(); ++i) {
      int64_t spread = shape[i] == 0 ? 0 : (shape[i] - 1) * op.getInputDilation()[i - 2] + 1;
      shape[i] = spread + op.getPadBegin()[i - 2] + op.getPadEnd()[i - 2];
    }
    preparedType = RankedTensorType::get(shape, element);
    prepared = program.createBuffer(getOpId(op) + ".prepared", preparedType);
    auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      LoopForm form{op, builder, element};
      return {form.prepareInput(form.cast(inputs[0]))};
    };
    return program.launchGroup(op, {op.getInput().getType()}, {input}, {preparedType}, {prepared},
                               build);
  }

  LogicalResult addTerms(Value filter, Value output) {
    ArrayRef<int64_t> kernel = op.getFilter().getType().getShape().drop_front(2);
    int64_t positions = llvm::product_of(kernel);
    Value sum;
    for (int64_t flat = 0; flat < positions; ++flat) {
      SmallVector<int64_t> position(kernel.size());
      for (int64_t rest = flat, i = kernel.size() - 1; i >= 0; rest /= kernel[i--])
        position[i] = rest % kernel[i];
      bool isLast = flat + 1 == positions;
      Value next = isLast ? output : program.createBuffer(getOpId(op) + ".sum", sumType);
      if (failed(addTerm(position, filter, sum, next, isLast ? op.getType() : sumType)))
        return failure();
      sum = next;
    }
    return success();
  }

  /// Stores the term of one filter position, and `sum` if there is one yet, in `next`; in the
  /// result's type and shape, if that is `nextType`.
  LogicalResult addTerm(ArrayRef<int64_t> position, Value filter, Value sum, Value next,
                        RankedTensorType nextType) {
    SmallVector<RankedTensorType> types{preparedType, op.getFilter().getType()};
    SmallVector<Value> buffers{prepared, filter};
    if (sum) {
      types.push_back(sumType);
      buffers.push_back(sum);
    }
    auto add = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      LoopForm form{op, builder, element};
      Value value = form.term(inputs[0], form.cast(inputs[1]), position);
      if (sum)
        value = BinaryOp::create(builder, op.getLoc(), BinaryKind::Add, inputs[2], value);
      if (nextType == sumType)
        return {value};
      value = ReshapeOp::create(builder, op.getLoc(), op.getType().clone(element), value);
      return {element == op.getType().getElementType()
                  ? value
                  : CastOp::create(builder, op.getLoc(), op.getType(), value).getResult()};
    };
    return program.launchGroup(op, types, buffers, {nextType}, {next}, add);
  }

  ProgramBuilder &program;
  ConvolutionOp op;
  Type element; ///< of sums
  RankedTensorType preparedType, sumType;
  Value prepared;
};
} // namespace

LogicalResult mlir::autopar::lowerConvolutionAsLoops(ProgramBuilder &program, ConvolutionOp op) {
  return LoopLowering(program, op).lower();
}
