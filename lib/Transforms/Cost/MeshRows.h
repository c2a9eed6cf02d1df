// SPDX-License-Identifier: Apache-2.0
// What each mesh of a pipeline does with the first and the last micro-batch: beside that can go on
// what runs once for all of them.
#pragma once

#include "KernelTime.h"
#include "StepWork.h"

namespace mlir::autopar {

struct MeshRows {
  std::vector<Operation *> first;  ///< of the first micro-batch, in order
  double arrivesUs = 0;            ///< when that comes here, at the earliest
  std::vector<Operation *> last;   ///< the last row, if it is of the last micro-batch
  double leavesUs = 0;             ///< what others, who wait for that row, still do behind it
  std::vector<Operation *> others; ///< in micro-batches, but for the last row
};

/// Of each mesh; without stages, whole micro-batches. Nothing of rows that run together, which have
/// an order of their own. `times`: of each mesh.
std::vector<MeshRows> meshRows(const StepWork &work, const ::autopar::Schedule &schedule,
                               std::vector<KernelTime> &times);

} // namespace mlir::autopar
