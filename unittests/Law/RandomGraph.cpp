// SPDX-License-Identifier: Apache-2.0
// The makers: see the header.
#include "RandomGraph.h"

using namespace mlir;
using namespace mlir::autopar;
using namespace autopar_law;

namespace {

class Drawer {
public:
  Drawer(MLIRContext &context, uint64_t seed) : builder(&context), random(seed) {
    loc = builder.getUnknownLoc();
  }

  OpBuilder builder;
  Location loc = UnknownLoc::get(builder.getContext());
  std::mt19937_64 random;
  SmallVector<DrawnValue> pool;
  func::FuncOp function;

  int64_t below(int64_t count) { return static_cast<int64_t>(random() % count); }
  int64_t extent() {
    static constexpr int64_t extents[] = {2, 3, 4, 4, 5, 6, 7, 8, 8, 12};
    return extents[below(10)];
  }
  SmallVector<int64_t> shape(int64_t rank) {
    SmallVector<int64_t> extents;
    for (int64_t i = 0; i < rank; ++i)
      extents.push_back(extent());
    return extents;
  }
  Type f32() { return builder.getF32Type(); }
  RankedTensorType type(ArrayRef<int64_t> extents, Type element) {
    return RankedTensorType::get(extents, element);
  }

  /// A new function argument.
  DrawnValue argument(ArrayRef<int64_t> extents, Type element) {
    unsigned index = function.getNumArguments();
    auto argumentType = type(extents, element);
    (void)function.insertArgument(index, argumentType, DictionaryAttr(), loc);
    function.setArgAttr(index, "autopar.name", builder.getStringAttr("x" + std::to_string(index)));
    bool integer = isa<IntegerType>(element);
    return {function.getArgument(index), true, 4, integer ? 0 : 2};
  }

  /// A float value of at least `minRank` dimensions: from the pool, or a new argument.
  DrawnValue floats(int64_t minRank = 1, bool exact = false, int64_t maxRank = 4) {
    for (int attempt = 0; attempt < 4 && !pool.empty(); ++attempt) {
      DrawnValue drawn = pool[below(pool.size())];
      auto drawnType = cast<RankedTensorType>(drawn.value.getType());
      if (isa<FloatType>(drawnType.getElementType()) && drawnType.getRank() >= minRank &&
          drawnType.getRank() <= maxRank && (drawn.exact || !exact) && drawn.bound < 1e4)
        return drawn;
    }
    return argument(shape(minRank + below(std::min<int64_t>(2, maxRank - minRank + 1))), f32());
  }

  static RankedTensorType typeOf(const DrawnValue &drawn) {
    return cast<RankedTensorType>(drawn.value.getType());
  }

  /// Marks a result as no longer exact where its numbers need too many bits.
  DrawnValue exactly(Value value, double bound, int fractionBits, bool exact = true) {
    bool fits = std::ldexp(bound, fractionBits) < 4e6;
    return {value, exact && fits, bound, fractionBits};
  }
  DrawnValue inexactly(Value value, double bound) { return {value, false, bound, 0}; }

  Value scalar(TypedAttr value) {
    return ConstantOp::create(builder, loc,
                              DenseElementsAttr::get(type({}, value.getType()), value));
  }
  Value splat(RankedTensorType of, double value) {
    TypedAttr attr =
        isa<FloatType>(of.getElementType())
            ? TypedAttr(builder.getFloatAttr(of.getElementType(), value))
            : TypedAttr(builder.getIntegerAttr(of.getElementType(), static_cast<int64_t>(value)));
    return BroadcastOp::create(builder, loc, of, scalar(attr), ArrayRef<int64_t>{});
  }
  Value unary(UnaryKind kind, Value value) {
    return UnaryOp::create(builder, loc, value.getType(), kind, value);
  }
  Value binary(BinaryKind kind, Value a, Value b) {
    return BinaryOp::create(builder, loc, a.getType(), kind, a, b);
  }

