// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-attention.
#include "CompositeMatching.h"

#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDATTENTIONPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Writes what one attention operation stands for, before it. The operations that it makes are
/// named after it.
class Expansion {
public:
  explicit Expansion(Operation *op) : op(op), builder(op), loc(op->getLoc()) {}

  void expand(AttentionOp attention) {
    Value scores = scoresOf(attention.getQuery(), attention.getKey(), attention.getBias(),
                            attention.getScale().convertToDouble(), attention.getCausal());
    Value weights = make<SoftmaxOp>("softmax", scores.getType(), scores, int64_t(3), /*log=*/false);
    Value value = repeated(attention.getValue(), typeOf(scores).getDimSize(1), "value");
    auto output = DotGeneralOp::create(builder, loc, cast(weights, typeOf(value)), value, both(),
                                       both(), ArrayRef<int64_t>(3), ArrayRef<int64_t>(2));
    if (StringRef id = getOpId(op); !id.empty())
      setOpId(output, id);
    attention.getOutput().replaceAllUsesWith(output);
    if (!attention.getLogSum().use_empty())
      attention.getLogSum().replaceAllUsesWith(logSumOf(scores));
    op->erase();
  }

  /// With P = exp(scores - row sums): dV = P^T g, dS = P (g V^T - sum of g output).
  void expand(AttentionGradOp gradient) {
    double scale = gradient.getScale().convertToDouble();
    Value query = gradient.getQuery(), g = gradient.getGradient();
    RankedTensorType narrow = typeOf(query);
    Value scores =
        scoresOf(query, gradient.getKey(), gradient.getBias(), scale, gradient.getCausal());
    RankedTensorType type = typeOf(scores);
    int64_t heads = type.getDimSize(1);
    Value key = repeated(gradient.getKey(), heads, "key"),
          value = repeated(gradient.getValue(), heads, "value");
    Value weights =
        make<UnaryOp>("weights", type, UnaryKind::Exp,
                      binary("shifted", BinaryKind::Sub, scores, spread(sumsOf(gradient), type)));
    Value wide = cast(g, type), outputs = cast(gradient.getOutput(), type);
    Value delta =
        make<ReduceOp>("delta", ReduceKind::Sum, binary("weighted", BinaryKind::Mul, wide, outputs),
                       ArrayRef<int64_t>(3));
    Value slopes = cast(product("slopes", g, value, 3, 3), type);
    slopes = binary("centered", BinaryKind::Sub, slopes, spread(delta, type));
    slopes = binary("scores.gradient", BinaryKind::Mul, weights, slopes);
    slopes = cast(binary("scaled", BinaryKind::Mul, slopes, splat(type, scale)), narrow);
    Value results[] = {product("query.gradient", slopes, key, 3, 2),
                       product("key.gradient", slopes, query, 2, 2),
                       product("value.gradient", cast(weights, narrow), g, 2, 2)};
    for (auto [number, result] : llvm::enumerate(results))
      op->getResult(number).replaceAllUsesWith(
          number == 0 ? result : summed(result, typeOf(op->getResult(number))));
    op->erase();
  }

private:
  static SmallVector<int64_t> both() { return {0, 1}; }

  template <typename Op, typename... Args>
  Value make(StringRef name, Args &&...args) {
    auto made = Op::create(builder, loc, std::forward<Args>(args)...);
    nameAfter(made, op, name);
    return made;
  }
  Value binary(StringRef name, BinaryKind kind, Value a, Value b) {
    return make<BinaryOp>(name, a.getType(), kind, a, b);
  }
  Value product(StringRef name, Value lhs, Value rhs, int64_t lhsContract, int64_t rhsContract) {
    return make<DotGeneralOp>(name, lhs, rhs, both(), both(), ArrayRef<int64_t>(lhsContract),
                              ArrayRef<int64_t>(rhsContract));
  }
  Value cast(Value value, RankedTensorType like) {
    Type element = like.getElementType();
    if (typeOf(value).getElementType() == element)
      return value;
    return make<CastOp>("cast", typeOf(value).clone(element), value);
  }
  Value splat(RankedTensorType type, double number) {
    auto scalar = RankedTensorType::get({}, type.getElementType());
    Value one = make<ConstantOp>(
        "number",
        DenseElementsAttr::get(scalar, builder.getFloatAttr(type.getElementType(), number)));
    return make<BroadcastOp>("number.repeated", type, one, ArrayRef<int64_t>{});
  }
  /// One number per row, along the rows.
  Value spread(Value rows, RankedTensorType type) {
    return make<BroadcastOp>("spread", type, rows, ArrayRef<int64_t>({0, 1, 2}));
  }
  /// [b, groups, s, d] as [b, heads, s, d].
  Value repeated(Value x, int64_t heads, StringRef name) {
    RankedTensorType type = typeOf(x);
    if (type.getDimSize(1) == heads)
      return x;
    SmallVector<int64_t> shape(type.getShape()), wide(shape);
    wide.insert(wide.begin() + 2, heads / shape[1]);
    shape[1] = heads;
    Value spread = make<BroadcastOp>((name + ".spread").str(), type.clone(wide), x,
                                     ArrayRef<int64_t>({0, 1, 3, 4}));
    return make<ReshapeOp>((name + ".repeated").str(), type.clone(shape), spread);
  }
  /// Of each row; infinite where the bias hides it whole, so that its weights are zero.
  Value sumsOf(AttentionGradOp gradient) {
    Value sums = gradient.getLogSum();
    if (!gradient.getBias())
      return sums;
    RankedTensorType type = typeOf(sums);
    Value isVisible = make<CompareOp>("is_visible", type.clone(builder.getI1Type()),
                                      ComparePredicate::Gt, sums, splat(type, kHiddenRow));
    return make<SelectOp>("visible_rows", type, isVisible, sums,
                          splat(type, std::numeric_limits<double>::infinity()));
  }
  /// The inverse for gradients: the sum over the heads of each group.
  Value summed(Value x, RankedTensorType type) {
    if (typeOf(x) == type)
      return x;
    SmallVector<int64_t> wide(type.getShape());
    wide.insert(wide.begin() + 2, typeOf(x).getDimSize(1) / wide[1]);
    Value apart = make<ReshapeOp>("apart", type.clone(wide), x);
    return make<ReduceOp>("groups", ReduceKind::Sum, apart, ArrayRef<int64_t>(2));
  }

