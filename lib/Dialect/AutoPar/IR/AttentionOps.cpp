// SPDX-License-Identifier: Apache-2.0
// Attention and its gradient: shapes, sharding rules, FLOPs.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;

/// What row sums are in where the scores are of type `element`.
static Type sumType(Type element) {
  return element.isF64() ? element : Float32Type::get(element.getContext());
}

void AttentionOp::build(OpBuilder &builder, OperationState &state, Value query, Value key,
                        Value value, Value bias, double scale, bool causal) {
  auto type = cast<RankedTensorType>(query.getType());
  SmallVector<int64_t> shape(type.getShape());
  auto logSum =
      RankedTensorType::get(ArrayRef<int64_t>(shape).drop_back(), sumType(type.getElementType()));
  shape.back() = cast<RankedTensorType>(value.getType()).getShape().back();
  build(builder, state, type.clone(shape), logSum, query, key, value, bias, APFloat(scale), causal);
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

LogicalResult AttentionOp::verify() {
  return checkOperands(*this, getQuery().getType(), getKey().getType(), getValue().getType(),
                       getBias(), getOutput().getType(), getLogSum().getType());
}

LogicalResult AttentionGradOp::verify() {
  if (getGradient().getType() != getOutput().getType())
    return emitOpError() << "expects a gradient of type " << getOutput().getType() << ", got "
                         << getGradient().getType();
  if (getQueryGradient().getType() != getQuery().getType() ||
      getKeyGradient().getType() != getKey().getType() ||
      getValueGradient().getType() != getValue().getType())
    return emitOpError("expects results of the types of query, key and value");
  return checkOperands(*this, getQuery().getType(), getKey().getType(), getValue().getType(),
                       getBias(), getOutput().getType(), getLogSum().getType());
}

//===-- sharding -----------------------------------------------------------------------------===//

namespace {
/// The factors of attention; `toScores`: query, output, row sums and what is shaped like them,
/// `toKeys`: key, value and what is shaped like them.
class AttentionFactors {
public:
  AttentionFactors(Operation *op, RankedTensorType query, RankedTensorType key, bool causal,
                   Value bias)
      : op(op), rule(ShardingRule::emptyFor(op)), query(query.getShape()), key(key.getShape()),
        causal(causal), bias(bias) {}

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
        operands.back() = dim;
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
    // Which columns a row sees would depend on where the rows of a shard begin.
    if (!causal)
      add(2, query[2], /*withColumns=*/false);
    rule.complete(op);
    return rule;
  }

private:
  Operation *op;
  ShardingRule rule;
  ArrayRef<int64_t> query, key;
  bool causal;
  Value bias;
};
} // namespace

ShardingRule AttentionOp::getShardingRule() {
  return AttentionFactors(*this, getQuery().getType(), getKey().getType(), getCausal(), getBias())
      .build({0}, {1, 2}, {0, 1}, {});
}

ShardingRule AttentionGradOp::getShardingRule() {
  return AttentionFactors(*this, getQuery().getType(), getKey().getType(), getCausal(), getBias())
      .build({0, 3, 4, 5}, {1, 2}, {0}, {1, 2});
}

//===-- cost ---------------------------------------------------------------------------------===//

/// Of one product over the scores per element of a row of query and of value; a triangle is half.
static double flopsOf(ArrayRef<RankedTensorType> operands, bool causal, double perSize,
                      double perValueSize) {
  ArrayRef<int64_t> q = operands[0].getShape(), v = operands[2].getShape();
  double scores = static_cast<double>(q[0] * q[1]) * static_cast<double>(q[2] * v[2]);
  return (causal ? 1 : 2) * scores * (perSize * q[3] + perValueSize * v[3]);
}

double AttentionOp::getFlops(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return flopsOf(operands, getCausal(), 1, 1);
}

double AttentionGradOp::getFlops(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return flopsOf(operands, getCausal(), 3, 2);
}
