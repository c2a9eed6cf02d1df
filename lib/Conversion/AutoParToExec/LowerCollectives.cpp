// SPDX-License-Identifier: Apache-2.0
// Collectives work on contiguous buffers, rank-major. Where the dimension that is joined or split
// is not the outermost one, a transposing kernel stands before or after.
#include "ProgramBuilder.h"

#include "autopar/Dialect/Exec/IR/Geometry.h"

using namespace mlir;
using namespace mlir::autopar;

static exec::Reduction reductionOf(ReductionKind kind) {
  switch (kind) {
  case ReductionKind::Prod:
    return exec::Reduction::Prod;
  case ReductionKind::Max:
  case ReductionKind::Or:
    return exec::Reduction::Max;
  case ReductionKind::Min:
  case ReductionKind::And:
    return exec::Reduction::Min;
  case ReductionKind::Sum:
    return exec::Reduction::Sum;
  }
  return exec::Reduction::Sum;
}

static exec::CollectiveKind instructionOf(CollectiveOpInterface op) {
  switch (op.getCollectiveKind()) {
  case CollectiveKind::AllReduce:
    return exec::CollectiveKind::AllReduce;
  case CollectiveKind::AllGather:
    return exec::CollectiveKind::AllGather;
  case CollectiveKind::ReduceScatter:
    return exec::CollectiveKind::ReduceScatter;
  case CollectiveKind::AllToAll:
    return exec::CollectiveKind::AllToAll;
  case CollectiveKind::Permute:
    break;
  }
  llvm_unreachable("a permutation is an instruction of its own");
}

namespace {
/// One collective being lowered.
struct Collective {
  ProgramBuilder &program;
  CollectiveOpInterface op;
  MeshOp mesh;
  ArrayAttr axes;
  int64_t ranks;

  Value call(Value input, RankedTensorType inputType, RankedTensorType outputType,
             Value output = {}) {
    if (!output)
      output = program.createBuffer(getOpId(op) + ".moved", outputType);
    exec::CollectiveKind kind = instructionOf(op);
    exec::Reduction reduction = reductionOf(op.getReduction().value_or(ReductionKind::Sum));
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

/// What the parts are taken from: the operand with the parts of its split dimension outermost.
static LogicalResult splitOperand(Collective &collective, Value &buffer, RankedTensorType &type) {
  CollectiveOpInterface op = collective.op;
  int64_t dim = *op.getSplitDimension();
  int64_t extent = type.getDimSize(dim);
  auto result = cast<RankedTensorType>(op->getResult(0).getType());
  if (!op.getJoinedDimension() && extent != collective.ranks * result.getDimSize(dim))
    return op->emitOpError() << "expected dimension " << dim << " of " << type << " to be "
                             << collective.ranks << " times that of " << result;
  if (extent % collective.ranks)
    return op->emitOpError() << "expected dimension " << dim << " of " << type
                             << " to be divisible by " << collective.ranks;
  RankedTensorType split;
  FailureOr<Value> parts = collective.splitOutermost(buffer, type, dim, split);
  if (failed(parts))
    return failure();
  buffer = *parts;
  type = split;
  return success();
}

/// Whether the result takes the operand's place: nothing else looks at the partial value.
static bool reducesInPlace(CollectiveOpInterface op) {
  Operation *producer = op->getOperand(0).getDefiningOp();
  return op.getReduction() && !op.getSplitDimension() && !op.getJoinedDimension() && producer &&
         op->getOperand(0).hasOneUse() &&
         isa<GroupOp, DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp, ConvolutionFilterGradOp,
             GroupedDotOp, GroupedDotRhsGradOp>(producer);
}

LogicalResult mlir::autopar::lowerCollective(ProgramBuilder &program, CollectiveOpInterface op) {
  MeshOp mesh = program.meshOf(op, op.getMeshAttr(), op.getAxes());
  if (!mesh)
    return failure();
  Value result = op->getResult(0);
  auto type = cast<RankedTensorType>(result.getType());
  if (type.getNumElements() == 0) {
    program.createRowMajorResult(result);
    return success();
  }
  FailureOr<Value> input = program.rowMajorBuffer(op->getOperand(0));
  if (failed(input))
    return failure();
  Collective collective{program, op, mesh, op.getAxes(), mesh.axesSize(op.getAxes())};
  auto sent = cast<RankedTensorType>(op->getOperand(0).getType());
  bool isSplit = op.getSplitDimension().has_value();
  if (isSplit && failed(splitOperand(collective, *input, sent)))
    return failure();
  std::optional<int64_t> joined = op.getJoinedDimension();
  RankedTensorType received = !joined ? type : isSplit ? sent : withRanks(collective.ranks, sent);
  Value output = collective.call(*input, sent, received, reducesInPlace(op) ? *input : Value());
  if (joined)
    return collective.joinInto(output, received, *joined, result);
  program.setView(result, {output, denseStrides(type.getShape())});
  return success();
}

LogicalResult mlir::autopar::lowerPermute(ProgramBuilder &program, PermuteOp op) {
  MeshOp mesh = program.meshOf(op, op.getMeshAttr(), op.getAxes());
  if (!mesh)
    return failure();
  FailureOr<Value> input = program.rowMajorBuffer(op.getInput());
  if (failed(input))
    return failure();
  Value output = program.createRowMajorResult(op.getResult());
  int64_t bytes = exec::tensorBytes(op.getType());
  if (bytes == 0)
    return success();
  auto instruction =
      exec::PermuteOp::create(program.step(), op->getLoc(), *input, output,
                              program.permutationOver(mesh, op.getAxes(), op.getSourcesAttr()),
                              bytes, exec::Queue::Communication);
  program.describe(instruction, op, "permute/" + Twine(bytes), 0);
  return success();
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
