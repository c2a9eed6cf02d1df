// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "RecordedStep.h"

#include "autopar/Interfaces/TensorLayout.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::QueuedTask;

int32_t RecordedStep::addTask(int32_t queue, double us, ArrayRef<int32_t> before, bool mayMove) {
  tasks.push_back({queue, us, {before.begin(), before.end()}, 0, mayMove});
  return static_cast<int32_t>(tasks.size()) - 1;
}

RecordedStep::Makers RecordedStep::makersOf(Operation *op) const {
  Makers all;
  for (Value operand : op->getOperands())
    for (int32_t maker : current->makers.lookup(operand))
      if (!llvm::is_contained(all, maker))
        all.push_back(maker);
  return all;
}

void RecordedStep::add(Operation *op, const KernelTime::Parts &parts, bool isAlone, bool isUpdate) {
  Makers before = makersOf(op);
  auto then = [&](int32_t queue, double us) {
    if (us > 0)
      before = {addTask(queue, us, before, !isUpdate)};
  };
  then(QueuedTask::kCompute, parts.beforeUs);
  then(isAlone ? QueuedTask::kCompute : QueuedTask::kCommunication, parts.collectiveUs);
  then(QueuedTask::kCompute, parts.afterUs);
  for (Value result : op->getResults())
    current->makers[result] = before;
  for (Value operand : op->getOperands())
    if (operand.getDefiningOp() && isa<RankedTensorType>(operand.getType()))
      current->lastReaders[operand] = static_cast<int32_t>(tasks.size()) - 1;
}

void RecordedStep::putInOrder(Value operand, Value result, double us) {
  current->makers[operand] = current->makers[result] =
      Makers{addTask(QueuedTask::kCompute, us, current->makers.lookup(result), /*mayMove=*/true)};
}

void RecordedStep::send(Value value) {
  addTask(QueuedTask::kNone, 0, current->makers.lookup(value), /*mayMove=*/false);
}

void RecordedStep::pass(Operation *op) {
  Makers before = makersOf(op);
  for (Value result : op->getResults())
    current->makers[result] = before;
}

double RecordedStep::filledUs(int64_t memoryBytes) const {
  std::vector<QueuedTask> all = tasks;
  for (const auto &[microBatch, values] : perMicroBatch)
    for (auto [value, reader] : values.lastReaders)
      if (reader >= 0)
        all[reader].keptBytes += tensorBytes(cast<RankedTensorType>(value.getType()));
  return ::autopar::fillWaits(all, memoryBytes / ::autopar::kWorthOfWaiting).savedUs;
}
