// SPDX-License-Identifier: Apache-2.0
// The parts of a step whose operations run one after the other, for passes that put them into
// another order by what they take: a micro-batch, what stands before and behind all of them, or a
// row of a pipeline's schedule.
#pragma once

#include "Cost/KernelTime.h"
#include "Cost/StepWork.h"

#include "autopar/Transforms/Target.h"

namespace mlir::autopar {

struct StepPart {
  ArrayRef<Operation *> ops; ///< in order
  const StepWork &work;
  KernelTime &times;
  const ::autopar::DeviceType &device;
  int64_t waitingBytes; ///< of the device's memory, for what stands there longer than it must
};

/// Calls for every part of @main, by the cost model on the cluster (a description, else the
/// module's), within the limit of memory (0: the device's). Nothing where there is no such
/// function, and where no cluster is known.
LogicalResult forEachPart(ModuleOp module, StringRef cluster, Target target, int64_t memoryLimit,
                          function_ref<void(const StepPart &)> call);

} // namespace mlir::autopar