  /// Indices in [0, extent) of the given shape: an i64 argument taken modulo the extent.
  Value indices(ArrayRef<int64_t> extents, int64_t extent) {
    DrawnValue raw = argument(extents, builder.getI64Type());
    auto indexType = typeOf(raw);
    return binary(BinaryKind::Modulo, raw.value, splat(indexType, extent));
  }
  /// Distinct positions along the first dimension of [count, 1]: reversed iota with an offset.
  Value distinctIndices(int64_t count, int64_t extent) {
    auto lineType = type({count, 1}, builder.getI64Type());
    Value position = IotaOp::create(builder, loc, lineType, 0);
    Value shifted = binary(BinaryKind::Add, position, splat(lineType, below(extent)));
    return binary(BinaryKind::Modulo, shifted, splat(lineType, extent));
  }
};

using Maker = std::optional<DrawnValue> (*)(Drawer &);
struct MakerRow {
  StringLiteral name;
  Maker make;
};

//===-- Elementwise
//-------------------------------------------------------------------------------===//

std::optional<DrawnValue> makeUnary(Drawer &d) {
  static constexpr UnaryKind smooth[] = {UnaryKind::Sin,      UnaryKind::Cos,     UnaryKind::Tanh,
                                         UnaryKind::Erf,      UnaryKind::Sigmoid, UnaryKind::Gelu,
                                         UnaryKind::GeluTanh, UnaryKind::Silu,    UnaryKind::Atan};
  static constexpr UnaryKind exact[] = {UnaryKind::Neg, UnaryKind::Abs, UnaryKind::Relu};
  DrawnValue x = d.floats();
  if (d.below(2))
    return d.inexactly(d.unary(smooth[d.below(std::size(smooth))], x.value),
                       std::max(1.6, x.bound));
  return d.exactly(d.unary(exact[d.below(std::size(exact))], x.value), x.bound, x.fractionBits,
                   x.exact);
}

std::optional<DrawnValue> makeBinary(Drawer &d) {
  DrawnValue a = d.floats();
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  switch (d.below(4)) {
  case 0:
    return d.exactly(d.binary(BinaryKind::Add, a.value, b.value), a.bound + b.bound,
                     std::max(a.fractionBits, b.fractionBits), a.exact);
  case 1:
    return d.exactly(d.binary(BinaryKind::Mul, a.value, b.value), a.bound * b.bound,
                     a.fractionBits + b.fractionBits, a.exact);
  case 2:
    return d.exactly(d.binary(BinaryKind::Max, a.value, b.value), std::max(a.bound, b.bound),
                     std::max(a.fractionBits, b.fractionBits), a.exact);
  default: {
    Value divisor =
        d.binary(BinaryKind::Add, d.unary(UnaryKind::Abs, b.value), d.splat(d.typeOf(b), 1));
    return d.inexactly(d.binary(BinaryKind::Div, a.value, divisor), a.bound);
  }
  }
}

std::optional<DrawnValue> makeCompare(Drawer &d) {
  DrawnValue a = d.floats(1, true);
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  auto maskType = d.typeOf(a).clone(d.builder.getI1Type());
  Value mask = CompareOp::create(d.builder, d.loc, maskType,
                                 static_cast<ComparePredicate>(d.below(6)), a.value, b.value);
  return DrawnValue{mask, true, 1, 0};
}

std::optional<DrawnValue> makeSelect(Drawer &d) {
  DrawnValue a = d.floats(1);
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  DrawnValue c = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  Value mask = CompareOp::create(d.builder, d.loc, d.typeOf(b).clone(d.builder.getI1Type()),
                                 ComparePredicate::Lt, b.value, c.value);
  Value picked = SelectOp::create(d.builder, d.loc, mask, a.value, b.value);
  return d.exactly(picked, std::max(a.bound, b.bound), std::max(a.fractionBits, b.fractionBits),
                   a.exact);
}

std::optional<DrawnValue> makeCast(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(3)), d.builder.getI32Type());
  Value cast = CastOp::create(d.builder, d.loc, d.typeOf(x).clone(d.f32()), x.value);
  return d.exactly(cast, x.bound, 0);
}

//===-- Contractions
//------------------------------------------------------------------------------===//

std::optional<DrawnValue> makeDotGeneral(Drawer &d) {
  DrawnValue x = d.floats(2, false, 3);
  RankedTensorType lhs = d.typeOf(x);
  int64_t k = lhs.getShape().back(), n = d.extent();
  bool batched = lhs.getRank() == 3 && d.below(2);
  DrawnValue w = d.argument(batched ? SmallVector<int64_t>{lhs.getDimSize(0), k, n}
                                    : SmallVector<int64_t>{k, n},
                            lhs.getElementType());
  SmallVector<int64_t> batch = batched ? SmallVector<int64_t>{0} : SmallVector<int64_t>{};
  Value dot = DotGeneralOp::create(d.builder, d.loc, x.value, w.value, batch, batch,
                                   SmallVector<int64_t>{lhs.getRank() - 1},
                                   SmallVector<int64_t>{batched ? 1 : 0});
  return d.exactly(dot, x.bound * w.bound * k, x.fractionBits + w.fractionBits, x.exact);
}

