// SPDX-License-Identifier: Apache-2.0
// The cases: see the header.
#include "GradientCases.h"

using namespace mlir;
using namespace mlir::autopar;
using namespace autopar_training;

CaseBuilder::CaseBuilder(func::FuncOp function, uint64_t seed)
    : builder(OpBuilder::atBlockEnd(&function.getBody().front())), loc(function.getLoc()),
      random(seed), function(function) {}

double CaseBuilder::uniform(double low, double high) {
  return low + (high - low) * (static_cast<double>(random() >> 11) * 0x1p-53);
}

SmallVector<int64_t> CaseBuilder::shape(int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t i = 0; i < rank; ++i)
    result.push_back(1 + below(4));
  return result;
}

RankedTensorType CaseBuilder::type(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, builder.getF64Type());
}

RankedTensorType CaseBuilder::typeOf(Value value) {
  return cast<RankedTensorType>(value.getType());
}

Value CaseBuilder::argument(ArrayRef<int64_t> shape, double low, double high) {
  unsigned index = function.getNumArguments();
  (void)function.insertArgument(index, type(shape), DictionaryAttr(), loc);
  function.setArgAttr(index, "autopar.name", builder.getStringAttr("x" + Twine(index)));
  std::vector<double> drawn(type(shape).getNumElements());
  for (double &value : drawn)
    value = uniform(low, high);
  values.push_back(drawn);
  return function.getArgument(index);
}

Value CaseBuilder::numbers(ArrayRef<int64_t> shape, double low, double high) {
  SmallVector<double> drawn(type(shape).getNumElements());
  for (double &value : drawn)
    value = uniform(low, high);
  return ConstantOp::create(builder, loc,
                            DenseElementsAttr::get(type(shape), ArrayRef<double>(drawn)));
}

Value CaseBuilder::integers(ArrayRef<int64_t> shape, ArrayRef<int64_t> values) {
  auto integerType = RankedTensorType::get(shape, builder.getI64Type());
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(integerType, values));
}

Value CaseBuilder::integers(ArrayRef<int64_t> shape, int64_t low, int64_t high) {
  SmallVector<int64_t> drawn(type(shape).getNumElements());
  for (int64_t &value : drawn)
    value = low + below(high - low + 1);
  return integers(shape, drawn);
}

