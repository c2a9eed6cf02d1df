// SPDX-License-Identifier: Apache-2.0
// Collectives work on contiguous buffers, rank-major. Where the dimension that is joined or split
// is not the outermost one, a transposing kernel stands before or after.
#include "ProgramBuilder.h"

#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

static exec::Reduction reductionOf(ReduceKind kind) {
  switch (kind) {
  case ReduceKind::Prod:
    return exec::Reduction::Prod;
  case ReduceKind::Max:
  case ReduceKind::Or:
    return exec::Reduction::Max;
  case ReduceKind::Min:
  case ReduceKind::And:
    return exec::Reduction::Min;
  case ReduceKind::Sum:
    return exec::Reduction::Sum;
  }
  return exec::Reduction::Sum;
}

static bool isOutermost(ArrayRef<int64_t> shape, int64_t dim) {
  return llvm::all_of(shape.take_front(dim), [](int64_t extent) { return extent == 1; });
}

namespace {
/// One collective being lowered.
struct Collective {
  ProgramBuilder &program;
  Operation *op;
  MeshOp mesh;
  ArrayAttr axes;
  int64_t ranks;

  Value call(exec::CollectiveKind kind, Value input, RankedTensorType inputType,
             RankedTensorType outputType, exec::Reduction reduction = exec::Reduction::Sum,
             Value output = {}) {
    if (!output)
      output = program.createBuffer(getOpId(op) + ".moved", outputType);
    auto instruction = exec::CollectiveOp::create(
        program.step(), op->getLoc(), kind, input, output, program.groupOver(mesh, axes), reduction,
        inputType.getElementType(), inputType.getNumElements(), exec::Queue::Communication);
    program.describe(instruction, op,
                     exec::stringifyCollectiveKind(kind) + "/" +
                         Twine(exec::tensorBytes(inputType)) + "/" + Twine(ranks),
                     0);
    return output;
  }

  /// [.., D, ..] -> [n, .., D / n, ..]: the parts of a dimension, one after the other.
  FailureOr<Value> splitOutermost(Value input, RankedTensorType type, int64_t dim,
                                  RankedTensorType &splitType) {
    SmallVector<int64_t> parts(type.getShape()), order, shape;
    parts[dim] /= ranks;
    parts.insert(parts.begin() + dim, ranks);
    order.push_back(dim);
    for (int64_t i = 0; i < static_cast<int64_t>(parts.size()); ++i)
      if (i != dim)
        order.push_back(i);
    for (int64_t i : order)
      shape.push_back(parts[i]);
    splitType = RankedTensorType::get(shape, type.getElementType());
    if (isOutermost(type.getShape(), dim))
      return input;
    Value output = program.createBuffer(getOpId(op) + ".split", splitType);
    auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      Value split = ReshapeOp::create(
          builder, op->getLoc(), RankedTensorType::get(parts, type.getElementType()), inputs[0]);
      return {TransposeOp::create(builder, op->getLoc(), split, order)};
    };
    if (failed(program.launchGroup(op, {type}, {input}, {splitType}, {output}, build)))
      return failure();
    return output;
  }

  /// [n, .., D, ..] -> [.., n * D, ..], cut to the result's extent.
  LogicalResult joinInto(Value input, RankedTensorType joined, int64_t dim, Value result) {
    auto type = cast<RankedTensorType>(result.getType());
    ArrayRef<int64_t> part = joined.getShape().drop_front();
    bool isWhole = type.getNumElements() == joined.getNumElements();
    if (isOutermost(part, dim) && isWhole) {
      program.setView(result, {input, denseStrides(type.getShape())});
      return success();
    }
    SmallVector<int64_t> order, shape(part);
    for (int64_t i = 0; i < static_cast<int64_t>(part.size()); ++i) {
      if (i == dim)
        order.push_back(0);
      order.push_back(i + 1);
    }
    shape[dim] *= ranks;
    Value output = program.createRowMajorResult(result);
    auto build = [&](OpBuilder &builder, ValueRange inputs) -> SmallVector<Value> {
      Location loc = op->getLoc();
      Value value = TransposeOp::create(builder, loc, inputs[0], order);
      value = ReshapeOp::create(builder, loc, RankedTensorType::get(shape, type.getElementType()),
                                value);
      if (!isWhole)
        value = SliceOp::create(builder, loc, type, value, SmallVector<int64_t>(shape.size(), 0),
                                SmallVector<int64_t>(shape.size(), 1));
      return {value};
    };
    return program.launchGroup(op, {joined}, {input}, {type}, {output}, build);
  }
};
} // namespace

static RankedTensorType withRanks(int64_t ranks, RankedTensorType type) {
  SmallVector<int64_t> shape(type.getShape());
  shape.insert(shape.begin(), ranks);
  return RankedTensorType::get(shape, type.getElementType());
}

