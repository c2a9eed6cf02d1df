// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient: shapes, sharding rules, FLOPs.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;

/// What row sums are in where the scores are of type `element`.
static Type sumType(Type element) {
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value query, Value key,
                        Value value, Value bias, double scale, bool causal, int64_t window,
                        Value sink) {
  auto type = cast<RankedTensorType>(query.getType());
  SmallVector<int64_t> shape(type.getShape());
  auto logSum =
      RankedTensorType::get(ArrayRef<int64_t>(shape).drop_back(), sumType(type.getElementType()));
  shape.back() = cast<RankedTensorType>(value.getType()).getShape().back();
  build(builder, state, type.clone(shape), logSum, query, key, value, bias, sink, /*shard=*/Value(),
        APFloat(scale), causal, window ? builder.getI64IntegerAttr(window) : IntegerAttr(),
        /*parts=*/IntegerAttr());
}

void AttentionGradOp::build(OpBuilder &builder, OperationState &state, AttentionOp attention,
                            Value gradient) {
  Value query = attention.getQuery(), key = attention.getKey(), value = attention.getValue();
  build(builder, state, query.getType(), key.getType(), value.getType(), query, key, value,
        attention.getOutput(), attention.getLogSum(), gradient, attention.getBias(),
        attention.getShard(), attention.getScaleAttr(), attention.getCausalAttr(),
        attention.getWindowAttr(), attention.getPartsAttr());
}

//===-- shapes -------------------------------------------------------------------------------===//

static LogicalResult checkOperands(Operation *op, RankedTensorType query, RankedTensorType key,
                                   RankedTensorType value, TypedValue<RankedTensorType> bias,
                                   RankedTensorType output, RankedTensorType logSum) {
  ArrayRef<int64_t> q = query.getShape(), k = key.getShape(), v = value.getShape();
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || q[0] != k[0] || k[0] != v[0] || k[1] < 1 ||
      q[1] % k[1] || k[1] != v[1] || k[2] != v[2] || q[3] != k[3])
    return op->emitOpError() << "expects query [batch, heads, rows, d], key [batch, groups, "
                             << "columns, d] and value [batch, groups, columns, dv] with groups "
                             << "that divide heads, got " << query << ", " << key << " and "
                             << value;
  Type element = query.getElementType();
  if (!isa<FloatType>(element) || key.getElementType() != element ||
      value.getElementType() != element)
    return op->emitOpError() << "expects query, key and value of one float type, got " << element
                             << ", " << key.getElementType() << " and " << value.getElementType();
  if (output.getElementType() != element ||
      output.getShape() != ArrayRef<int64_t>({q[0], q[1], q[2], v[3]}))
    return op->emitOpError() << "expects an output [batch, heads, rows, dv] of " << element
                             << ", got " << output;
  if (logSum.getElementType() != sumType(element) || logSum.getShape() != q.drop_back())
    return op->emitOpError() << "expects row sums [batch, heads, rows] of " << sumType(element)
                             << ", got " << logSum;
  if (!bias)
    return success();
  int64_t scores[] = {q[0], q[1], q[2], k[2]};
  ArrayRef<int64_t> extents = bias.getType().getShape();
  bool fits = extents.size() == 4 && isa<FloatType>(bias.getType().getElementType());
  for (size_t i = 0; fits && i < 4; ++i)
    fits = extents[i] == scores[i] || (extents[i] == 1 && i < 3);
  if (!fits)
    return op->emitOpError() << "expects a bias that repeats to [" << ArrayRef<int64_t>(scores)
                             << "], got " << bias.getType();
  return success();
}

/// A window is one of a triangle. Where the rows are a part of a triangle's: that it hides none of
/// them whole.
template <typename Attention>
static LogicalResult checkRows(Attention op) {
  if (std::optional<int64_t> window = op.getWindow(); window && (!op.getCausal() || *window < 1))
    return op.emitOpError() << "expects a window of at least one column, of a causal mask, got "
                            << *window << (op.getCausal() ? "" : " without one");
  if (!op.getShard() && !op.getParts())
    return success();
  int64_t rows = op.getQuery().getType().getDimSize(2),
          columns = op.getKey().getType().getDimSize(2);
  bool isNumber = op.getShard() && op.getShard().getType().getRank() == 0 &&
                  op.getShard().getType().getElementType().isInteger(64);
  if (!isNumber || !op.getParts() || !op.getCausal() || *op.getParts() < 1 ||
      rows * static_cast<int64_t>(*op.getParts()) > columns)
    return op.emitOpError() << "expects the shard of a triangle's rows to be an i64 scalar and the "
                               "rows of all parts no more than the "
                            << columns << " columns, got " << op.getParts().value_or(0)
                            << " parts of " << rows << " rows";
  return success();
}

