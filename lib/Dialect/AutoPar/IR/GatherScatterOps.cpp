// SPDX-License-Identifier: Apache-2.0
// Operations that read or change elements at positions which data tells: a shard of the input
// serves the positions that it holds, a shard of the updates those that it has.
#include "SameElementType.h"

#include "autopar/Dialect/AutoPar/IR/Reduction.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t absent = ShardingRule::absent;

//===-- cost ---------------------------------------------------------------------------------===//

/// Of the first operand as many bytes as `picked` holds, of others all.
static int64_t pickedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                           RankedTensorType picked) {
  int64_t bytes = tensorBytes(operands[index]);
  return index == 0 ? std::min(bytes, tensorBytes(picked)) : bytes;
}

int64_t GatherOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                  ArrayRef<RankedTensorType> results) {
  return pickedBytes(index, operands, results[0]);
}

int64_t GatherElementsOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                          ArrayRef<RankedTensorType> results) {
  return pickedBytes(index, operands, results[0]);
}

int64_t ScatterOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                   ArrayRef<RankedTensorType>) {
  return pickedBytes(index, operands, operands[2]);
}

int64_t ScatterElementsOp::getTouchedBytes(unsigned index, ArrayRef<RankedTensorType> operands,
                                           ArrayRef<RankedTensorType>) {
  return pickedBytes(index, operands, operands[2]);
}

// One per update.
double ScatterOp::getFlops(ArrayRef<RankedTensorType> operands, ArrayRef<RankedTensorType>) {
  return static_cast<double>(operands[2].getNumElements());
}

double ScatterElementsOp::getFlops(ArrayRef<RankedTensorType> operands,
                                   ArrayRef<RankedTensorType>) {
  return static_cast<double>(operands[2].getNumElements());
}

//===-- gather -------------------------------------------------------------------------------===//

LogicalResult GatherOp::verify() {
  RankedTensorType input = getInput().getType(), indices = getIndices().getType(),
                   result = getType();
  if (failed(sameElementType(*this, input, result)))
    return failure();
  ArrayRef<int64_t> dims = getDims();
  int64_t batch = getBatchDims();
  if (batch < 0)
    return emitOpError() << "expects no or a positive number of batch dimensions, got " << batch;
  if (dims.empty() || dims.front() < batch || dims.back() >= input.getRank() ||
      dims.back() - dims.front() + 1 != static_cast<int64_t>(dims.size()))
    return emitOpError("expects consecutive dims of the input behind its batch dimensions");
  if (indices.getRank() < batch + 1 ||
      indices.getShape().back() != static_cast<int64_t>(dims.size()))
    return emitOpError() << "expects indices [batch, ..., " << dims.size() << "], got " << indices;
  SmallVector<int64_t> shape(input.getShape().take_front(dims.front()));
  llvm::append_range(shape, indices.getShape().drop_front(batch).drop_back());
  llvm::append_range(shape, input.getShape().drop_front(dims.back() + 1));
  for (int64_t i = 0; i < batch; ++i)
    if (input.getDimSize(i) != indices.getDimSize(i))
      return emitOpError() << "batch dimension " << i << " differs: " << input << " and "
                           << indices;
  if (result.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects result shape [" << shape << "], got " << result;
  return success();
}

/// Index of the factor over the one gathered dimension, if it may be sharded; the last factor
/// before completion.
static bool gatherReduces(GatherOp op) {
  return op.getDims().size() == 1 && !op.getType().getElementType().isInteger(1);
}

ShardingRule GatherOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), indices = getIndices().getType();
  int64_t batch = getBatchDims(), first = getDims().front(), last = getDims().back();
  // Factor 0 is the gathered dimension: a shard contributes the positions that it holds, zero else.
  if (gatherReduces(*this)) {
    rule.addFactor({first, absent}, {absent}, input.getDimSize(first), FactorKind::Reduction);
    rule.factors.back().masksPadding = true;
  }
  for (int64_t dim = 0; dim < first; ++dim)
    rule.addFactor({dim, dim < batch ? dim : absent}, {dim}, input.getDimSize(dim));
  int64_t position = first;
  for (int64_t dim = batch; dim + 1 < indices.getRank(); ++dim)
    rule.addFactor({absent, dim}, {position++}, indices.getDimSize(dim));
  for (int64_t dim = last + 1; dim < input.getRank(); ++dim)
    rule.addFactor({dim, absent}, {position++}, input.getDimSize(dim));
  rule.complete(*this);
  return rule;
}