namespace {

//===-- Elementwise --------------------------------------------------------------------------===//

/// Where a function is smooth, and its values neither vanish nor explode.
std::pair<double, double> domainOf(UnaryKind kind) {
  switch (kind) {
  case UnaryKind::Log:
  case UnaryKind::Sqrt:
  case UnaryKind::Rsqrt:
  case UnaryKind::Reciprocal:
    return {0.5, 2};
  case UnaryKind::Asin:
  case UnaryKind::Acos:
  case UnaryKind::Atanh:
    return {-0.8, 0.8};
  case UnaryKind::Acosh:
    return {1.2, 3};
  case UnaryKind::Tan:
    return {-1, 1};
  default:
    return {-2, 2};
  }
}

bool isStep(UnaryKind kind) {
  return kind == UnaryKind::Sign || kind == UnaryKind::Floor || kind == UnaryKind::Ceil ||
         kind == UnaryKind::Round;
}

Value buildUnary(CaseBuilder &c, UnaryKind kind) {
  auto [low, high] = domainOf(kind);
  Value x = c.argument(c.shape(2), low, high);
  Value y = UnaryOp::create(c.builder, c.loc, x.getType(), kind, x);
  // Alone, a step would be refused: its derivative is zero.
  return isStep(kind)
             ? Value(BinaryOp::create(c.builder, c.loc, x.getType(), BinaryKind::Mul, x, y))
             : y;
}

Value buildBinary(CaseBuilder &c, BinaryKind kind) {
  bool positive = kind == BinaryKind::Pow || kind == BinaryKind::Div;
  bool divides = kind == BinaryKind::Remainder || kind == BinaryKind::Modulo;
  SmallVector<int64_t> shape = c.shape(2);
  Value a = c.argument(shape, positive ? 0.5 : -3, 3);
  Value b = positive  ? c.argument(shape, 0.5, 2)
            : divides ? c.argument(shape, 0.7, 1.3)
                      : c.argument(shape);
  return BinaryOp::create(c.builder, c.loc, a.getType(), kind, a, b);
}

Value buildSelect(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(2);
  Value condition = CompareOp::create(c.builder, c.loc, c.type(shape).clone(c.builder.getI1Type()),
                                      ComparePredicate::Lt, c.numbers(shape), c.numbers(shape));
  return SelectOp::create(c.builder, c.loc, condition, c.argument(shape), c.argument(shape));
}

Value buildCast(CaseBuilder &c) {
  Value x = c.argument(c.shape(2));
  return CastOp::create(c.builder, c.loc, x.getType(), x);
}

//===-- Contractions -------------------------------------------------------------------------===//

/// Batch, free and contracted dimensions in random order on both sides.
Value buildDotGeneral(CaseBuilder &c) {
  int64_t batch = c.below(2), contract = 1 + c.below(2);
  SmallVector<int64_t> sizes = c.shape(batch + contract);
  auto side = [&](SmallVector<int64_t> &batchDims, SmallVector<int64_t> &contractDims) {
    int64_t free = c.below(3), rank = batch + contract + free;
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                         shape = c.shape(rank);
    std::shuffle(order.begin(), order.end(), c.random);
    for (int64_t i = 0; i < batch + contract; ++i) {
      shape[order[i]] = sizes[i];
      (i < batch ? batchDims : contractDims).push_back(order[i]);
    }
    return c.argument(shape);
  };
  SmallVector<int64_t> lhsBatch, rhsBatch, lhsContract, rhsContract;
  Value lhs = side(lhsBatch, lhsContract), rhs = side(rhsBatch, rhsContract);
  return DotGeneralOp::create(c.builder, c.loc, lhs, rhs, lhsBatch, rhsBatch, lhsContract,
                              rhsContract);
}

/// Few rows or more, of which some are of no group; all at once or in parts.
struct GroupedRows {
  SmallVector<int64_t> shape;
  int64_t depth, columns, parts, groups;
  bool inParts;
  Value group;

