// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-attention.
#include "Prepare/StandIns.h"

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

/// What scores are made of. Keys and values have as many heads as queries.
struct Operands {
  Value query, key, value, bias, sink;
  double scale = 1;
  bool causal = false;
  int64_t window = 0; ///< of the keys that a causal row sees, the last so many; 0: all
  Value shard;        ///< which of `parts` equal parts the rows are; null: they are all
  int64_t parts = 1;
};

/// Rows of queries from `begin` to `end`, which see some of `keys` keys from `firstKey` on.
struct RowBlock {
  int64_t begin, end, firstKey, keys;
};

/// Writes what one attention operation stands for, before it. The operations that it makes are
/// named after it. Where `rows` is less than there are, as many rows are written at once, with the
/// keys that a triangle lets them see.
class Expansion {
public:
  Expansion(Operation *op, int64_t rows) : op(op), rows(rows), builder(op), loc(op->getLoc()) {}

  void expand(AttentionOp attention) {
    Operands all = operandsOf(attention);
    SmallVector<RowBlock> blocks = blocksOf(all);
    bool readsSums = !attention.getLogSum().use_empty();
    SmallVector<Value> outputs, sums;
    for (const RowBlock &block : blocks) {
      Operands part = begin(block, blocks.size(), all);
      Value scores = withSink(scoresOf(part), all.sink);
      Value weights =
          make<SoftmaxOp>("softmax", scores.getType(), scores, int64_t(3), /*log=*/false);
      weights = slice(weights, 3, 0, typeOf(part.key).getDimSize(2), "softmax.keys");
      outputs.push_back(
          product("output", cast(weights, typeOf(part.value)), part.value, int64_t(3), int64_t(2)));
      if (readsSums)
        sums.push_back(logSumOf(scores));
    }
    prefix.clear();
    Value output = joined(outputs, "output");
    if (StringRef id = getOpId(op); !id.empty())
      setOpId(output.getDefiningOp(), id);
    attention.getOutput().replaceAllUsesWith(output);
    readUnswapped(output);
    if (readsSums)
      attention.getLogSum().replaceAllUsesWith(joined(sums, "sums"));
    op->erase();
  }

  /// With P = exp(scores - row sums): dV = P^T g, dS = P (g V^T - sum of g output).
  void expand(AttentionGradOp gradient) {
    Operands all = operandsOf(gradient);
    SmallVector<RowBlock> blocks = blocksOf(all);
    Value sums = sumsOf(gradient);
    SmallVector<Value> ofQueries, ofKeys, ofValues;
    SmallVector<int64_t> firstKeys;
    for (const RowBlock &block : blocks) {
      Operands part = begin(block, blocks.size(), all);
      Value scores = scoresOf(part);
      RankedTensorType type = typeOf(scores), narrow = typeOf(part.query);
      Value weights = make<UnaryOp>("weights", type, UnaryKind::Exp,
                                    binary("shifted", BinaryKind::Sub, scores,
                                           spread(rowsOf(sums, block, "sums.rows"), type)));
      Value g = rowsOf(gradient.getGradient(), block, "gradient.rows");
      Value slopes = slopesOf(part, g, rowsOf(gradient.getOutput(), block, "output.rows"), weights);
      slopes = cast(binary("scaled", BinaryKind::Mul, slopes, splat(type, part.scale)), narrow);
      ofQueries.push_back(product("query.gradient", slopes, part.key, 3, 2));
      firstKeys.push_back(block.firstKey);
      ofKeys.push_back(product("key.gradient", slopes, part.query, 2, 2));
      ofValues.push_back(product("value.gradient", cast(weights, narrow), g, 2, 2));
    }
    prefix.clear();
    Value results[] = {
        joined(ofQueries, "query.gradient"),
        summed(added(ofKeys, firstKeys, all.key, "key.gradient"), typeOf(gradient.getKey())),
        summed(added(ofValues, firstKeys, all.value, "value.gradient"),
               typeOf(gradient.getValue()))};
    for (auto [number, result] : llvm::enumerate(results))
      op->getResult(number).replaceAllUsesWith(result);
    readUnswapped(results[0]);
    op->erase();
  }

private:
  static SmallVector<int64_t> both() { return {0, 1}; }