//===-- Positions of a shard -----------------------------------------------------------------===//

static Value scalarConstant(OpBuilder &builder, Location loc, Type element, int64_t value) {
  auto type = RankedTensorType::get({}, element);
  TypedAttr attribute = isa<FloatType>(element) ? TypedAttr(builder.getFloatAttr(element, value))
                                                : TypedAttr(builder.getIntegerAttr(element, value));
  return ConstantOp::create(builder, loc, DenseElementsAttr::get(type, attribute));
}

static Value splat(OpBuilder &builder, Location loc, RankedTensorType type, int64_t value) {
  Value scalar = scalarConstant(builder, loc, type.getElementType(), value);
  return BroadcastOp::create(builder, loc, type, scalar, ArrayRef<int64_t>{});
}

namespace {
/// Indices [..., 1] into a dimension of which this rank has a shard.
struct OwnPositions {
  Value indices; ///< i64, relative to the shard; zero where another shard has the position
  Value mine;    ///< i1 [...]: whether this one has it
};
} // namespace

/// Of indices into a dimension of `whole` positions, cut into shards of `local`.
static OwnPositions ownPositions(OpBuilder &builder, Location loc, Value indices, int64_t whole,
                                 int64_t local, Value shardIndex) {
  auto indexType = cast<RankedTensorType>(indices.getType());
  auto maskType = RankedTensorType::get(indexType.getShape(), builder.getI1Type());
  auto wideType = RankedTensorType::get(indexType.getShape(), builder.getI64Type());
  if (indexType != wideType)
    indices = CastOp::create(builder, loc, wideType, indices);
  // Positions counted from the end, then relative to this rank's first one.
  Value zero = splat(builder, loc, wideType, 0);
  Value negative = CompareOp::create(builder, loc, maskType, ComparePredicate::Lt, indices, zero);
  Value fromEnd = BinaryOp::create(builder, loc, BinaryKind::Add, indices,
                                   splat(builder, loc, wideType, whole));
  indices = SelectOp::create(builder, loc, negative, fromEnd, indices);
  Value offset = BinaryOp::create(builder, loc, BinaryKind::Mul, shardIndex,
                                  scalarConstant(builder, loc, builder.getI64Type(), local));
  offset = BroadcastOp::create(builder, loc, wideType, offset, ArrayRef<int64_t>{});
  indices = BinaryOp::create(builder, loc, BinaryKind::Sub, indices, offset);
  Value atLeast = CompareOp::create(builder, loc, maskType, ComparePredicate::Ge, indices, zero);
  Value below = CompareOp::create(builder, loc, maskType, ComparePredicate::Lt, indices,
                                  splat(builder, loc, wideType, local));
  Value mine = BinaryOp::create(builder, loc, BinaryKind::And, atLeast, below);
  indices = SelectOp::create(builder, loc, mine, indices, zero);
  auto vectors = RankedTensorType::get(maskType.getShape().drop_back(), builder.getI1Type());
  return {indices, ReshapeOp::create(builder, loc, vectors, mine)};
}

/// `value` where `mine`, whose dimensions are `dims` of the value, `otherwise` elsewhere.
static Value whereMine(OpBuilder &builder, Location loc, Value mine, ArrayRef<int64_t> dims,
                       Value value, Value otherwise) {
  auto maskType = cast<RankedTensorType>(value.getType()).clone(builder.getI1Type());
  mine = BroadcastOp::create(builder, loc, maskType, mine, dims);
  return SelectOp::create(builder, loc, mine, value, otherwise);
}

FailureOr<SmallVector<Value>> GatherOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                  PartitionContext &context) {
  if (!gatherReduces(*this) || context.shardCount(0) == 1)
    return context.cloneLocal(*this, builder, localOperands);
  Location loc = getLoc();
  Value input = localOperands[0];
  int64_t first = getDims().front(), batch = getBatchDims();
  OwnPositions own =
      ownPositions(builder, loc, localOperands[1], getInput().getType().getDimSize(first),
                   cast<RankedTensorType>(input.getType()).getDimSize(first),
                   context.shardIndex(builder, loc, 0));
  RankedTensorType resultType = context.localResultType(0);
  Value gathered = GatherOp::create(builder, loc, resultType, input, own.indices, getDims(), batch);
  if (StringRef id = getOpId(*this); !id.empty())
    setOpId(gathered.getDefiningOp(), id);
  SmallVector<int64_t> dims;
  for (int64_t i = 0, count = getIndices().getType().getRank() - 1; i < count; ++i)
    dims.push_back(i < batch ? i : first + i - batch);
  return SmallVector<Value>{
      whereMine(builder, loc, own.mine, dims, gathered, splat(builder, loc, resultType, 0))};
}

