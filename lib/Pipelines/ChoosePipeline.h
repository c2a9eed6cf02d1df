// SPDX-License-Identifier: Apache-2.0
// How many micro-batches, how many pipeline stages, and by which schedule: estimates lead to the
// few that are cut, searched and timed on the event engine.
#pragma once

#include "PipelinePlaces.h"

#include "autopar/Cost/Cluster.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Replaces `module` (whole tensors) by the one that is split and cut as is best, and leaves its
/// plan in `handoff`; what was rejected stands in the plan. With `mustFit` one whose program fits,
/// as fitToMemory() says. `onCandidate` is told what is tried.
/// Failure: nothing has a plan; the diagnostics say why.
LogicalResult choosePipeline(OwningOpRef<ModuleOp> &module, const PipelineChoices &choices,
                             const AutoShardOptions &options, const LowerOptions &lower,
                             const ::autopar::Cluster &cluster, bool mustFit,
                             SearchHandoff &handoff,
                             function_ref<void(const std::string &)> onCandidate);

} // namespace mlir::autopar