  explicit GroupedRows(CaseBuilder &c)
      : shape(c.shape(1 + c.below(2))), depth(1 + c.below(4)), columns(1 + c.below(4)), parts(1),
        groups(1 + c.below(4)), inParts(c.below(2)) {
    if (inParts)
      groups = (parts = 1 + c.below(3)) * (1 + c.below(2));
    group = c.integers(shape, -1, groups);
  }
  SmallVector<int64_t> shapeOf(int64_t extent) const {
    SmallVector<int64_t> all(shape);
    if (inParts)
      all.insert(all.begin(), parts);
    all.push_back(extent);
    return all;
  }
  Value rows(CaseBuilder &c, int64_t extent) const { return c.argument(shapeOf(extent)); }
};

Value buildGroupedDot(CaseBuilder &c) {
  GroupedRows drawn(c);
  bool transposed = c.below(2);
  Value lhs = drawn.rows(c, drawn.depth);
  Value rhs =
      c.argument(transposed ? SmallVector<int64_t>{drawn.groups, drawn.columns, drawn.depth}
                            : SmallVector<int64_t>{drawn.groups, drawn.depth, drawn.columns});
  return GroupedDotOp::create(c.builder, c.loc, c.type(drawn.shapeOf(drawn.columns)), lhs, rhs,
                              drawn.group, transposed, IntegerAttr(), drawn.inParts);
}

Value buildGroupedDotRhsGrad(CaseBuilder &c) {
  GroupedRows drawn(c);
  Value lhs = drawn.rows(c, drawn.depth), gradient = drawn.rows(c, drawn.columns);
  return GroupedDotRhsGradOp::create(c.builder, c.loc,
                                     c.type({drawn.groups, drawn.depth, drawn.columns}), lhs,
                                     gradient, drawn.group, IntegerAttr(), drawn.inParts);
}

Value buildConvolution(CaseBuilder &c, bool spreads) {
  int64_t spatial = 1 + c.below(2), groups = 1 + c.below(2);
  SmallVector<int64_t> x{1 + c.below(2), groups * (1 + c.below(2))},
      w{groups * (1 + c.below(2)), x[1] / groups}, y{x[0], w[0]};
  SmallVector<int64_t> strides, begin, end, inputDilation, filterDilation;
  for (int64_t i = 0; i < spatial; ++i) {
    x.push_back(4 + c.below(3));
    w.push_back(1 + c.below(3));
    strides.push_back(1 + c.below(3));
    begin.push_back(c.below(3) - (c.below(4) == 0));
    end.push_back(c.below(3));
    inputDilation.push_back(spreads ? 1 + c.below(2) : 1);
    filterDilation.push_back(1 + c.below(2));
    int64_t padded = (x.back() - 1) * inputDilation.back() + 1 + begin.back() + end.back();
    int64_t reach = (w.back() - 1) * filterDilation.back() + 1;
    if (padded < reach) {
      end.back() += reach - padded;
      padded = reach;
    }
    y.push_back((padded - reach) / strides.back() + 1);
  }
  Value input = c.argument(x), filter = c.argument(w);
  return ConvolutionOp::create(c.builder, c.loc, c.type(y), input, filter, strides, begin, end,
                               inputDilation, filterDilation, groups);
}

Value buildTransposedConvolution(CaseBuilder &c) {
  auto back = cast<ConvolutionOp>(buildConvolution(c, false).getDefiningOp());
  Value image = c.argument(back.getType().getShape()), input = back.getInput();
  Value transposed = ConvolutionInputGradOp::create(
      c.builder, c.loc, input.getType(), image, back.getFilter(), back.getStridesAttr(),
      back.getPadBeginAttr(), back.getPadEndAttr(), back.getInputDilationAttr(),
      back.getFilterDilationAttr(), back.getGroupsAttr());
  back.erase();
  return BinaryOp::create(c.builder, c.loc, input.getType(), BinaryKind::Add, transposed, input);
}

//===-- Reductions ---------------------------------------------------------------------------===//

Value buildReduce(CaseBuilder &c, ReduceKind kind) {
  Value x = c.argument(c.shape(3));
  SmallVector<int64_t> dims{c.below(3)};
  if (c.below(2))
    dims = {0, 2};
  return ReduceOp::create(c.builder, c.loc, kind, x, dims);
}

Value buildPool(CaseBuilder &c, ReduceKind kind) {
  SmallVector<int64_t> x{1 + c.below(2), 1 + c.below(2), 5 + c.below(3), 5 + c.below(3)}, y = x;
  SmallVector<int64_t> window(4, 1), strides(4, 1), begin(4, 0), end(4, 0), dilations(4, 1);
  for (int64_t dim = 2; dim < 4; ++dim) {
    window[dim] = 1 + c.below(3);
    strides[dim] = 1 + c.below(3);
    dilations[dim] = 1 + c.below(2);
    begin[dim] = c.below(window[dim]);
    end[dim] = c.below(window[dim]);
    int64_t reach = (window[dim] - 1) * dilations[dim] + 1;
    y[dim] = (x[dim] + begin[dim] + end[dim] - reach) / strides[dim] + 1;
  }
  Value pooled = PoolOp::create(c.builder, c.loc, c.type(y), kind, c.argument(x), window, strides,
                                begin, end, dilations);
  if (kind == ReduceKind::Sum)
    return pooled;
  // Windows in the padding alone hold infinities, which the comparison cannot use.
  bool max = kind == ReduceKind::Max;
  Attribute bound = c.builder.getF64FloatAttr(max ? -8 : 8);
  Value limit = ConstantOp::create(c.builder, c.loc, DenseElementsAttr::get(c.type(y), bound));
  return BinaryOp::create(c.builder, c.loc, c.type(y), max ? BinaryKind::Max : BinaryKind::Min,
                          pooled, limit);
}

Value buildCumulative(CaseBuilder &c) {
  Value x = c.argument(c.shape(3));
  return CumulativeOp::create(c.builder, c.loc, x.getType(), ReduceKind::Sum, x, c.below(3),
                              c.below(2) == 1, c.below(2) == 1);
}

Value buildSoftmax(CaseBuilder &c, bool log) {
  Value x = c.argument(c.shape(3));
  return SoftmaxOp::create(c.builder, c.loc, x.getType(), x, c.below(3), log);
}

Value buildAttention(CaseBuilder &c, bool causal) {
  int64_t batch = 1 + c.below(2), groups = 1 + c.below(2), heads = groups * (1 + c.below(2)),
          rows = 1 + c.below(3), columns = rows + c.below(3), size = 1 + c.below(3),
          valueSize = 1 + c.below(3);
  Value query = c.argument({batch, heads, rows, size}),
        key = c.argument({batch, groups, columns, size}),
        value = c.argument({batch, groups, columns, valueSize}),
        bias = !causal      ? c.numbers({batch, 1, 1, columns})
               : c.below(2) ? c.numbers({batch, 1, rows, columns})
                            : Value();
  int64_t window = causal && c.below(2) ? 1 + c.below(columns) : 0;
  Value sink = c.below(2) ? c.argument({heads}) : Value();
  return AttentionOp::create(c.builder, c.loc, query, key, value, bias, 0.7, causal, window, sink)
      .getOutput();
}

Value buildNormalize(CaseBuilder &c, bool rms) {
  SmallVector<int64_t> shape = c.shape(3);
  shape[2] += 2;
  Value x = c.argument(shape);
  SmallVector<int64_t> dims{2};
  if (c.below(2))
    dims = {1, 2};
  return NormalizeOp::create(c.builder, c.loc, x.getType(), x, dims, APFloat(1e-2), rms);
}

/// What a gradient yields, differentiated once more.
Value buildUnaryGrad(CaseBuilder &c, UnaryKind kind) {
  SmallVector<int64_t> shape = c.shape(2);
  Value x = c.argument(shape), g = c.argument(shape);
  return UnaryGradOp::create(c.builder, c.loc, x.getType(), kind, x, g);
}
Value buildSoftmaxGrad(CaseBuilder &c, bool log) {
  auto y = buildSoftmax(c, log).getDefiningOp<SoftmaxOp>();
  return SoftmaxGradOp::create(c.builder, c.loc, y.getType(), y.getResult(),
                               c.argument(y.getType().getShape()), y.getDimAttr(), y.getLogAttr());
}
Value buildNormalizeGrad(CaseBuilder &c, bool rms) {
  auto y = buildNormalize(c, rms).getDefiningOp<NormalizeOp>();
  return NormalizeGradOp::create(c.builder, c.loc, y.getType(), y.getInput(), y.getResult(),
                                 c.argument(y.getType().getShape()), y.getDimsAttr(),
                                 y.getEpsilonAttr(), y.getRmsAttr());
}

Value buildTopK(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(3), kept = shape;
  int64_t dim = c.below(3);
  kept[dim] = 1 + c.below(shape[dim]);
  auto op =
      TopKOp::create(c.builder, c.loc, c.type(kept), c.type(kept).clone(c.builder.getI64Type()),
                     c.argument(shape), dim, c.below(2) == 1);
  return op.getValues();
}

//===-- Movement -----------------------------------------------------------------------------===//

Value buildBroadcast(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(4), input{1 + c.below(2) * (shape[1] - 1), shape[3]};
  return BroadcastOp::create(c.builder, c.loc, c.type(shape), c.argument(input),
                             ArrayRef<int64_t>{1, 3});
}

Value buildReshape(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(3), flat{shape[0] * shape[1], shape[2]};
  return ReshapeOp::create(c.builder, c.loc, c.type(flat), c.argument(shape));
}

Value buildTranspose(CaseBuilder &c) {
  SmallVector<int64_t> order{0, 1, 2, 3};
  std::shuffle(order.begin(), order.end(), c.random);
  return TransposeOp::create(c.builder, c.loc, c.argument(c.shape(4)), order);
}

Value buildSlice(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(3), starts, steps, kept;
  for (int64_t &extent : shape) {
    extent += 3;
    int64_t step = 1 + c.below(3), start = c.below(extent);
    bool back = c.below(2);
    int64_t available = back ? start / step + 1 : (extent - 1 - start) / step + 1;
    starts.push_back(start);
    steps.push_back(back ? -step : step);
    kept.push_back(1 + c.below(available));
  }
  return SliceOp::create(c.builder, c.loc, c.type(kept), c.argument(shape), starts, steps);
}

Value buildPad(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(2), padded, low;
  for (int64_t extent : shape) {
    low.push_back(c.below(3));
    padded.push_back(extent + low.back() + c.below(3));
  }
  Value x = c.argument(shape), border = c.argument({});
  return PadOp::create(c.builder, c.loc, c.type(padded), x, border, low);
}

Value buildConcat(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(3), joined = shape;
  int64_t dim = c.below(3);
  joined[dim] = 0;
  SmallVector<Value> parts;
  for (int i = 0; i < 3; ++i) {
    shape[dim] = 1 + c.below(3);
    joined[dim] += shape[dim];
    parts.push_back(c.argument(shape));
  }
  return ConcatOp::create(c.builder, c.loc, c.type(joined), parts, dim);
}

/// Some slices reach past the end of the input.
Value buildDynamicSlice(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(2), kept;
  SmallVector<Value> starts;
  for (int64_t extent : shape) {
    starts.push_back(c.integers({}, 0, extent + 1));
    kept.push_back(1 + c.below(extent));
  }
  return DynamicSliceOp::create(c.builder, c.loc, c.type(kept), c.argument(shape), starts);
}

/// Positions from the end and outside occur too; elements are read more than once.
Value buildGather(CaseBuilder &c) {
  int64_t batch = c.below(2), first = batch + c.below(2), count = 1 + c.below(2), rest = c.below(2);
  SmallVector<int64_t> input = c.shape(first + count + rest), dims, indices, result;
  for (int64_t i = 0; i < count; ++i)
    dims.push_back(first + i);
  indices.append(input.begin(), input.begin() + batch);
  result.append(input.begin(), input.begin() + first);
  for (int64_t extent : c.shape(1 + c.below(2))) {
    indices.push_back(extent);
    result.push_back(extent);
  }
  indices.push_back(count);
  result.append(input.begin() + first + count, input.end());
  return GatherOp::create(c.builder, c.loc, c.type(result), c.argument(input),
                          c.integers(indices, -2, 4), dims, batch);
}

Value buildGatherElements(CaseBuilder &c) {
  SmallVector<int64_t> shape = c.shape(3), result = shape;
  int64_t dim = c.below(3), extent = shape[dim];
  result[dim] = 1 + c.below(5);
  return GatherElementsOp::create(c.builder, c.loc, c.type(result), c.argument(shape),
                                  c.integers(result, -extent, extent - 1), dim);
}

/// Distinct positions for an assignment, repeated ones for a sum.
SmallVector<int64_t> positions(CaseBuilder &c, int64_t count, int64_t extent, ScatterKind kind) {
  SmallVector<int64_t> all = llvm::to_vector(llvm::seq<int64_t>(0, extent)), drawn;
  std::shuffle(all.begin(), all.end(), c.random);
  for (int64_t i = 0; i < count; ++i)
    drawn.push_back(kind == ScatterKind::Assign ? all[i] : c.below(extent) - c.below(2) * extent);
  return drawn;
}

Value buildScatter(CaseBuilder &c, ScatterKind kind) {
  int64_t batch = c.below(2);
  SmallVector<int64_t> shape = c.shape(batch + 2), part = shape, drawn;
  part[batch] = 1 + c.below(shape[batch]);
  for (int64_t i = 0, batches = batch ? shape[0] : 1; i < batches; ++i)
    llvm::append_range(drawn, positions(c, part[batch], shape[batch], kind));
  Value x = c.argument(shape), updates = c.argument(part);
  part.back() = 1;
  return ScatterOp::create(c.builder, c.loc, c.type(shape), kind, x, c.integers(part, drawn),
                           updates, batch);
}

Value buildScatterElements(CaseBuilder &c, ScatterKind kind) {
  SmallVector<int64_t> shape = c.shape(2);
  int64_t count = 1 + c.below(shape[0]);
  SmallVector<int64_t> drawn(count * shape[1]);
  for (int64_t column = 0; column < shape[1]; ++column)
    for (auto [row, at] : llvm::enumerate(positions(c, count, shape[0], kind)))
      drawn[row * shape[1] + column] = at;
  Value x = c.argument(shape), updates = c.argument({count, shape[1]});
  return ScatterElementsOp::create(c.builder, c.loc, c.type(shape), kind, x,
                                   c.integers({count, shape[1]}, drawn), updates, 0);
}

} // namespace