LogicalResult GatherElementsOp::verify() {
  RankedTensorType input = getInput().getType(), indices = getIndices().getType();
  if (failed(sameElementType(*this, input, getType())))
    return failure();
  int64_t along = getDim();
  if (along < 0 || along >= input.getRank() || indices.getRank() != input.getRank() ||
      getType().getShape() != indices.getShape())
    return emitOpError("expects indices of the input's rank, a result of the indices' shape, and a "
                       "dimension within");
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (dim != along && indices.getDimSize(dim) > input.getDimSize(dim))
      return emitOpError() << "indices exceed the input in dimension " << dim;
  return success();
}

ShardingRule GatherElementsOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), indices = getIndices().getType();
  for (int64_t dim = 0; dim < input.getRank(); ++dim) {
    if (dim == static_cast<int64_t>(getDim()))
      rule.addFactor({absent, dim}, {dim}, indices.getDimSize(dim));
    else if (input.getDimSize(dim) == indices.getDimSize(dim))
      rule.addFactor({dim, dim}, {dim}, indices.getDimSize(dim));
  }
  rule.complete(*this);
  return rule;
}

//===-- scatter ------------------------------------------------------------------------------===//

template <typename Scatter>
static LogicalResult verifyUpdated(Scatter op) {
  if (op.getInput().getType() != op.getType())
    return op.emitOpError("expects the result to have the input's type");
  return sameElementType(op, op.getType(), op.getUpdates().getType());
}

LogicalResult ScatterOp::verify() {
  RankedTensorType input = getInput().getType(), indices = getIndices().getType(),
                   updates = getUpdates().getType();
  if (failed(verifyUpdated(*this)))
    return failure();
  int64_t batch = getBatchDims(), most = input.getRank() - batch;
  if (batch < 0 || most < 0)
    return emitOpError() << "expects 0 to " << input.getRank() << " batch dimensions, got "
                         << batch;
  if (indices.getRank() < batch + 1 || indices.getShape().back() > most)
    return emitOpError() << "expects indices [" << (batch ? "batch, " : "")
                         << "..., k] with k at most " << most;
  for (int64_t i = 0; i < batch; ++i)
    if (input.getDimSize(i) != indices.getDimSize(i))
      return emitOpError() << "batch dimension " << i << " differs: " << input << " and "
                           << indices;
  SmallVector<int64_t> shape(indices.getShape().drop_back());
  llvm::append_range(shape, input.getShape().drop_front(batch + indices.getShape().back()));
  if (updates.getShape() != ArrayRef<int64_t>(shape))
    return emitOpError() << "expects updates of shape [" << shape << "], got " << updates;
  return success();
}

/// Updates may be spread over shards where the order in which they are combined does not matter;
/// each shard combines its own with a partial value of the input.
static std::optional<ReductionKind> reductionOf(ScatterKind kind) {
  switch (kind) {
  case ScatterKind::Assign:
    return std::nullopt;
  case ScatterKind::Add:
    return ReductionKind::Sum;
  case ScatterKind::Mul:
    return ReductionKind::Prod;
  case ScatterKind::Max:
    return ReductionKind::Max;
  case ScatterKind::Min:
    return ReductionKind::Min;
  }
  return std::nullopt;
}

/// A factor over dimension `dim` of indices and updates.
static void addUpdateFactor(ShardingRule &rule, ScatterKind kind, int64_t dim, int64_t size) {
  std::optional<ReductionKind> reduction = reductionOf(kind);
  if (!reduction)
    return;
  Factor &factor = rule.factors[rule.addFactor({absent, dim, dim}, {absent}, size,
                                               FactorKind::Reduction, *reduction)];
  factor.partialOperands = {0};
  // Padding adds zero at position zero; other identities are no positions.
  factor.mayBeUneven = kind == ScatterKind::Add;
}

