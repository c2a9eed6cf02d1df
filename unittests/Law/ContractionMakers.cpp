// SPDX-License-Identifier: Apache-2.0
// Products and convolutions.
#include "Drawer.h"

using namespace autopar_law;

namespace {

struct DrawnProduct {
  DrawnValue x, w;
  DotGeneralOp op;

  DrawnValue sum(Drawer &d, bool exact) {
    int64_t k = d.typeOf(x).getShape().back();
    return d.exactly(op, x.bound * w.bound * k, x.fractionBits + w.fractionBits, exact);
  }
};

DrawnProduct drawProduct(Drawer &d, bool exact) {
  DrawnValue x = d.floats(2, exact, 3);
  RankedTensorType lhs = d.typeOf(x);
  int64_t k = lhs.getShape().back(), n = d.extent();
  bool batched = lhs.getRank() == 3 && d.below(2);
  DrawnValue w = d.argument(batched ? SmallVector<int64_t>{lhs.getDimSize(0), k, n}
                                    : SmallVector<int64_t>{k, n},
                            lhs.getElementType());
  SmallVector<int64_t> batch = batched ? SmallVector<int64_t>{0} : SmallVector<int64_t>{};
  return {x, w,
          DotGeneralOp::create(d.builder, d.loc, x.value, w.value, batch, batch,
                               SmallVector<int64_t>{lhs.getRank() - 1},
                               SmallVector<int64_t>{batched ? 1 : 0})};
}

std::optional<DrawnValue> makeDotGeneral(Drawer &d) {
  DrawnProduct product = drawProduct(d, false);
  return product.sum(d, product.x.exact);
}

/// Factors of four bits are what they are, others are rounded to that many, alike under all plans.
std::optional<DrawnValue> makeScaledProduct(Drawer &d) {
  DrawnProduct product = drawProduct(d, true);
  product.op.setScaledTo(d.builder.getType<Float8E4M3FNType>());
  return product.sum(d, std::ldexp(product.x.bound, product.x.fractionBits) <= 16);
}

/// Few rows by weights of bytes, which are enough to be multiplied by a kernel that makes them.
std::optional<DrawnValue> makeProductOfFewRows(Drawer &d) {
  int64_t rows = 1 + d.below(4), k = 64 * (1 + d.below(2)), n = 72, along = d.below(2);
  DrawnValue x = d.argument({rows, k}, d.f32());
  DrawnValue bytes = d.argument(along ? SmallVector<int64_t>{n, k} : SmallVector<int64_t>{k, n},
                                d.builder.getI8Type());
  Value weights = CastOp::create(d.builder, d.loc, d.typeOf(bytes).clone(d.f32()), bytes.value);
  Value dot = DotGeneralOp::create(d.builder, d.loc, x.value, weights, SmallVector<int64_t>{},
                                   SmallVector<int64_t>{}, SmallVector<int64_t>{1},
                                   SmallVector<int64_t>{along});
  return d.exactly(dot, x.bound * bytes.bound * k, x.fractionBits);
}

/// Rows that meet a matrix of their own each, as a token meets its caches: kernels on a GPU.
std::optional<DrawnValue> makeProductOfSingleRows(Drawer &d) {
  int64_t batch = d.extent(), heads = d.extent(), k = d.extent(), n = d.extent(),
          along = d.below(2);
  DrawnValue x = d.argument({batch, heads, 1, k}, d.f32()),
             w = d.argument(along ? SmallVector<int64_t>{batch, heads, n, k}
                                  : SmallVector<int64_t>{batch, heads, k, n},
                            d.f32());
  SmallVector<int64_t> dims{0, 1};
  Value dot = DotGeneralOp::create(d.builder, d.loc, x.value, w.value, dims, dims,
                                   SmallVector<int64_t>{3}, SmallVector<int64_t>{along ? 3 : 2});
  return d.exactly(dot, x.bound * w.bound * k, x.fractionBits + w.fractionBits);
}

/// Steps that multiply their state by one weight, often enough that it is packed, and of so few
/// rows that its gradient is a product of stacks. All states, one behind the other, are read too.
std::optional<DrawnValue> makeRecurrence(Drawer &d) {
  int64_t steps = 8 + d.below(12), rows = 1 + d.below(3), n = 8 + 4 * d.below(2);
  DrawnValue x = d.argument({steps, rows, n}, d.f32()), w = d.argument({n, n}, d.f32());
  RankedTensorType given = d.type({1, rows, n}, d.f32()), state = d.type({rows, n}, d.f32());
  auto reshaped = [&](Value value, RankedTensorType type) -> Value {
    return ReshapeOp::create(d.builder, d.loc, type, value);
  };
  Value weight = d.binary(BinaryKind::Mul, w.value, d.splat(d.typeOf(w), 0.125)), last;
  SmallVector<Value> states;
  for (int64_t step = 0; step < steps; ++step) {
    Value from =
        reshaped(SliceOp::create(d.builder, d.loc, given, x.value, SmallVector<int64_t>{step, 0, 0},
                                 SmallVector<int64_t>{1, 1, 1}),
                 state);
    if (last)
      from = d.binary(BinaryKind::Add,
                      DotGeneralOp::create(d.builder, d.loc, last, weight, SmallVector<int64_t>{},
                                           SmallVector<int64_t>{}, SmallVector<int64_t>{1},
                                           SmallVector<int64_t>{0}),
                      from);
    last = d.unary(UnaryKind::Tanh, from);
    states.push_back(reshaped(last, given));
  }
  d.pool.push_back(d.inexactly(ConcatOp::create(d.builder, d.loc, d.typeOf(x), states, 0), 1));
  return d.inexactly(last, 1);
}

/// What a CPU rounds in blocks of which each device has whole ones; few rows or more, of which one
/// kernel or another multiplies the bytes, and columns that none of them takes. The numbers that
/// are rounded are an argument, alike under all plans.
std::optional<DrawnValue> makeProductOfBlocks(Drawer &d) {
  int64_t rows = 1 + d.below(9), block = 32, blocks = 4 * (1 + d.below(2)),
          n = d.below(2) ? 72 : 96;
  DrawnValue x = d.argument({rows, blocks * block}, d.f32());
  DrawnValue bytes = d.argument({n, blocks, block},
                                IntegerType::get(d.builder.getContext(), 8, IntegerType::Unsigned));
  DrawnValue scales = d.argument({n, blocks}, d.f32());
  RankedTensorType type = d.typeOf(bytes).clone(d.f32());
  Value numbers = CastOp::create(d.builder, d.loc, type, bytes.value);
  Value repeated =
      BroadcastOp::create(d.builder, d.loc, type, scales.value, SmallVector<int64_t>{0, 1});
  Value weights = ReshapeOp::create(d.builder, d.loc, type.clone({n, blocks * block}),
                                    d.binary(BinaryKind::Mul, numbers, repeated));
  auto dot = DotGeneralOp::create(d.builder, d.loc, x.value, weights, SmallVector<int64_t>{},
                                  SmallVector<int64_t>{}, SmallVector<int64_t>{1},
                                  SmallVector<int64_t>{1});
  dot.setByteBlocks(block);
  return d.inexactly(dot, x.bound * bytes.bound * scales.bound * blocks * block);
}

/// An argument of bytes less a zero point, in i32: one number, or one per place along `dim`.
DrawnValue drawBytes(Drawer &d, ArrayRef<int64_t> shape, int64_t dim) {
  Type element = d.builder.getIntegerType(8);
  if (d.below(2))
    element = IntegerType::get(d.builder.getContext(), 8, IntegerType::Unsigned);
  auto widened = [&](const DrawnValue &bytes) -> Value {
    return CastOp::create(d.builder, d.loc, d.typeOf(bytes).clone(d.builder.getI32Type()),
                          bytes.value);
  };
  DrawnValue bytes = d.argument(shape, element);
  Value wide = widened(bytes);
  int64_t kind = d.below(3);
  if (kind == 2)
    return {wide, true, bytes.bound, 0};
  SmallVector<int64_t> dims;
  if (kind == 1)
    dims.push_back(dim);
  SmallVector<int64_t> extents;
  for (int64_t along : dims)
    extents.push_back(shape[along]);
  Value zeros = BroadcastOp::create(d.builder, d.loc, wide.getType(),
                                    widened(d.argument(extents, element)), dims);
  return {d.binary(BinaryKind::Sub, wide, zeros), true, 2 * bytes.bound, 0};
}

std::optional<DrawnValue> makeProductOfBytes(Drawer &d) {
  int64_t batch = d.below(3), rows = d.extent(), k = d.extent() * 3, n = d.extent();
  SmallVector<int64_t> dims;
  if (batch > 0)
    dims.push_back(0);
  auto shape = [&](int64_t first, int64_t second) {
    return batch > 0 ? SmallVector<int64_t>{batch, first, second}
                     : SmallVector<int64_t>{first, second};
  };
  int64_t first = dims.size();
  DrawnValue x = drawBytes(d, shape(rows, k), first), w = drawBytes(d, shape(k, n), first + 1);
  Value dot = DotGeneralOp::create(d.builder, d.loc, x.value, w.value, dims, dims,
                                   SmallVector<int64_t>{first + 1}, SmallVector<int64_t>{first});
  Value floats =
      CastOp::create(d.builder, d.loc, cast<RankedTensorType>(dot.getType()).clone(d.f32()), dot);
  return d.exactly(floats, x.bound * w.bound * k, 0);
}

/// A convolution on new arguments.
struct DrawnConvolution {
  DrawnValue x, w;
  ConvolutionOp op;
};

DrawnConvolution drawConvolution(Drawer &d) {
  int64_t groups = 1 + d.below(2) * 3; // 1 or 4
  // Of 16 channels some plans leave whole blocks, in which the library keeps them.
  auto extent = [&] { return d.below(3) ? d.extent() : 16; };
  int64_t channels = groups == 1 ? extent() : 4 * (1 + d.below(2)),
          out = groups == 1 ? extent() : 4 * (1 + d.below(3));
  int64_t side = 5 + d.below(3), kernel = 1 + 2 * d.below(2), stride = 1 + d.below(2),
          pad = kernel / 2;
  DrawnValue x = d.argument({d.extent(), channels, side, side}, d.f32());
  DrawnValue w = d.argument({out, channels / groups, kernel, kernel}, d.f32());
  int64_t result = (side + 2 * pad - kernel) / stride + 1;
  auto list = [&](int64_t value) { return d.builder.getDenseI64ArrayAttr({value, value}); };
  auto resultType = d.type({d.typeOf(x).getDimSize(0), out, result, result}, d.f32());
  auto op =
      ConvolutionOp::create(d.builder, d.loc, resultType, x.value, w.value, list(stride), list(pad),
                            list(pad), list(1), list(1), d.builder.getI64IntegerAttr(groups));
  return {x, w, op};
}

std::optional<DrawnValue> makeConvolution(Drawer &d) {
  auto [x, w, op] = drawConvolution(d);
  int64_t terms =
      op.getFilter().getType().getNumElements() / op.getFilter().getType().getDimSize(0);
  return d.exactly(op, x.bound * w.bound * terms, x.fractionBits + w.fractionBits);
}

/// `terms`: how many products an element of the result sums at most.
template <typename Op>
std::optional<DrawnValue> makeGradient(Drawer &d, ConvolutionOp of, const DrawnValue &sought,
                                       const DrawnValue &other, bool isFirst, int64_t terms) {
  DrawnValue g = d.argument(of.getType().getShape(), d.f32());
  Value gradient =
      Op::create(d.builder, d.loc, sought.value.getType(), isFirst ? g.value : other.value,
                 isFirst ? other.value : g.value, of.getStridesAttr(), of.getPadBeginAttr(),
                 of.getPadEndAttr(), of.getInputDilationAttr(), of.getFilterDilationAttr(),
                 of.getGroupsAttr());
  of.erase();
  return d.exactly(gradient, g.bound * other.bound * terms, g.fractionBits + other.fractionBits);
}

std::optional<DrawnValue> makeConvolutionInputGrad(Drawer &d) {
  auto [x, w, op] = drawConvolution(d);
  RankedTensorType filter = op.getFilter().getType();
  return makeGradient<ConvolutionInputGradOp>(d, op, x, w, true,
                                              filter.getNumElements() / filter.getDimSize(1));
}

std::optional<DrawnValue> makeConvolutionFilterGrad(Drawer &d) {
  auto [x, w, op] = drawConvolution(d);
  RankedTensorType result = op.getType();
  return makeGradient<ConvolutionFilterGradOp>(d, op, w, x, false,
                                               result.getNumElements() / result.getDimSize(1));
}

/// Rows on new arguments, few or many, of which some are of no group; all at once or in parts, now
/// and then of eights of elements, as kernels of GPUs want them.
struct DrawnRows {
  SmallVector<int64_t> shape;
  int64_t depth, columns, parts, groups;
  bool inParts;
  Value group;