std::vector<GradientCase> autopar_training::gradientCases() {
  std::vector<GradientCase> cases;
  for (uint32_t i = 0; std::optional<UnaryKind> kind = symbolizeUnaryKind(i); ++i)
    if (*kind != UnaryKind::Not)
      cases.push_back({"unary", stringifyUnaryKind(*kind).str(),
                       [kind](CaseBuilder &c) { return buildUnary(c, *kind); }});
  for (uint32_t i = 0; i <= static_cast<uint32_t>(BinaryKind::Modulo); ++i) {
    auto kind = static_cast<BinaryKind>(i);
    cases.push_back({"binary", stringifyBinaryKind(kind).str(),
                     [kind](CaseBuilder &c) { return buildBinary(c, kind); }});
  }
  for (UnaryKind kind : {UnaryKind::Gelu, UnaryKind::GeluTanh, UnaryKind::Silu})
    cases.push_back({"unary", stringifyUnaryKind(kind).str() + "_twice",
                     [kind](CaseBuilder &c) { return buildUnaryGrad(c, kind); }});
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Prod, ReduceKind::Max, ReduceKind::Min})
    cases.push_back({"reduce", stringifyReduceKind(kind).str(),
                     [kind](CaseBuilder &c) { return buildReduce(c, kind); }});
  for (ReduceKind kind : {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min})
    cases.push_back({"pool", stringifyReduceKind(kind).str(),
                     [kind](CaseBuilder &c) { return buildPool(c, kind); }});
  for (ScatterKind kind : {ScatterKind::Add, ScatterKind::Assign}) {
    cases.push_back({"scatter", stringifyScatterKind(kind).str(),
                     [kind](CaseBuilder &c) { return buildScatter(c, kind); }});
    cases.push_back({"scatter_elements", stringifyScatterKind(kind).str(),
                     [kind](CaseBuilder &c) { return buildScatterElements(c, kind); }});
  }
  for (bool flag : {false, true}) {
    cases.push_back(
        {"softmax", flag ? "log" : "", [flag](CaseBuilder &c) { return buildSoftmax(c, flag); }});
    cases.push_back({"attention", flag ? "causal" : "",
                     [flag](CaseBuilder &c) { return buildAttention(c, flag); }});
    cases.push_back({"softmax", flag ? "log_twice" : "twice",
                     [flag](CaseBuilder &c) { return buildSoftmaxGrad(c, flag); }});
    cases.push_back({"normalize", flag ? "rms_twice" : "twice",
                     [flag](CaseBuilder &c) { return buildNormalizeGrad(c, flag); }});
    cases.push_back({"normalize", flag ? "rms" : "",
                     [flag](CaseBuilder &c) { return buildNormalize(c, flag); }});
    cases.push_back({"convolution", flag ? "spread" : "",
                     [flag](CaseBuilder &c) { return buildConvolution(c, flag); }});
  }
  cases.push_back({"select", "", buildSelect});
  cases.push_back({"cast", "", buildCast});
  cases.push_back({"dot_general", "", buildDotGeneral});
  cases.push_back({"grouped_dot", "", buildGroupedDot});
  cases.push_back({"grouped_dot_rhs_grad", "", buildGroupedDotRhsGrad});
  cases.push_back({"convolution_input_grad", "", buildTransposedConvolution});
  cases.push_back({"cumulative", "sum", buildCumulative});
  cases.push_back({"top_k", "", buildTopK});
  cases.push_back({"broadcast", "", buildBroadcast});
  cases.push_back({"reshape", "", buildReshape});
  cases.push_back({"transpose", "", buildTranspose});
  cases.push_back({"slice", "", buildSlice});
  cases.push_back({"pad", "", buildPad});
  cases.push_back({"concat", "", buildConcat});
  cases.push_back({"dynamic_slice", "", buildDynamicSlice});
  cases.push_back({"gather", "", buildGather});
  cases.push_back({"gather_elements", "", buildGatherElements});
  return cases;
}