LogicalResult AttentionOp::verify() {
  if (failed(checkOperands(*this, getQuery().getType(), getKey().getType(), getValue().getType(),
                           getBias(), getOutput().getType(), getLogSum().getType())))
    return failure();
  int64_t heads = getQuery().getType().getDimSize(1);
  if (RankedTensorType sink = getSink() ? getSink().getType() : RankedTensorType();
      sink &&
      (sink.getShape() != ArrayRef<int64_t>(heads) || !isa<FloatType>(sink.getElementType())))
    return emitOpError() << "expects a sink of one float per head [" << heads << "], got " << sink;
  return checkRows(*this);
}

LogicalResult AttentionGradOp::verify() {
  if (getGradient().getType() != getOutput().getType())
    return emitOpError() << "expects a gradient of type " << getOutput().getType() << ", got "
                         << getGradient().getType();
  if (getQueryGradient().getType() != getQuery().getType() ||
      getKeyGradient().getType() != getKey().getType() ||
      getValueGradient().getType() != getValue().getType())
    return emitOpError("expects results of the types of query, key and value");
  if (failed(checkOperands(*this, getQuery().getType(), getKey().getType(), getValue().getType(),
                           getBias(), getOutput().getType(), getLogSum().getType())))
    return failure();
  return checkRows(*this);
}

//===-- sharding -----------------------------------------------------------------------------===//

namespace {
/// The factors of attention; `toScores`: query, output, row sums and what is shaped like them,
/// `toKeys`: key, value and what is shaped like them.
class AttentionFactors {
public:
  AttentionFactors(Operation *op, RankedTensorType query, RankedTensorType key, bool causal,
                   Value bias, Value sink = {})
      : op(op), rule(ShardingRule::emptyFor(op)), query(query.getShape()), key(key.getShape()),
        causal(causal), bias(bias), sink(sink) {}

  /// Numbers of the operands and results that have the rows of queries, and of those that have the
  /// columns; `partial`: results that split rows or heads leave partial.
  ShardingRule build(ArrayRef<int64_t> rowOperands, ArrayRef<int64_t> columnOperands,
                     ArrayRef<int64_t> rowResults, ArrayRef<int64_t> columnResults) {
    auto add = [&](int64_t dim, int64_t size, bool withColumns) {
      SmallVector<int64_t> operands(op->getNumOperands(), absent),
          results(op->getNumResults(), absent);
      for (int64_t i : rowOperands)
        operands[i] = dim;
      for (int64_t i : rowResults)
        results[i] = dim;
      if (withColumns) {
        for (int64_t i : columnOperands)
          operands[i] = dim;
        for (int64_t i : columnResults)
          results[i] = dim;
      }
      if (bias && cast<RankedTensorType>(bias.getType()).getDimSize(dim) != 1)
        operands[numberOf(bias)] = dim;
      if (sink && dim == 1)
        operands[numberOf(sink)] = 0;
      int64_t index = rule.addFactor(operands, results, size);
      if (!withColumns && !columnResults.empty()) {
        rule.factors[index].kind = FactorKind::Reduction;
        rule.factors[index].mayBeUneven = false;
        rule.factors[index].completeResults.assign(rowResults.begin(), rowResults.end());
      }
      return index;
    };
    add(0, query[0], /*withColumns=*/true);
    if (key[1] > 1 || query[1] == key[1])
      add(1, key[1], /*withColumns=*/true);
    if (query[1] != key[1])
      add(1, query[1] / key[1], /*withColumns=*/false);
    if (splitsRows()) {
      int64_t rows = add(2, query[2], /*withColumns=*/false);
      // Parts of a triangle are equal: where one begins says how many columns it sees.
      if (causal)
        rule.factors[rows].mayBeUneven = false;
    }
    rule.complete(op);
    return rule;
  }

private:
  /// A part of a triangle's rows sees the columns up to a place of its own; of parts there are no
  /// parts. GPUs' library has that where no row is hidden whole and there is no bias.
  bool splitsRows() const {
    return !causal || (!bias && query[2] <= key[2] && !op->hasAttr("parts"));
  }

  /// Of a bias or sink, which stand behind query, key and value.
  int64_t numberOf(Value operand) const {
    return llvm::find(llvm::drop_begin(op->getOperands(), 3), operand) - op->getOperands().begin();
  }

  Operation *op;
  ShardingRule rule;
  ArrayRef<int64_t> query, key;
  bool causal;
  Value bias, sink;
};
} // namespace

ShardingRule AttentionOp::getShardingRule() {
  return AttentionFactors(*this, getQuery().getType(), getKey().getType(), getCausal(), getBias(),
                          getSink())
      .build({0}, {1, 2}, {0, 1}, {});
}

ShardingRule AttentionGradOp::getShardingRule() {
  return AttentionFactors(*this, getQuery().getType(), getKey().getType(), getCausal(), getBias())
      .build({0, 3, 4, 5}, {1, 2}, {0}, {1, 2});
}

/// The first `columns` of keys or values.
static Value firstColumns(OpBuilder &builder, Location loc, Value value, int64_t columns) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[2] = columns;
  return SliceOp::create(builder, loc, type.clone(shape), value, SmallVector<int64_t>(4, 0),
                         SmallVector<int64_t>(4, 1));
}

