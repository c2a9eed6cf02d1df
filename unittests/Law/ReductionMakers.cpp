// SPDX-License-Identifier: Apache-2.0
// Reductions, windows and rows.
#include "Drawer.h"

using namespace autopar_law;

namespace {

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

std::optional<DrawnValue> makeSoftmaxGrad(Drawer &d) {
  DrawnValue x = d.floats(2), g = d.argument(d.typeOf(x).getShape(), d.typeOf(x).getElementType());
  auto y = SoftmaxOp::create(d.builder, d.loc, x.value.getType(), x.value,
                             static_cast<int64_t>(d.below(d.typeOf(x).getRank())), d.below(3) == 0);
  Value result = SoftmaxGradOp::create(d.builder, d.loc, x.value.getType(), y.getResult(), g.value,
                                       y.getDimAttr(), y.getLogAttr());
  return d.inexactly(result, g.bound * (1 + d.typeOf(x).getDimSize(y.getDim())));
}

/// Attention on new arguments: heads in groups, a bias, a triangle, a window, sinks; half of it as
/// GPUs have it as one call in half precision.
AttentionOp createAttention(Drawer &d) {
  constexpr int64_t evenRows = 12; // that any number of ranks shares: of a triangle only those
  bool isPlain = d.below(2);
  auto drawSize = [&] { return isPlain ? 8 * (1 + d.below(3)) : d.extent(); };
  int64_t batch = d.extent(), groups = d.extent(), heads = groups * (1 + d.below(2)),
          rows = d.below(2) ? evenRows : d.extent(), columns = isPlain ? rows : rows + d.below(3),
          size = drawSize();
  bool causal = d.below(2);
  Value query = d.argument({batch, heads, rows, size}, d.f32()).value,
        key = d.argument({batch, groups, columns, size}, d.f32()).value,
        value = d.argument({batch, groups, columns, drawSize()}, d.f32()).value, bias;
  if (d.below(2))
    bias =
        d.argument({d.below(2) ? batch : 1, d.below(2) ? heads : 1, d.below(2) ? rows : 1, columns},
                   d.f32())
            .value;
  int64_t window = causal && d.below(2) ? 1 + d.below(columns) : 0;
  Value sink = d.below(2) ? d.argument({heads}, d.f32()).value : Value();
  return AttentionOp::create(d.builder, d.loc, query, key, value, bias, 0.25, causal, window, sink);
}

std::optional<DrawnValue> makeAttention(Drawer &d) {
  return d.inexactly(createAttention(d).getOutput(), 4);
}

std::optional<DrawnValue> makeAttentionGrad(Drawer &d) {
  AttentionOp op = createAttention(d);
  Value gradient = d.argument(op.getOutput().getType().getShape(), d.f32()).value;
  auto made = AttentionGradOp::create(d.builder, d.loc, op, gradient);
  d.pool.push_back(d.inexactly(made.getKeyGradient(), 256));
  d.pool.push_back(d.inexactly(made.getValueGradient(), 256));
  return d.inexactly(made.getQueryGradient(), 256);
}

NormalizeOp createNormalize(Drawer &d) {
  DrawnValue x = d.argument(d.shape(2 + d.below(2)), d.f32());
  int64_t rank = d.typeOf(x).getRank(), first = 1 + d.below(rank - 1);
  SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(first, rank));
  return NormalizeOp::create(d.builder, d.loc, x.value.getType(), x.value,
                             d.builder.getDenseI64ArrayAttr(dims), d.builder.getF64FloatAttr(1e-1),
                             d.below(2) ? d.builder.getUnitAttr() : UnitAttr());
}

std::optional<DrawnValue> makeNormalize(Drawer &d) { return d.inexactly(createNormalize(d), 4); }

std::optional<DrawnValue> makeNormalizeAgain(Drawer &d) {
  NormalizeOp y = createNormalize(d);
  return d.inexactly(NormalizeAgainOp::create(d.builder, d.loc, y.getType(), y.getInput(),
                                              y.getDimsAttr(), y.getEpsilonAttr(), y.getRmsAttr()),
                     4);
}

std::optional<DrawnValue> makeNormalizeGrad(Drawer &d) {
  NormalizeOp y = createNormalize(d);
  DrawnValue g = d.argument(y.getType().getShape(), d.f32());
  Value result =
      NormalizeGradOp::create(d.builder, d.loc, y.getType(), y.getInput(), y.getResult(), g.value,
                              y.getDimsAttr(), y.getEpsilonAttr(), y.getRmsAttr());
  return d.inexactly(result, 64 * g.bound);
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

/// Behind a sum, which may leave a partial value to hold.
std::optional<DrawnValue> makeHold(Drawer &d) {
  std::optional<DrawnValue> x = makeReduce(d);
  if (!x)
    return x;
  bool unreduced = isa<FloatType>(d.typeOf(*x).getElementType());
  x->value = HoldOp::create(d.builder, d.loc, x->value.getType(), unreduced, x->value);
  return x;
}

constexpr MakerRow makers[] = {{"reduce", makeReduce},
                               {"reduce", makeReduceLogical},
                               {"arg_reduce", makeArgReduce},
                               {"pool", makePool},
                               {"arg_pool", makeArgPool},
                               {"cumulative", makeCumulative},
                               {"softmax", makeSoftmax},
                               {"softmax_grad", makeSoftmaxGrad},
                               {"normalize", makeNormalize},
                               {"normalize_grad", makeNormalizeGrad},
                               {"normalize_again", makeNormalizeAgain},
                               {"top_k", makeTopK},
                               {"hold", makeHold},
                               {"attention", makeAttention},
                               {"attention_grad", makeAttentionGrad}};

} // namespace

ArrayRef<MakerRow> autopar_law::reductionMakers() { return makers; }
