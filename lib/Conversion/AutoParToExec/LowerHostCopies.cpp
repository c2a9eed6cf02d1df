// SPDX-License-Identifier: Apache-2.0
// Values that wait in host memory: copies on the queues that bring bytes to the host and back. They
// lie there as on the device, in whatever order of dimensions or in blocks of channels.
#include "ProgramBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

static void copy(ProgramBuilder &program, Operation *op, Value from, Value to, exec::Queue queue) {
  int64_t bytes = exec::bytesOf(to);
  if (bytes == 0)
    return;
  auto instruction = exec::CopyOp::create(program.step(), op->getLoc(), from, 0, to, 0, bytes);
  instruction.setQueue(queue);
  program.describe(instruction, op, "host_copy", 0);
}

LogicalResult mlir::autopar::lowerStoreOnHost(ProgramBuilder &program, StoreOnHostOp op) {
  Value onDevice = program.knownBlocked(op.getInput()), onHost;
  if (onDevice) {
    onHost = program.createBlockedResult(op.getResult());
  } else {
    FailureOr<StridedView> view = program.denseView(op.getInput());
    if (failed(view))
      return failure();
    onDevice = view->buffer;
    onHost = program.createBuffer(getOpId(op), cast<RankedTensorType>(op.getType()));
    program.setView(op.getResult(), {onHost, view->strides});
  }
  onHost.getDefiningOp<exec::BufferOp>().setSpace(exec::Space::PinnedHost);
  copy(program, op, onDevice, onHost, exec::Queue::CopyOut);
  return success();
}

LogicalResult mlir::autopar::lowerFetchFromHost(ProgramBuilder &program, FetchFromHostOp op) {
  Value onHost = program.knownBlocked(op.getInput()), onDevice;
  if (onHost) {
    onDevice = program.createBlockedResult(op.getResult());
  } else {
    StridedView view = program.viewOf(op.getInput());
    onHost = view.buffer;
    onDevice = program.createBuffer(getOpId(op), cast<RankedTensorType>(op.getType()));
    program.setView(op.getResult(), {onDevice, view.strides});
  }
  copy(program, op, onHost, onDevice, exec::Queue::CopyIn);
  return success();
}
