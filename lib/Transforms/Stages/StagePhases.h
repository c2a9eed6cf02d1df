// SPDX-License-Identifier: Apache-2.0
// What of a stage's work on a micro-batch is forward, gradient of the stage's input, or weight
// gradient; and the schedule that orders it.
#pragma once

#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"

namespace mlir::autopar {

/// Which row of a stage each operation of a micro-batch belongs to.
class StagePhases {
public:
  explicit StagePhases(Block &block);

  ::autopar::StagePhase of(Operation *op) const;
  /// Whether it is a derivative or reads one, or stands behind the first of them and only they read
  /// it. What has no operands is on either side, what the loss depends on is forward: a kernel of
  /// the forward pass may read what is made for derivatives, if it also makes something for them.
  bool isBackward(Operation *op) const { return backward.contains(op); }
  bool isTowardsLoss(Operation *op) const { return towardsLoss.contains(op); }
  /// Whether there is a backward pass.
  bool trains() const { return !backward.empty(); }
  /// A micro-batch goes through the stages once, and its gradients back: error at the first
  /// operation that reads a value sent against that direction.
  LogicalResult verifyDirection(const Stages &stages, const MicroBatches &microBatches) const;

private:
  void findWhatLossNeeds(Block &block);
  void addWhatOnlyBackwardReads(Block &block);

  Block &block;
  bool splitsBackward; ///< as the function's schedule does
  DenseSet<Operation *> towardsLoss;
  DenseSet<Operation *> backward;
  DenseSet<Operation *> sent; ///< what transferred values are made of on their stage
};

/// Where and when a function's operations run.
struct StepOrder {
  explicit StepOrder(func::FuncOp function);

  /// That by which stages and micro-batches run: by the name that the function remembers, 1f1b if
  /// it remembers none.
  ::autopar::Result<::autopar::Schedule> schedule() const;

  mutable func::FuncOp function; ///< a handle; only read
  Stages stages;
  MicroBatches microBatches;
  StagePhases phases;
};

/// StepOrder's, where nothing else is asked.
::autopar::Result<::autopar::Schedule> scheduleOf(func::FuncOp function);
/// The same of what is known of the function.
::autopar::Result<::autopar::Schedule> scheduleOf(func::FuncOp function, const Stages &stages,
                                                  const MicroBatches &microBatches,
                                                  const StagePhases &phases);

} // namespace mlir::autopar