  explicit DrawnRows(Drawer &d)
      : shape(d.shape(1 + d.below(2))), depth(d.extent()), columns(d.extent()), parts(1),
        groups(2 + d.below(4)), inParts(d.below(2)) {
    if (inParts)
      groups = (parts = 1 + d.below(4)) * (1 + d.below(3));
    if (d.below(3) == 0)
      depth *= 8, columns *= 8;
    Value numbers = d.indices(shape, groups + 1);
    group = d.binary(BinaryKind::Sub, numbers,
                     d.splat(cast<RankedTensorType>(numbers.getType()), d.below(2)));
  }
  SmallVector<int64_t> shapeOf(int64_t extent) const {
    SmallVector<int64_t> all(shape);
    if (inParts)
      all.insert(all.begin(), parts);
    all.push_back(extent);
    return all;
  }
  DrawnValue rows(Drawer &d, int64_t extent) const { return d.argument(shapeOf(extent), d.f32()); }
};

std::optional<DrawnValue> makeGroupedDot(Drawer &d) {
  DrawnRows drawn(d);
  bool transposed = d.below(2);
  DrawnValue x = drawn.rows(d, drawn.depth);
  SmallVector<int64_t> matrices{drawn.groups, drawn.depth, drawn.columns};
  if (transposed)
    std::swap(matrices[1], matrices[2]);
  DrawnValue w = d.argument(matrices, d.f32());
  Value dot =
      GroupedDotOp::create(d.builder, d.loc, d.type(drawn.shapeOf(drawn.columns), d.f32()), x.value,
                           w.value, drawn.group, transposed, IntegerAttr(), drawn.inParts);
  return d.exactly(dot, x.bound * w.bound * drawn.depth, x.fractionBits + w.fractionBits);
}

/// By matrices that the step makes of bytes, with a scale for each few of them: CPUs make them part
/// by part.
std::optional<DrawnValue> makeGroupedDotOfBytes(Drawer &d) {
  DrawnRows drawn(d);
  bool transposed = d.below(2);
  int64_t blocks = 1 + d.below(3), block = 4 * (1 + d.below(4));
  drawn.depth = blocks * block;
  DrawnValue x = drawn.rows(d, drawn.depth);
  SmallVector<int64_t> shape{drawn.groups, drawn.columns, blocks, block};
  DrawnValue w = drawBytes(d, shape, 1);
  DrawnValue scales = d.argument(ArrayRef(shape).drop_back(), d.f32());
  RankedTensorType inBlocks = d.type(shape, d.f32());
  Value repeated =
      BroadcastOp::create(d.builder, d.loc, inBlocks, scales.value, ArrayRef<int64_t>{0, 1, 2});
  Value matrices =
      d.binary(BinaryKind::Mul, CastOp::create(d.builder, d.loc, inBlocks, w.value), repeated);
  SmallVector<int64_t> flat{drawn.groups, drawn.columns, drawn.depth};
  matrices = ReshapeOp::create(d.builder, d.loc, d.type(flat, d.f32()), matrices);
  if (!transposed)
    matrices = TransposeOp::create(d.builder, d.loc, matrices, ArrayRef<int64_t>{0, 2, 1});
  Value dot =
      GroupedDotOp::create(d.builder, d.loc, d.type(drawn.shapeOf(drawn.columns), d.f32()), x.value,
                           matrices, drawn.group, transposed, IntegerAttr(), drawn.inParts);
  return d.exactly(dot, x.bound * w.bound * scales.bound * drawn.depth,
                   x.fractionBits + w.fractionBits + scales.fractionBits);
}

std::optional<DrawnValue> makeGroupedDotRhsGrad(Drawer &d) {
  DrawnRows drawn(d);
  DrawnValue x = drawn.rows(d, drawn.depth), g = drawn.rows(d, drawn.columns);
  RankedTensorType type = d.type({drawn.groups, drawn.depth, drawn.columns}, d.f32());
  Value gradient = GroupedDotRhsGradOp::create(d.builder, d.loc, type, x.value, g.value,
                                               drawn.group, IntegerAttr(), drawn.inParts);
  return d.exactly(gradient, x.bound * g.bound * llvm::product_of(drawn.shape),
                   x.fractionBits + g.fractionBits);
}

constexpr MakerRow makers[] = {{"dot_general", makeDotGeneral},
                               {"dot_general", makeProductOfFewRows},
                               {"dot_general", makeProductOfSingleRows},
                               {"dot_general", makeRecurrence},
                               {"dot_general", makeProductOfBlocks},
                               {"dot_general", makeProductOfBytes},
                               {"dot_general", makeScaledProduct},
                               {"convolution", makeConvolution},
                               {"convolution_input_grad", makeConvolutionInputGrad},
                               {"convolution_filter_grad", makeConvolutionFilterGrad},
                               {"grouped_dot", makeGroupedDot},
                               {"grouped_dot", makeGroupedDotOfBytes},
                               {"grouped_dot_rhs_grad", makeGroupedDotRhsGrad}};

} // namespace

ArrayRef<MakerRow> autopar_law::contractionMakers() { return makers; }