  /// scale * query key^T + bias, in f32 at least, the lowest number where a row may not see.
  Value scoresOf(Value query, Value key, Value bias, double scale, bool causal) {
    Value scores =
        product("scores", query, repeated(key, typeOf(query).getDimSize(1), "key"), 3, 3);
    RankedTensorType type = typeOf(scores);
    if (!type.getElementType().isF64())
      type = type.clone(builder.getF32Type());
    scores = cast(scores, type);
    if (scale != 1)
      scores = binary("scaled", BinaryKind::Mul, scores, splat(type, scale));
    if (bias) {
      bias = cast(bias, type);
      if (typeOf(bias) != type)
        bias = make<BroadcastOp>("bias.repeated", type, bias, ArrayRef<int64_t>({0, 1, 2, 3}));
      scores = binary("biased", BinaryKind::Add, scores, bias);
    }
    if (!causal)
      return scores;
    RankedTensorType positions =
        RankedTensorType::get(type.getShape().take_back(2), builder.getI64Type());
    Value row = make<IotaOp>("row", positions, int64_t(0)),
          column = make<IotaOp>("column", positions, int64_t(1));
    int64_t reach = positions.getDimSize(1) - positions.getDimSize(0);
    if (reach != 0) {
      auto scalar = RankedTensorType::get({}, builder.getI64Type());
      Value number = make<ConstantOp>("reach", DenseElementsAttr::get(scalar, reach));
      row = binary("last", BinaryKind::Add, row,
                   make<BroadcastOp>("reach.repeated", positions, number, ArrayRef<int64_t>{}));
    }
    Value seen = make<CompareOp>("seen", positions.clone(builder.getI1Type()), ComparePredicate::Le,
                                 column, row);
    seen = make<BroadcastOp>("seen.repeated", type.clone(builder.getI1Type()), seen,
                             ArrayRef<int64_t>({2, 3}));
    return make<SelectOp>("masked", type, seen, scores,
                          splat(type, std::numeric_limits<float>::lowest()));
  }

  /// log(sum(exp(scores))) of each row.
  Value logSumOf(Value scores) {
    RankedTensorType type = typeOf(scores);
    Value largest = make<ReduceOp>("largest", ReduceKind::Max, scores, ArrayRef<int64_t>(3));
    Value shifted = binary("sums.shifted", BinaryKind::Sub, scores, spread(largest, type));
    Value sum = make<ReduceOp>("sums", ReduceKind::Sum,
                               make<UnaryOp>("exponentials", type, UnaryKind::Exp, shifted),
                               ArrayRef<int64_t>(3));
    Value logarithm = make<UnaryOp>("logarithm", sum.getType(), UnaryKind::Log, sum);
    Value total = binary("log_sum", BinaryKind::Add, logarithm, largest);
    return total;
  }

  Operation *op;
  OpBuilder builder;
  Location loc;
};

struct ExpandAttentionPass : mlir::autopar::impl::ExpandAttentionPassBase<ExpandAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<AttentionMode> wanted = readAttentionMode(getOperation(), mode);
    if (failed(wanted))
      return signalPassFailure();
    if (*wanted == AttentionMode::Fused)
      return;
    getOperation().walk([&](Operation *op) {
      if (*wanted == AttentionMode::Automatic && isLibraryAttention(target, op))
        return;
      if (auto attention = dyn_cast<AttentionOp>(op))
        Expansion(op).expand(attention);
      else if (auto gradient = dyn_cast<AttentionGradOp>(op))
        Expansion(op).expand(gradient);
    });
  }
};

} // namespace