  template <typename Op, typename... Args>
  Value make(StringRef name, Args &&...args) {
    auto made = Op::create(builder, loc, std::forward<Args>(args)...);
    nameAfter(made, op, prefix + name.str());
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
  /// A number in every element.
  Value splat(RankedTensorType type, double number, StringRef name = "number") {
    return repeatNumber(builder, op, type, number, prefix + name + ".repeated", prefix + name);
  }
  /// A scalar.
  Value zero(Type element) {
    auto scalar = RankedTensorType::get({}, element);
    return make<ConstantOp>("number", mlir::cast<DenseElementsAttr>(builder.getZeroAttr(scalar)));
  }
  RankedTensorType wideOf(RankedTensorType type) {
    return type.getElementType().isF64() ? type : type.clone(builder.getF32Type());
  }
  static Value sinkOf(AttentionOp attention) { return attention.getSink(); }
  /// Row sums have it.
  static Value sinkOf(AttentionGradOp) { return {}; }

  template <typename Attention>
  Operands operandsOf(Attention attention) {
    int64_t heads = typeOf(attention.getQuery()).getDimSize(1);
    return {attention.getQuery(),
            repeated(attention.getKey(), heads, "key"),
            repeated(attention.getValue(), heads, "value"),
            attention.getBias(),
            sinkOf(attention),
            attention.getScale().convertToDouble(),
            attention.getCausal(),
            static_cast<int64_t>(attention.getWindow().value_or(0)),
            attention.getShard(),
            attention.getParts() ? static_cast<int64_t>(*attention.getParts()) : 1};
  }

  SmallVector<RowBlock> blocksOf(const Operands &all) const {
    int64_t queries = typeOf(all.query).getDimSize(2), keys = typeOf(all.key).getDimSize(2);
    if (!all.causal || all.shard || rows >= queries || queries > keys)
      return {{0, queries, 0, keys}};
    SmallVector<RowBlock> blocks;
    for (int64_t begin = 0; begin < queries; begin += rows) {
      int64_t end = std::min(begin + rows, queries);
      int64_t lastKey = end + keys - queries,
              firstKey = all.window ? lastKey - (end - begin) - all.window + 1 : 0;
      firstKey = std::max<int64_t>(firstKey, 0);
      blocks.push_back({begin, end, firstKey, lastKey - firstKey});
    }
    return blocks;
  }

  /// What a block sees; operations are named after it from here on.
  Operands begin(const RowBlock &block, size_t count, const Operands &all) {
    if (count > 1)
      prefix = "rows." + std::to_string(block.begin) + ".";
    Operands part = all;
    part.query = rowsOf(all.query, block, "query");
    part.key = slice(all.key, 2, block.firstKey, block.keys, "key");
    part.value = slice(all.value, 2, block.firstKey, block.keys, "value");
    if (all.bias) {
      if (typeOf(all.bias).getDimSize(2) != 1)
        part.bias = rowsOf(part.bias, block, "bias.rows");
      part.bias = slice(part.bias, 3, block.firstKey, block.keys, "bias");
    }
    return part;
  }

  /// `extent` positions of one dimension.
  Value slice(Value value, int64_t dim, int64_t start, int64_t extent, StringRef name) {
    RankedTensorType type = typeOf(value);
    if (type.getDimSize(dim) == extent)
      return value;
    SmallVector<int64_t> shape(type.getShape()), starts(shape.size(), 0), steps(shape.size(), 1);
    shape[dim] = extent;
    starts[dim] = start;
    return make<SliceOp>(name, type.clone(shape), value, starts, steps);
  }
  Value rowsOf(Value value, const RowBlock &block, StringRef name) {
    return slice(value, 2, block.begin, block.end - block.begin, name);
  }
  /// Rows of blocks one after the other. Those of all heads are put together as a model has them,
  /// which then reads them as they lie (readUnswapped).
  Value joined(ArrayRef<Value> blocks, StringRef name) {
    if (blocks.size() == 1)
      return blocks.front();
    auto swapHeads = [&](Value value) {
      return typeOf(value).getRank() == 4
                 ? swapHeadsAndRows(builder, op, value, prefix + name + ".swapped")
                 : value;
    };
    SmallVector<Value> parts = llvm::map_to_vector(blocks, swapHeads);
    int64_t dim = typeOf(parts.front()).getRank() == 4 ? 1 : 2;
    SmallVector<int64_t> shape(typeOf(parts.front()).getShape());
    shape[dim] = 0;
    for (Value part : parts)
      shape[dim] += typeOf(part).getDimSize(dim);
    return swapHeads(make<ConcatOp>(name, typeOf(parts.front()).clone(shape), parts, dim));
  }
  /// The sum of what blocks give the rows of `like` from `first` on, in f32 at least.
  Value added(ArrayRef<Value> blocks, ArrayRef<int64_t> first, Value like, StringRef name) {
    if (blocks.size() == 1)
      return blocks.front();
    RankedTensorType type = typeOf(like), wide = wideOf(type);
    Value sum;
    for (auto [block, row] : llvm::zip(blocks, first)) {
      Value part = cast(block, wide);
      if (typeOf(part) != wide)
        part = make<PadOp>((name + ".padded").str(), wide, part, zero(wide.getElementType()),
                           SmallVector<int64_t>{0, 0, row, 0});
      sum = sum ? binary((name + ".sum").str(), BinaryKind::Add, sum, part) : part;
    }
    return cast(sum, type);
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
  Value scoresOf(const Operands &part) {
    Value scores = product("scores", part.query, part.key, 3, 3);
    RankedTensorType type = wideOf(typeOf(scores));
    scores = cast(scores, type);
    if (part.scale != 1)
      scores = binary("scaled", BinaryKind::Mul, scores, splat(type, part.scale));
    if (part.bias) {
      Value bias = cast(part.bias, type);
      if (typeOf(bias) != type)
        bias = make<BroadcastOp>("bias.repeated", type, bias, ArrayRef<int64_t>({0, 1, 2, 3}));
      scores = binary("biased", BinaryKind::Add, scores, bias);
    }
    return part.causal ? masked(scores, part) : scores;
  }

  /// One more score in each row, where heads have a sink.
  Value withSink(Value scores, Value sink) {
    if (!sink)
      return scores;
    RankedTensorType type = typeOf(scores);
    SmallVector<int64_t> shape(type.getShape());
    shape[3] = 1;
    Value column =
        make<BroadcastOp>("sink", type.clone(shape), cast(sink, type), ArrayRef<int64_t>(1));
    shape[3] = type.getDimSize(3) + 1;
    return make<ConcatOp>("scores.sink", type.clone(shape), ValueRange{scores, column}, int64_t(3));
  }

  /// Positions are compared wherever scores are read: nothing is read for it, by no pass.
  Value masked(Value scores, const Operands &part) {
    RankedTensorType type = typeOf(scores), positions = type.clone(builder.getI32Type());
    int64_t reach = type.getDimSize(3) - part.parts * type.getDimSize(2);
    Value row = make<IotaOp>("row", positions, int64_t(2)),
          column = make<IotaOp>("column", positions, int64_t(3));
    if (reach != 0)
      row = binary("last", BinaryKind::Add, row,
                   splat(positions, static_cast<double>(reach), "reach"));
    if (part.shard)
      row = binary("in_all_rows", BinaryKind::Add, row, firstRow(part, positions));
    Value seen =
        make<CompareOp>("seen", type.clone(builder.getI1Type()), ComparePredicate::Le, column, row);
    if (part.window) {
      Value before = binary("before", BinaryKind::Sub, row,
                            splat(positions, static_cast<double>(part.window), "window"));
      Value near = make<CompareOp>("near", type.clone(builder.getI1Type()), ComparePredicate::Gt,
                                   column, before);
      seen = binary("seen_near", BinaryKind::And, seen, near);
    }
    return make<SelectOp>("masked", type, seen, scores,
                          splat(type, std::numeric_limits<float>::lowest()));
  }

  /// The place of a part's first row among all rows, in every element.
  Value firstRow(const Operands &part, RankedTensorType positions) {
    auto scalar = RankedTensorType::get({}, builder.getI64Type());
    Value rowCount =
        make<ConstantOp>("part", DenseElementsAttr::get(scalar, typeOf(part.query).getDimSize(2)));
    Value first = binary("first_row", BinaryKind::Mul, part.shard, rowCount);
    first = make<CastOp>("first_row.narrow", scalar.clone(builder.getI32Type()), first);
    return make<BroadcastOp>("first_row.repeated", positions, first, ArrayRef<int64_t>{});
  }

  /// weights * (g value^T - sum of g output)
  Value slopesOf(const Operands &part, Value g, Value output, Value weights) {
    RankedTensorType type = typeOf(weights);
    Value wide = cast(g, type), outputs = cast(output, type);
    Value delta =
        make<ReduceOp>("delta", ReduceKind::Sum, binary("weighted", BinaryKind::Mul, wide, outputs),
                       ArrayRef<int64_t>(3));
    Value slopes = cast(product("slopes", g, part.value, 3, 3), type);
    slopes = binary("centered", BinaryKind::Sub, slopes, spread(delta, type));
    return binary("scores.gradient", BinaryKind::Mul, weights, slopes);
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
  int64_t rows;
  std::string prefix; ///< of names, while a block is written
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
    SmallVector<Operation *> operations;
    getOperation().walk([&](Operation *op) {
      bool isKept = *wanted == AttentionMode::Automatic && isLibraryAttention(target, chip, op);
      if (isa<AttentionOp, AttentionGradOp>(op) && !isKept)
        operations.push_back(op);
    });
    for (Operation *op : operations) {
      Expansion expansion(op,
                          rows > 0 ? static_cast<int64_t>(rows) : attentionRowsAtOnce(target, op));
      if (auto attention = dyn_cast<AttentionOp>(op))
        expansion.expand(attention);
      else
        expansion.expand(cast<AttentionGradOp>(op));
    }
  }
};

} // namespace
