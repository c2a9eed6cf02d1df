// SPDX-License-Identifier: Apache-2.0
// What pipeline stages change in costs: how many micro-batches a value is held for, and how long a
// step takes when meshes work at the same time.
#pragma once

#include "Cost/StepOutline.h"
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/Mesh.h"
#include "autopar/VirtualTime/EventEngine.h"

namespace mlir::autopar {

/// What a task of the event engine is.
struct PipelineTask {
  enum class Kind { Before, Forward, Backward, Weight, Message, After };
  Kind kind;
  int32_t stage = -1, microBatch = -1; ///< -1: of a whole mesh
  int32_t target = -1;                 ///< of a message: the stage that it goes to
};

/// A step on the event engine.
struct PipelineRun {
  std::vector<std::string> queues; ///< meshes, then links between them
  std::vector<int32_t> queueOf;    ///< per task; -1: of the latency of a message
  std::vector<PipelineTask> tasks;
  ::autopar::VirtualRun times;
};

class PipelineModel {
public:
  /// `outline` outlives it; `schedule` is that of its function, `meshes` are where its stages are.
  /// Without stages there is one mesh and nothing is different.
  PipelineModel(const StepOutline &outline, const ::autopar::Schedule &schedule,
                ArrayRef<::autopar::Mesh> meshes, const ::autopar::Cluster &cluster);

  int32_t meshes() const { return table.meshes; }
  const ::autopar::Schedule &schedule() const { return table; }
  /// The mesh that holds a value: that of its stage, or of its first reader that has one.
  int32_t meshOf(Value value) const;
  /// The most micro-batches of the operation's stage whose activations wait for their gradients.
  int64_t inFlight(Operation *op) const;

  /// A step on the event engine: rows of the schedule on their meshes, messages on the links
  /// between meshes, what runs once around them. Of a single micro-batch each mesh runs its
  /// operations in order.
  /// `timeUs` is an operation's time in one step, `bytes` what a rank receives of a transfer.
  ::autopar::Result<PipelineRun> run(function_ref<double(Operation *)> timeUs,
                                     function_ref<int64_t(Operation *)> bytes) const;

private:
  const StepOutline &outline;
  const ::autopar::Cluster &cluster;
  ::autopar::Schedule table;
  std::vector<::autopar::Mesh> places; ///< per mesh
  SmallVector<int32_t> flights;        ///< per stage, the most micro-batches in flight
};

} // namespace mlir::autopar