std::optional<DrawnValue> makeConvolution(Drawer &d) {
  int64_t groups = 1 + d.below(2) * 3; // 1 or 4
  int64_t channels = groups == 1 ? d.extent() : 4 * (1 + d.below(2)),
          out = groups == 1 ? d.extent() : 4 * (1 + d.below(3));
  int64_t side = 5 + d.below(3), kernel = 1 + 2 * d.below(2), stride = 1 + d.below(2),
          pad = kernel / 2;
  DrawnValue x = d.argument({d.extent(), channels, side, side}, d.f32());
  DrawnValue w = d.argument({out, channels / groups, kernel, kernel}, d.f32());
  int64_t result = (side + 2 * pad - kernel) / stride + 1;
  auto list = [&](int64_t value) { return d.builder.getDenseI64ArrayAttr({value, value}); };
  auto resultType = d.type({d.typeOf(x).getDimSize(0), out, result, result}, d.f32());
  Value conv =
      ConvolutionOp::create(d.builder, d.loc, resultType, x.value, w.value, list(stride), list(pad),
                            list(pad), list(1), list(1), d.builder.getI64IntegerAttr(groups));
  return d.exactly(conv, x.bound * w.bound * (channels / groups) * kernel * kernel,
                   x.fractionBits + w.fractionBits);
}

//===-- Reductions
//--------------------------------------------------------------------------------===//

std::optional<DrawnValue> makeReduce(Drawer &d) {
  static constexpr ReduceKind kinds[] = {ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min,
                                         ReduceKind::Sum};
  DrawnValue x = d.floats(2);
  int64_t dim = d.below(d.typeOf(x).getRank());
  ReduceKind kind = kinds[d.below(4)];
  double bound = kind == ReduceKind::Sum ? x.bound * d.typeOf(x).getDimSize(dim) : x.bound;
  return d.exactly(ReduceOp::create(d.builder, d.loc, kind, x.value, ArrayRef<int64_t>{dim}), bound,
                   x.fractionBits, x.exact);
}

std::optional<DrawnValue> makeReduceLogical(Drawer &d) {
  std::optional<DrawnValue> mask = makeCompare(d);
  if (d.typeOf(*mask).getRank() < 2)
    return std::nullopt;
  ReduceKind kind = d.below(2) ? ReduceKind::And : ReduceKind::Or;
  return DrawnValue{ReduceOp::create(d.builder, d.loc, kind, mask->value,
                                     ArrayRef<int64_t>{d.below(d.typeOf(*mask).getRank())}),
                    true, 1, 0};
}

std::optional<DrawnValue> makeArgReduce(Drawer &d) {
  DrawnValue x = d.floats(2, true);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  shape.erase(shape.begin() + dim);
  Value index = ArgReduceOp::create(d.builder, d.loc, d.type(shape, d.builder.getI64Type()),
                                    d.below(2) ? ReduceKind::Max : ReduceKind::Min, x.value, dim,
                                    d.below(2) == 1);
  return DrawnValue{index, true, 16, 0};
}

SmallVector<int64_t> pooledShape(RankedTensorType type, int64_t window, int64_t stride,
                                 int64_t pad) {
  SmallVector<int64_t> shape(type.getShape());
  for (int64_t dim = 2; dim < type.getRank(); ++dim)
    shape[dim] = (shape[dim] + 2 * pad - window) / stride + 1;
  return shape;
}

struct PoolAttributes {
  DenseI64ArrayAttr window, strides, pads, ones;
  RankedTensorType result;
};

PoolAttributes drawPool(Drawer &d, RankedTensorType type, Type element) {
  int64_t window = 2 + d.below(2), stride = 1 + d.below(2), pad = d.below(2);
  auto list = [&](int64_t head, int64_t tail) {
    return d.builder.getDenseI64ArrayAttr({head, head, tail, tail});
  };
  return {list(1, window), list(1, stride), list(0, pad), list(1, 1),
          d.type(pooledShape(type, window, stride, pad), element)};
}

