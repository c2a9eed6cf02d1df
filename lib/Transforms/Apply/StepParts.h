// SPDX-License-Identifier: Apache-2.0
// The parts of a step whose operations run one after the other, for passes that put them into
// another order by what they take: a micro-batch, what stands before and behind all of them, or a
// row of a pipeline's schedule.
#pragma once

#include "Cost/KnownTimes.h"
#include "Cost/StepWork.h"

#include "autopar/Transforms/Target.h"

#include <memory>

namespace mlir::autopar {

/// What the operations of a step do, and how long they take on its meshes.
struct TimedStep {
  ::autopar::Cluster cluster;
  std::vector<::autopar::Mesh> meshes;
  StepWork work;
  std::vector<KernelTime> times; ///< per mesh
};

/// By the cost model on the cluster (a description, else the module's). Null where there is none,
/// and where the schedule, which outlives it, is not for the module's meshes: who evaluates or
/// lowers the step says so. `known`, null or of the module, outlives it.
FailureOr<std::unique_ptr<TimedStep>> timeStep(StepOrder order, const ::autopar::Schedule &schedule,
                                               StringRef cluster, Target target,
                                               KnownTimes *known = nullptr);

/// Whether devices of one of the module's meshes compute while they communicate, as the cluster (a
/// description, else the module's) says; not where none is known.
FailureOr<bool> communicatesBeside(func::FuncOp function, StringRef cluster);

struct StepPart {
  ArrayRef<Operation *> ops; ///< in order
  const StepWork &work;
  KernelTime &times;
  const ::autopar::DeviceType &device;
  int64_t waitingBytes; ///< of the device's memory, for what stands there longer than it must
};

/// Calls for every part of @main, by the cost model on the cluster (a description, else the
/// module's), within the limit of memory (0: the device's). Nothing where there is no such
/// function, and where no cluster is known. `known`: null, or of the module. `behindRows`: also for
/// what each mesh does alone behind the rows of a pipeline's schedule.
LogicalResult forEachPart(ModuleOp module, StringRef cluster, Target target, int64_t memoryLimit,
                          KnownTimes *known, function_ref<void(const StepPart &)> call,
                          bool behindRows = false);

} // namespace mlir::autopar
