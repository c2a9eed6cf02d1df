// SPDX-License-Identifier: Apache-2.0
// The operations of a walk through a step as tasks of a rank's queues, for what lowering for GPUs
// moves to where others wait (autopar-fill-waits).
#pragma once

#include "KernelTime.h"

#include "autopar/VirtualTime/FillWaits.h"

#include <map>

namespace mlir::autopar {

class RecordedStep {
public:
  RecordedStep() = default;
  RecordedStep(const RecordedStep &) = delete; // `current` points into it

  /// Values of one micro-batch are not those of another that is under way at the same time.
  void turnTo(int32_t microBatch) { current = &perMicroBatch[microBatch]; }
  /// An operation that takes time, on the queue of collectives too or, `isAlone`, not beside
  /// others. Updates stay: those of many parameters are one launch.
  void add(Operation *op, const KernelTime::Parts &parts, bool isAlone, bool isUpdate);
  /// The kernel that puts the parts of a collective's result in order, for who reads it as
  /// `operand`.
  void putInOrder(Value operand, Value result, double us);
  /// A message of `value`, which kernels before it must not keep waiting.
  void send(Value value);
  /// One whose results are there with its operands.
  void pass(Operation *op);
  /// What a step is shorter on a device of so much memory when waits are filled.
  double filledUs(int64_t memoryBytes) const;

private:
  using Makers = SmallVector<int32_t, 1>;
  int32_t addTask(int32_t queue, double us, ArrayRef<int32_t> before, bool mayMove);
  Makers makersOf(Operation *op) const;

  struct Values {
    DenseMap<Value, Makers> makers;
    DenseMap<Value, int32_t> lastReaders;
  };

  std::vector<::autopar::QueuedTask> tasks;
  std::map<int32_t, Values> perMicroBatch;
  Values *current = &perMicroBatch[0];
};

} // namespace mlir::autopar