std::optional<DrawnValue> makePool(Drawer &d) {
  DrawnValue x = d.argument({d.extent(), d.extent(), 6, 6}, d.f32());
  PoolAttributes pool = drawPool(d, d.typeOf(x), d.f32());
  bool sum = d.below(2);
  Value result =
      PoolOp::create(d.builder, d.loc, pool.result, sum ? ReduceKind::Sum : ReduceKind::Max,
                     x.value, pool.window, pool.strides, pool.pads, pool.pads, pool.ones);
  // Windows that lie in the padding alone hold -inf; keep numbers.
  if (!sum)
    result = d.binary(BinaryKind::Max, result, d.splat(pool.result, -8));
  return d.exactly(result, 8 + x.bound * 9, x.fractionBits);
}

std::optional<DrawnValue> makeArgPool(Drawer &d) {
  DrawnValue x = d.argument({d.extent(), d.extent(), 6, 6}, d.f32());
  PoolAttributes pool = drawPool(d, d.typeOf(x), d.builder.getI64Type());
  Value result = ArgPoolOp::create(d.builder, d.loc, pool.result, x.value, pool.window,
                                   pool.strides, pool.pads, pool.pads, pool.ones, false);
  return DrawnValue{result, true, 1e5, 0};
}

std::optional<DrawnValue> makeCumulative(Drawer &d) {
  DrawnValue x = d.floats(1);
  int64_t dim = d.below(d.typeOf(x).getRank());
  Value result = CumulativeOp::create(d.builder, d.loc, x.value.getType(), ReduceKind::Sum, x.value,
                                      dim, d.below(2) == 1, d.below(2) == 1);
  return d.exactly(result, x.bound * d.typeOf(x).getDimSize(dim), x.fractionBits, x.exact);
}

std::optional<DrawnValue> makeSoftmax(Drawer &d) {
  DrawnValue x = d.floats(2);
  bool log = d.below(3) == 0;
  Value result = SoftmaxOp::create(d.builder, d.loc, x.value.getType(), x.value,
                                   d.below(d.typeOf(x).getRank()), log);
  return d.inexactly(result, log ? 2 * x.bound + 4 : 1);
}

std::optional<DrawnValue> makeNormalize(Drawer &d) {
  DrawnValue x = d.argument(d.shape(2 + d.below(2)), d.f32());
  int64_t rank = d.typeOf(x).getRank(), first = 1 + d.below(rank - 1);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(first, rank));
  Value result = NormalizeOp::create(
      d.builder, d.loc, x.value.getType(), x.value, d.builder.getDenseI64ArrayAttr(dims),
      d.builder.getF64FloatAttr(1e-1), d.below(2) ? d.builder.getUnitAttr() : UnitAttr());
  return d.inexactly(result, 4);
}

std::optional<DrawnValue> makeTopK(Drawer &d) {
  DrawnValue x = d.floats(2, true);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank()), k = 1 + d.below(type.getDimSize(dim));
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = k;
  auto op = TopKOp::create(d.builder, d.loc, d.type(shape, type.getElementType()),
                           d.type(shape, d.builder.getI64Type()), x.value, dim, d.below(2) == 1);
  d.pool.push_back({op.getIndices(), true, 16, 0});
  return DrawnValue{op.getValues(), x.exact, x.bound, x.fractionBits};
}

//===-- Movement
//----------------------------------------------------------------------------------===//

std::optional<DrawnValue> makeBroadcast(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(2)), d.f32());
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), dims;
  int64_t position = d.below(shape.size() + 1);
  shape.insert(shape.begin() + position, d.extent());
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (i != position)
      dims.push_back(i);
  Value result = BroadcastOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value, dims);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeReshape(Drawer &d) {
  int64_t a = d.extent(), b = d.extent(), c = d.extent();
  bool split = d.below(2);
  SmallVector<int64_t> flat{a, b * c}, deep{a, b, c};
  if (d.below(4) == 0)
    flat = {a * b * c};
  DrawnValue x = d.argument(split ? flat : deep, d.f32());
  Value result = ReshapeOp::create(d.builder, d.loc, d.type(split ? deep : flat, d.f32()), x.value);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeTranspose(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> permutation = llvm::to_vector(llvm::seq<int64_t>(0, d.typeOf(x).getRank()));
  std::shuffle(permutation.begin(), permutation.end(), d.random);
  return DrawnValue{TransposeOp::create(d.builder, d.loc, x.value, permutation), x.exact, x.bound,
                    x.fractionBits};
}

std::optional<DrawnValue> makeSlice(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), starts(shape.size(), 0),
      steps(shape.size(), 1);
  int64_t dim = d.below(shape.size());
  if (d.below(2)) { // reversed
    starts[dim] = shape[dim] - 1;
    steps[dim] = -1;
  } else {
    starts[dim] = d.below(shape[dim]);
    shape[dim] = 1 + d.below(shape[dim] - starts[dim]);
  }
  Value result = SliceOp::create(d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()),
                                 x.value, starts, steps);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makePad(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape()), low(shape.size(), 0);
  int64_t dim = d.below(shape.size());
  low[dim] = d.below(3);
  shape[dim] += low[dim] + d.below(3);
  Value result = PadOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value,
                               d.scalar(d.builder.getF32FloatAttr(1.5)), low);
  return d.exactly(result, std::max(1.5, x.bound), std::max(1, x.fractionBits), x.exact);
}

