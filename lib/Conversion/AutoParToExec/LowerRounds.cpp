// SPDX-License-Identifier: Apache-2.0
// What the step repeats: an entry of its own, run by several rows of the timetable. What one round
// leaves for the next lies where the round before left it.
#include "ProgramBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

bool ProgramBuilder::isLasting(Value buffer) const {
  Value root = exec::rootOf(buffer).first.getResult();
  return root == rankValues || root == controlWords ||
         llvm::any_of(arguments, [&](const Argument &info) { return info.buffer == root; }) ||
         llvm::any_of(constants, [&](const auto &constant) { return constant.second == root; });
}

LogicalResult ProgramBuilder::beginRounds(RoundBeginOp op) {
  for (auto [value, result] : llvm::zip_equal(op.getInitial(), op.getResults())) {
    Rounds::Found found;
    if (isLoadTime(value)) {
      found.isFixed = true;
      setView(result, viewOf(value));
    } else if (Value buffer = knownBlocked(value)) {
      found = {{buffer, {}}, /*isBlocked=*/true};
      blocked[result] = buffer;
    } else {
      found.view = viewOf(value);
      // What is read where it lies for good cannot be replaced there.
      if (isLasting(found.view.buffer)) {
        auto type = cast<RankedTensorType>(value.getType());
        FailureOr<Value> ordered = rowMajorBuffer(value);
        if (failed(ordered))
          return failure();
        found.view = {createBuffer(nameOf(value) + ".in_round", type),
                      denseStrides(type.getShape())};
        describe(exec::CopyOp::create(step(), op.getLoc(), *ordered, 0, found.view.buffer, 0,
                                      exec::tensorBytes(type)),
                 value.getDefiningOp(), "copy", 0);
      }
      setView(result, found.view);
    }
    rounds->found.push_back(std::move(found));
  }
  stepBuilder = rounds->round;
  return success();
}

bool ProgramBuilder::mayBeOne(const StridedView &left, const StridedView &found) {
  auto [from, fromOffset] = exec::rootOf(left.buffer);
  auto [to, toOffset] = exec::rootOf(found.buffer);
  if (isLasting(left.buffer) || left.strides != found.strides || fromOffset != toOffset ||
      from.getBytes() != to.getBytes() || from.getSpace() != to.getSpace())
    return false;
  auto [own, isNew] = rounds->handedOn.try_emplace(from, to);
  auto [other, isNewToo] = rounds->handedTo.try_emplace(to, from);
  if (own->second != to.getOperation() || other->second != from.getOperation())
    return false;
  if (isNew)
    exec::HandOnOp::create(declarations, from.getLoc(), from.getResult(), to.getResult());
  return true;
}

LogicalResult ProgramBuilder::handOn(Value value, const Rounds::Found &found, Operation *op) {
  if (found.isFixed)
    return success();
  StridedView left;
  if (found.isBlocked) {
    FailureOr<Value> buffer = blockedBuffer(value);
    if (failed(buffer))
      return failure();
    left = {*buffer, {}};
  } else {
    left = viewOf(value);
  }
  bool isThere = exec::rootOf(left.buffer) == exec::rootOf(found.view.buffer) &&
                 left.strides == found.view.strides;
  if (isThere || mayBeOne(left, found.view))
    return success();
  FailureOr<Value> alike =
      found.isBlocked ? FailureOr<Value>(left.buffer) : bufferLaidOutAs(value, found.view.strides);
  if (failed(alike))
    return failure();
  int64_t bytes = exec::tensorBytes(cast<RankedTensorType>(value.getType()));
  describe(exec::CopyOp::create(step(), op->getLoc(), *alike, 0, found.view.buffer, 0, bytes),
           value.getDefiningOp(), "copy", 0);
  // Behind the rounds too: what moves on in them does not lie elsewhere.
  if (!found.isBlocked)
    setView(value, found.view);
  return success();
}

LogicalResult ProgramBuilder::leaveBehind(Value value, Value result) {
  if (Value buffer = knownBlocked(value)) {
    blocked[result] = buffer;
    return success();
  }
  StridedView view = viewOf(value);
  if (exec::slotsOf(view.buffer).first > 1) {
    FailureOr<Value> ordered = rowMajorBuffer(value);
    if (failed(ordered))
      return failure();
    auto type = cast<RankedTensorType>(value.getType());
    view = {createBuffer(nameOf(value) + ".behind", type), denseStrides(type.getShape())};
    describe(exec::CopyOp::create(step(), value.getLoc(), *ordered, 0, view.buffer, 0,
                                  exec::tensorBytes(type)),
             value.getDefiningOp(), "copy", 0);
  }
  setView(result, view);
  return success();
}

LogicalResult ProgramBuilder::endRounds(RoundEndOp op) {
  // What is yet to be lowered reads what this round found: before anything is copied there.
  for (Value value : op.getOperands())
    if (!knownBlocked(value))
      viewOf(value);
  for (auto [value, found] : llvm::zip_equal(op.getHandedOn(), rounds->found))
    if (failed(handOn(value, found, op)))
      return failure();
  for (auto [value, result] : llvm::zip_equal(op.getOperands(), op.getResults()))
    if (failed(leaveBehind(value, result)))
      return failure();
  stepBuilder = rounds->tail;
  return success();
}

Value ProgramBuilder::partInRounds(Value whole, int64_t position, RankedTensorType part,
                                   Operation *named) {
  int64_t bytes = exec::tensorBytes(part), slots = (rounds->count - 1) * rounds->step + 1;
  return exec::ViewOp::create(declarations, named->getLoc(), whole.getType(), getOpId(named), whole,
                              position * bytes, bytes, part, slots, bytes);
}

LogicalResult ProgramBuilder::lowerRoundSlice(RoundSliceOp op) {
  FailureOr<Value> all = rowMajorBuffer(op.getInput());
  if (failed(all))
    return failure();
  auto type = cast<RankedTensorType>(op.getType());
  Value part = partInRounds(*all, op.getFirst(), type, op);
  // Kernels want what they read at multiples of this.
  if (int64_t bytes = exec::tensorBytes(type); bytes % kKernelAlignment != 0) {
    Value copy = createBuffer(getOpId(op), type);
    describe(exec::CopyOp::create(step(), op.getLoc(), part, 0, copy, 0, bytes), op, "copy", 0);
    part = copy;
  }
  setView(op.getResult(), {part, denseStrides(type.getShape())});
  return success();
}

LogicalResult ProgramBuilder::lowerInsertPart(InsertPartOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  auto part = cast<RankedTensorType>(op.getPart().getType());
  Value whole = op.getWhole() ? viewOf(op.getWhole()).buffer : createBuffer(getOpId(op), type);
  FailureOr<Value> from = rowMajorBuffer(op.getPart());
  if (failed(from))
    return failure();
  setView(op.getResult(), {whole, denseStrides(type.getShape())});
  int64_t bytes = exec::tensorBytes(part), position = op.getPosition();
  if (bytes == 0)
    return success();
  Value to = op.getMoves() ? partInRounds(whole, position, part, op) : whole;
  describe(exec::CopyOp::create(step(), op.getLoc(), *from, 0, to,
                                op.getMoves() ? 0 : position * bytes, bytes),
           op, "copy", 0);
  return success();
}