/// The operation on its local operands; a triangle is told which of its rows these are. Where that
/// is known by now, its last row sees the last of the columns that are left. A gradient keeps them
/// all: it has one for each.
template <typename Attention>
static FailureOr<SmallVector<Value>> partitionRows(Attention op, OpBuilder &builder,
                                                   ValueRange localOperands,
                                                   PartitionContext &context) {
  int64_t rows = op.getShardingRule().operands[0][2].front(), parts = context.shardCount(rows);
  if (!op.getCausal() || parts == 1)
    return context.cloneLocal(op, builder, localOperands);
  Value shard = context.shardIndex(builder, op.getLoc(), rows);
  DenseIntElementsAttr number;
  if (isa<AttentionOp>(op) && matchPattern(shard, m_Constant(&number))) {
    if (shard.use_empty())
      shard.getDefiningOp()->erase();
    int64_t all = op.getQuery().getType().getDimSize(2),
            hidden = (parts - 1 - (*number.begin()).getSExtValue()) * (all / parts);
    SmallVector<Value> operands(localOperands);
    for (Value &operand : MutableArrayRef(operands).slice(1, 2))
      operand = firstColumns(builder, op.getLoc(), operand,
                             cast<RankedTensorType>(operand.getType()).getDimSize(2) - hidden);
    return context.cloneLocal(op, builder, operands);
  }
  SmallVector<Value> results = context.cloneLocal(op, builder, localOperands);
  auto local = results.front().getDefiningOp<Attention>();
  local.getShardMutable().assign(shard);
  local.setParts(parts);
  return results;
}

FailureOr<SmallVector<Value>> AttentionOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                     PartitionContext &context) {
  return partitionRows(*this, builder, localOperands, context);
}

FailureOr<SmallVector<Value>> AttentionGradOp::partition(OpBuilder &builder,
                                                         ValueRange localOperands,
                                                         PartitionContext &context) {
  return partitionRows(*this, builder, localOperands, context);
}

//===-- cost ---------------------------------------------------------------------------------===//

/// Columns that rows up to one that sees `last` columns of a triangle see together, each at most
/// the last `window` of its own.
static double seenUpTo(double last, double window) {
  return last <= window ? last * last / 2 : window * window / 2 + (last - window) * window;
}

template <typename Attention>
static double windowOf(Attention op) {
  return op.getWindow() ? static_cast<double>(*op.getWindow())
                        : std::numeric_limits<double>::infinity();
}

/// How many of the scores a rank computes. Of a triangle the last row sees all columns: of parts of
/// its rows, that is the last one, for which all wait.
template <typename Attention>
static double wholeScoresOf(Attention op, ArrayRef<RankedTensorType> operands) {
  auto rows = static_cast<double>(operands[0].getDimSize(2)),
       columns = static_cast<double>(operands[2].getDimSize(2));
  if (!op.getCausal())
    return rows * columns;
  return seenUpTo(columns, windowOf(op)) - seenUpTo(std::max(columns - rows, 0.0), windowOf(op));
}

/// The mean of all parts of a triangle's rows.
template <typename Attention>
static double meanScoresOf(Attention op, ArrayRef<RankedTensorType> operands, int64_t parts) {
  auto rows = static_cast<double>(operands[0].getDimSize(2)),
       columns = static_cast<double>(operands[2].getDimSize(2)), count = static_cast<double>(parts);
  return (seenUpTo(columns, windowOf(op)) - seenUpTo(columns - rows * count, windowOf(op))) / count;
}

/// Where each rank has a part early and one late (autopar-balance-attention), none waits for the
/// last.
template <typename Attention>
static double scoresOf(Attention op, ArrayRef<RankedTensorType> operands) {
  auto index = op.getShard() ? op.getShard().template getDefiningOp<ShardIndexOp>() : nullptr;
  return index && index.getNumbers() ? meanScoresOf(op, operands, *op.getParts())
                                     : wholeScoresOf(op, operands);
}

/// Products over the scores, `perSize` of them with rows as long as those of the query, `perValue`
/// as those of the value.
static double flopsOf(ArrayRef<RankedTensorType> operands, double scores, double perSize,
                      double perValue) {
  ArrayRef<int64_t> q = operands[0].getShape(), v = operands[2].getShape();
  return 2 * static_cast<double>(q[0] * q[1]) * scores * (perSize * q[3] + perValue * v[3]);
}

double AttentionOp::getFlops(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return flopsOf(operands, scoresOf(*this, operands), 1, 1);
}
Work AttentionOp::getWork() { return Work::Attention; }
double AttentionOp::getMeanFlops(ArrayRef<RankedTensorType> operands, int64_t parts) {
  return flopsOf(operands, meanScoresOf(*this, operands, parts), 1, 1);
}

double AttentionGradOp::getFlops(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return flopsOf(operands, scoresOf(*this, operands), 3, 2);
}
Work AttentionGradOp::getWork() { return Work::AttentionGradient; }
double AttentionGradOp::getMeanFlops(ArrayRef<RankedTensorType> operands, int64_t parts) {
  return flopsOf(operands, meanScoresOf(*this, operands, parts), 3, 2);
}