/// Whether shards of the indexed dimension each apply the updates of their own positions: the
/// others become updates that change nothing, which assigning has not.
static bool scatterKeepsOwn(ScatterOp op) {
  return op.getIndices().getType().getShape().back() == 1 && reductionOf(op.getKind());
}

/// The factor of the indexed dimension, if there is but one.
static int64_t indexedFactor(ScatterOp op) {
  return op.getInput().getType().getRank() - op.getBatchDims() - 1;
}

ShardingRule ScatterOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), indices = getIndices().getType();
  int64_t batch = getBatchDims(), kept = batch + indices.getShape().back();
  for (int64_t dim = kept; dim < input.getRank(); ++dim)
    rule.addFactor({dim, absent, indices.getRank() - 1 + dim - kept}, {dim}, input.getDimSize(dim));
  // The indexed dimensions of input and result are the same positions.
  for (int64_t dim = batch; dim < kept; ++dim)
    rule.addFactor({dim, absent, absent}, {dim}, input.getDimSize(dim),
                   scatterKeepsOwn(*this) ? FactorKind::PassThrough : FactorKind::NeedsReplication);
  for (int64_t dim = 0; dim < batch; ++dim)
    rule.addFactor({dim, dim, dim}, {dim}, input.getDimSize(dim));
  for (int64_t dim = batch; dim + 1 < indices.getRank(); ++dim)
    addUpdateFactor(rule, getKind(), dim, indices.getDimSize(dim));
  rule.complete(*this);
  return rule;
}

FailureOr<SmallVector<Value>> ScatterOp::partition(OpBuilder &builder, ValueRange localOperands,
                                                   PartitionContext &context) {
  if (!scatterKeepsOwn(*this) || context.shardCount(indexedFactor(*this)) == 1)
    return context.cloneLocal(*this, builder, localOperands);
  Location loc = getLoc();
  Value input = localOperands[0], updates = localOperands[2];
  int64_t batch = getBatchDims();
  OwnPositions own =
      ownPositions(builder, loc, localOperands[1], getInput().getType().getDimSize(batch),
                   cast<RankedTensorType>(input.getType()).getDimSize(batch),
                   context.shardIndex(builder, loc, indexedFactor(*this)));
  auto dims = llvm::to_vector(llvm::seq<int64_t>(getIndices().getType().getRank() - 1));
  updates = whereMine(builder, loc, own.mine, dims, updates,
                      buildIdentity(builder, loc, cast<RankedTensorType>(updates.getType()),
                                    *reductionOf(getKind())));
  Value result = ScatterOp::create(builder, loc, context.localResultType(0), getKind(), input,
                                   own.indices, updates, batch);
  if (StringRef id = getOpId(*this); !id.empty())
    setOpId(result.getDefiningOp(), id);
  return SmallVector<Value>{result};
}

LogicalResult ScatterElementsOp::verify() {
  RankedTensorType input = getInput().getType(), indices = getIndices().getType(),
                   updates = getUpdates().getType();
  if (failed(verifyUpdated(*this)))
    return failure();
  if (indices.getShape() != updates.getShape() || indices.getRank() != input.getRank() ||
      static_cast<int64_t>(getDim()) >= input.getRank())
    return emitOpError("expects indices and updates of one shape and of the input's rank");
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (dim != static_cast<int64_t>(getDim()) && indices.getDimSize(dim) > input.getDimSize(dim))
      return emitOpError() << "indices exceed the input in dimension " << dim;
  return success();
}

ShardingRule ScatterElementsOp::getShardingRule() {
  ShardingRule rule = ShardingRule::emptyFor(*this);
  RankedTensorType input = getInput().getType(), indices = getIndices().getType();
  for (int64_t dim = 0; dim < input.getRank(); ++dim)
    if (dim != static_cast<int64_t>(getDim()) && input.getDimSize(dim) == indices.getDimSize(dim))
      rule.addFactor({dim, dim, dim}, {dim}, input.getDimSize(dim));
    else
      // The same positions in input and result.
      rule.addFactor({dim, absent, absent}, {dim}, input.getDimSize(dim),
                     FactorKind::NeedsReplication);
  addUpdateFactor(rule, getKind(), getDim(), indices.getDimSize(getDim()));
  rule.complete(*this);
  return rule;
}