std::optional<DrawnValue> makeConcat(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape());
  int64_t dim = d.below(shape.size());
  SmallVector<int64_t> other = shape;
  other[dim] = d.extent();
  DrawnValue y = d.argument(other, d.typeOf(x).getElementType());
  shape[dim] += other[dim];
  Value result = ConcatOp::create(d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()),
                                  ValueRange{x.value, y.value}, dim);
  return d.exactly(result, std::max(x.bound, y.bound), std::max(x.fractionBits, y.fractionBits),
                   x.exact);
}

std::optional<DrawnValue> makeDynamicSlice(Drawer &d) {
  DrawnValue x = d.floats(2);
  SmallVector<int64_t> shape(d.typeOf(x).getShape());
  SmallVector<Value> starts;
  for (int64_t &size : shape) {
    int64_t start = d.below(size);
    starts.push_back(d.scalar(d.builder.getI64IntegerAttr(start)));
    size = std::max<int64_t>(1, size - start);
  }
  Value result = DynamicSliceOp::create(
      d.builder, d.loc, d.type(shape, d.typeOf(x).getElementType()), x.value, starts);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeGather(Drawer &d) {
  DrawnValue x = d.floats(2, false, 3);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank()), count = d.extent();
  Value positions = d.indices({count, 1}, type.getDimSize(dim));
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = count;
  Value result =
      GatherOp::create(d.builder, d.loc, d.type(shape, type.getElementType()), x.value, positions,
                       d.builder.getDenseI64ArrayAttr({dim}), d.builder.getI64IntegerAttr(0));
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeGatherElements(Drawer &d) {
  DrawnValue x = d.floats(2);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = d.extent();
  Value positions = d.indices(shape, type.getDimSize(dim));
  Value result = GatherElementsOp::create(d.builder, d.loc, d.type(shape, type.getElementType()),
                                          x.value, positions, dim);
  return DrawnValue{result, x.exact, x.bound, x.fractionBits};
}

std::optional<DrawnValue> makeScatter(Drawer &d) {
  DrawnValue x = d.floats(2);
  RankedTensorType type = d.typeOf(x);
  int64_t count = 1 + d.below(type.getDimSize(0));
  SmallVector<int64_t> updates(type.getShape());
  updates[0] = count;
  DrawnValue u = d.argument(updates, type.getElementType());
  ScatterKind kind = d.below(2) ? ScatterKind::Add : ScatterKind::Assign;
  Value result = ScatterOp::create(d.builder, d.loc, type, kind, x.value,
                                   d.distinctIndices(count, type.getDimSize(0)), u.value);
  return d.exactly(result, x.bound + u.bound, std::max(x.fractionBits, u.fractionBits), x.exact);
}

std::optional<DrawnValue> makeScatterElements(Drawer &d) {
  DrawnValue x = d.floats(2, true);
  RankedTensorType type = d.typeOf(x);
  int64_t dim = d.below(type.getRank());
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = 1 + d.below(shape[dim]);
  Value positions = d.indices(shape, type.getDimSize(dim));
  DrawnValue u = d.argument(shape, type.getElementType());
  Value result = ScatterElementsOp::create(d.builder, d.loc, type, ScatterKind::Add, x.value,
                                           positions, u.value, dim);
  return d.exactly(result, x.bound + u.bound * shape[dim], std::max(x.fractionBits, u.fractionBits),
                   x.exact);
}

//===-- Generation
//--------------------------------------------------------------------------------===//

std::optional<DrawnValue> makeConstant(Drawer &d) {
  RankedTensorType type = d.type(d.shape(2), d.f32());
  SmallVector<float> values;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    values.push_back(0.25f * (d.below(33) - 16));
  Value constant =
      ConstantOp::create(d.builder, d.loc, DenseElementsAttr::get(type, ArrayRef<float>(values)));
  return DrawnValue{constant, true, 4, 2};
}

std::optional<DrawnValue> makeIota(Drawer &d) {
  RankedTensorType type = d.type(d.shape(1 + d.below(3)), d.f32());
  return DrawnValue{IotaOp::create(d.builder, d.loc, type, d.below(type.getRank())), true, 12, 0};
}

std::optional<DrawnValue> makeRandom(Drawer &d) {
  RankedTensorType type = d.type(d.shape(1 + d.below(3)), d.f32());
  SmallVector<Value> offsets;
  if (d.below(2)) { // a step whose number is known at run time only
    offsets.assign(type.getRank(), d.scalar(d.builder.getI64IntegerAttr(0)));
    offsets[0] = d.argument({}, d.builder.getI64Type()).value;
  }
  Value drawn = RandomOp::create(d.builder, d.loc, type, RandomKind::Uniform, offsets,
                                 d.below(1000), d.below(1000), type.getShape());
  return d.inexactly(drawn, 1);
}

/// Behind a sum, which may leave a partial value to hold.
std::optional<DrawnValue> makeHold(Drawer &d) {
  std::optional<DrawnValue> x = makeReduce(d);
  if (!x)
    return x;
  bool unreduced = isa<FloatType>(d.typeOf(*x).getElementType());
  x->value = HoldOp::create(d.builder, d.loc, x->value.getType(), unreduced, x->value);
  return x;
}

//===-- Micro-batches
//-----------------------------------------------------------------------------===//

/// All graphs have as many.
constexpr int64_t microBatches = 2;

DrawnValue microBatch(Drawer &d) {
  SmallVector<int64_t> shape = d.shape(1 + d.below(2)), all{microBatches};
  llvm::append_range(all, shape);
  DrawnValue x = d.argument(all, d.f32());
  return {MicroBatchOp::create(d.builder, d.loc, d.type(shape, d.f32()), x.value), true, x.bound,
          x.fractionBits};
}

DrawnValue stack(Drawer &d, const DrawnValue &part) {
  SmallVector<int64_t> all{microBatches};
  llvm::append_range(all, d.typeOf(part).getShape());
  Value result = StackMicroBatchesOp::create(d.builder, d.loc, d.type(all, d.f32()), part.value);
  return {result, part.exact, part.bound, part.fractionBits};
}

/// Some combined over all micro-batches, of which the first may be a partial value on a mesh.
DrawnValue accumulate(Drawer &d, DrawnValue x) {
  static constexpr ReduceKind kinds[] = {ReduceKind::Sum, ReduceKind::Sum, ReduceKind::Max};
  if (d.below(2)) {
    double extent = d.typeOf(x).getDimSize(0);
    x = d.exactly(
        ReduceOp::create(d.builder, d.loc, ReduceKind::Sum, x.value, ArrayRef<int64_t>{0}),
        x.bound * extent, x.fractionBits);
  }
  Value result =
      AccumulateOp::create(d.builder, d.loc, x.value.getType(), kinds[d.below(3)], x.value);
  return d.exactly(result, x.bound * microBatches, x.fractionBits, x.exact);
}

std::optional<DrawnValue> makeMicroBatch(Drawer &d) {
  return d.below(2) ? stack(d, microBatch(d)) : accumulate(d, microBatch(d));
}

std::optional<DrawnValue> makeMicroBatchIndex(Drawer &d) {
  Value number = MicroBatchIndexOp::create(d.builder, d.loc, d.type({}, d.builder.getI64Type()));
  Value line = BroadcastOp::create(d.builder, d.loc, d.type({d.extent()}, d.f32()),
                                   CastOp::create(d.builder, d.loc, d.type({}, d.f32()), number),
                                   ArrayRef<int64_t>{});
  return stack(d, {line, true, microBatches, 0});
}

std::optional<DrawnValue> makeAccumulate(Drawer &d) { return accumulate(d, microBatch(d)); }
std::optional<DrawnValue> makeStack(Drawer &d) { return stack(d, microBatch(d)); }

constexpr MakerRow makers[] = {{"unary", makeUnary},
                               {"binary", makeBinary},
                               {"compare", makeCompare},
                               {"select", makeSelect},
                               {"cast", makeCast},
                               {"dot_general", makeDotGeneral},
                               {"convolution", makeConvolution},
                               {"reduce", makeReduce},
                               {"reduce", makeReduceLogical},
                               {"arg_reduce", makeArgReduce},
                               {"pool", makePool},
                               {"arg_pool", makeArgPool},
                               {"cumulative", makeCumulative},
                               {"softmax", makeSoftmax},
                               {"normalize", makeNormalize},
                               {"top_k", makeTopK},
                               {"broadcast", makeBroadcast},
                               {"reshape", makeReshape},
                               {"transpose", makeTranspose},
                               {"slice", makeSlice},
                               {"pad", makePad},
                               {"concat", makeConcat},
                               {"dynamic_slice", makeDynamicSlice},
                               {"gather", makeGather},
                               {"gather_elements", makeGatherElements},
                               {"scatter", makeScatter},
                               {"scatter_elements", makeScatterElements},
                               {"constant", makeConstant},
                               {"iota", makeIota},
                               {"random", makeRandom},
                               {"hold", makeHold},
                               {"micro_batch", makeMicroBatch},
                               {"micro_batch_index", makeMicroBatchIndex},
                               {"accumulate", makeAccumulate},
                               {"stack_micro_batches", makeStack}};

/// Something elementwise on the result, so that its user can ask for any sharding of it.
Value use(Drawer &d, const DrawnValue &drawn) {
  auto type = d.typeOf(drawn);
  if (type.getElementType().isInteger(1))
    return d.unary(UnaryKind::Not, drawn.value);
  return d.unary(UnaryKind::Neg, drawn.value);
}

} // namespace

