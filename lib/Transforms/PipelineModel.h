// SPDX-License-Identifier: Apache-2.0
// What pipeline stages change in costs: how many micro-batches a value is held for, and how long a
// step takes when meshes work at the same time.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"

namespace mlir::autopar {

class PipelineModel {
public:
  /// Without stages in the function there is one mesh and nothing is different.
  PipelineModel(func::FuncOp function, const ::autopar::Cluster &cluster);

  int32_t meshes() const { return schedule.meshes; }
  /// The mesh that holds a value: that of its stage, or of its first reader that has one.
  int32_t meshOf(Value value) const;
  /// How many of a value are held at once: results of the forward pass that the backward pass reads
  /// wait for as many micro-batches as are in flight.
  int64_t copiesOf(Value value) const;

  /// Microseconds of a step on the event engine: rows of the schedule on their meshes, messages on
  /// the links between meshes, what runs once around them.
  /// `timeUs` is an operation's time in one step, `bytes` what a transfer sends per rank.
  double stepUs(function_ref<double(Operation *)> timeUs,
                function_ref<int64_t(Operation *)> bytes) const;

private:
  ::autopar::StagePhase phaseOf(Operation *op) const;

  mutable func::FuncOp function; ///< a handle; only read
  const ::autopar::Cluster &cluster;
  Stages stages;
  MicroBatches microBatches;
  BackwardOps backward;
  InputGradientOps inputGradients;
  ::autopar::Schedule schedule;
  std::vector<int32_t> inFlight; ///< per stage
};

} // namespace mlir::autopar