static LogicalResult lowerAllReduce(Collective &collective, AllReduceOp op, Value input) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  // In place where nothing else looks at the partial value.
  Operation *producer = op.getInput().getDefiningOp();
  bool inPlace =
      producer && op.getInput().hasOneUse() && isa<GroupOp, DotGeneralOp, ConvolutionOp>(producer);
  Value output = inPlace ? input : Value();
  output = collective.call(exec::CollectiveKind::AllReduce, input, type, type,
                           reductionOf(op.getKind()), output);
  collective.program.setView(op.getResult(), {output, denseStrides(type.getShape())});
  return success();
}

static LogicalResult lowerReduceScatter(Collective &collective, ReduceScatterOp op, Value input) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  auto result = cast<RankedTensorType>(op.getType());
  if (type.getDimSize(op.getDim()) != collective.ranks * result.getDimSize(op.getDim()))
    return op.emitOpError() << "expected dimension " << op.getDim() << " of " << type << " to be "
                            << collective.ranks << " times that of " << result;
  RankedTensorType split;
  FailureOr<Value> parts = collective.splitOutermost(input, type, op.getDim(), split);
  if (failed(parts))
    return failure();
  Value output = collective.call(exec::CollectiveKind::ReduceScatter, *parts, split, result,
                                 reductionOf(op.getKind()));
  collective.program.setView(op.getResult(), {output, denseStrides(result.getShape())});
  return success();
}

static LogicalResult lowerAllToAll(Collective &collective, AllToAllOp op, Value input) {
  auto type = cast<RankedTensorType>(op.getInput().getType());
  if (type.getDimSize(op.getSplitDim()) % collective.ranks)
    return op.emitOpError() << "expected dimension " << op.getSplitDim() << " of " << type
                            << " to be divisible by " << collective.ranks;
  RankedTensorType split;
  FailureOr<Value> parts = collective.splitOutermost(input, type, op.getSplitDim(), split);
  if (failed(parts))
    return failure();
  Value moved = collective.call(exec::CollectiveKind::AllToAll, *parts, split, split);
  return collective.joinInto(moved, split, op.getConcatDim(), op.getResult());
}

LogicalResult mlir::autopar::lowerCollective(ProgramBuilder &program, Operation *op) {
  auto axes = op->getAttrOfType<ArrayAttr>("axes");
  MeshOp mesh = program.meshOf(op, op->getAttrOfType<FlatSymbolRefAttr>("mesh"), axes);
  if (!mesh)
    return failure();
  if (cast<RankedTensorType>(op->getResult(0).getType()).getNumElements() == 0) {
    program.createRowMajorResult(op->getResult(0));
    return success();
  }
  FailureOr<Value> input = program.rowMajorBuffer(op->getOperand(0));
  if (failed(input))
    return failure();
  Collective collective{program, op, mesh, axes, mesh.axesSize(axes)};
  if (auto reduce = dyn_cast<AllReduceOp>(op))
    return lowerAllReduce(collective, reduce, *input);
  if (auto scatter = dyn_cast<ReduceScatterOp>(op))
    return lowerReduceScatter(collective, scatter, *input);
  if (auto exchange = dyn_cast<AllToAllOp>(op))
    return lowerAllToAll(collective, exchange, *input);
  auto gather = cast<AllGatherOp>(op);
  auto type = cast<RankedTensorType>(gather.getInput().getType());
  RankedTensorType joined = withRanks(collective.ranks, type);
  Value moved = collective.call(exec::CollectiveKind::AllGather, *input, type, joined);
  return collective.joinInto(moved, joined, gather.getDim(), gather.getResult());
}

LogicalResult mlir::autopar::lowerMessage(ProgramBuilder &program, Operation *op) {
  bool isEvaluated = op->hasAttr("evaluated");
  auto mark = [&](Operation *instruction, Type type) {
    program.describe(instruction, op,
                     op->getName().stripDialect() + "/" +
                         Twine(exec::tensorBytes(cast<RankedTensorType>(type))),
                     0);
    if (isEvaluated)
      instruction->setAttr("evaluated", UnitAttr::get(op->getContext()));
  };
  if (auto receive = dyn_cast<ReceiveOp>(op)) {
    auto type = cast<RankedTensorType>(receive.getType());
    Value buffer = program.createRowMajorResult(receive.getResult());
    mark(exec::RecvOp::create(program.step(), op->getLoc(), buffer,
                              program.peerAt(receive.getPosition(), receive.getPeersAttr()),
                              exec::tensorBytes(type), receive.getTag(), exec::Queue::Receive),
         type);
    return success();
  }
  auto send = cast<SendOp>(op);
  auto type = cast<RankedTensorType>(send.getInput().getType());
  FailureOr<Value> buffer = program.rowMajorBuffer(send.getInput());
  if (failed(buffer))
    return failure();
  mark(exec::SendOp::create(program.step(), op->getLoc(), *buffer,
                            program.peerAt(send.getPosition(), send.getPeersAttr()),
                            exec::tensorBytes(type), send.getTag(), exec::Queue::Send),
       type);
  return success();
}
