// SPDX-License-Identifier: Apache-2.0
// How many pipeline stages: every number that the devices can be shared by is cut and searched, and
// the fastest plan that fits is kept.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Replaces `module` (whole tensors, micro-batches split) by the one in which the best number of
/// stages is cut and the search has left its plan; the others stand in the plan as rejected.
/// `onCandidate` is told what is tried. Failure: no number has a plan; the diagnostics of all say
/// why.
LogicalResult chooseStages(OwningOpRef<ModuleOp> &module, const AutoShardOptions &options,
                           int64_t devices, function_ref<void(int64_t stages)> onCandidate);

} // namespace mlir::autopar