std::vector<std::string> autopar_law::makerNames() {
  std::vector<std::string> names;
  for (const MakerRow &row : makers)
    if (names.empty() || names.back() != row.name)
      names.push_back(row.name.str());
  return names;
}

DrawnModule autopar_law::drawModule(MLIRContext &context, uint64_t seed, StringRef target,
                                    int size) {
  context.loadDialect<AutoParDialect, func::FuncDialect>();
  Drawer d(context, seed);
  DrawnModule drawn;
  drawn.module = ModuleOp::create(d.loc);
  d.builder.setInsertionPointToEnd(drawn.module->getBody());
  d.function = func::FuncOp::create(d.builder, d.loc, "main", d.builder.getFunctionType({}, {}));
  d.builder.setInsertionPointToStart(d.function.addEntryBlock());
  SmallVector<const MakerRow *> candidates;
  for (const MakerRow &row : makers)
    if (row.name == target)
      candidates.push_back(&row);
  int targetAt = d.below(size);
  SmallVector<Value> results;
  for (int i = 0; i < size; ++i) {
    const MakerRow *row = i == targetAt ? candidates[d.below(candidates.size())]
                                        : &makers[d.below(std::size(makers))];
    std::optional<DrawnValue> made;
    for (int attempt = 0; attempt < (i == targetAt ? 200 : 20) && !made; ++attempt)
      made = row->make(d);
    if (!made)
      continue;
    d.pool.push_back(*made);
    if (i != targetAt)
      continue;
    // The operation itself may stand behind a guard (a pool's clamp): find it by name.
    Operation *op = made->value.getDefiningOp();
    while (op->getName().stripDialect() != target)
      op = op->getOperand(0).getDefiningOp();
    drawn.target = op;
    results.push_back(use(d, *made));
  }
  // What nobody reads becomes a result too.
  for (const DrawnValue &value : d.pool)
    if (value.value.use_empty() && results.size() < 4)
      results.push_back(value.value);
  func::ReturnOp::create(d.builder, d.loc, results);
  d.function.setFunctionType(
      d.builder.getFunctionType(d.function.getArgumentTypes(), ValueRange(results).getTypes()));
  int counter = 0;
  for (Operation &op : d.function.getBody().front().without_terminator())
    setOpId(&op, op.getName().stripDialect() + "_" + Twine(counter++));
  for (unsigned i = 0; i < results.size(); ++i)
    d.function.setResultAttr(i, "autopar.name", d.builder.getStringAttr("y" + std::to_string(i)));
  return drawn;
}
