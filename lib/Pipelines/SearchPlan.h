// SPDX-License-Identifier: Apache-2.0
// The search of a plan with recomputation: shardings under the memory limit and under higher ones,
// and what has to be computed again for them to fit.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// What autopar-search is told.
SearchPassOptions searchOptions(const AutoShardOptions &options);

/// Holds values across phases, and leaves the best plan in `handoff`; none where the options name a
/// plan to follow. `handoff.again` leaves out searches that are known to find nothing better.
/// `recompute=auto` computes again what has to be for a faster plan to fit the memory limit, `full`
/// every layer, `none` nothing. An inference step has nothing to compute again.
LogicalResult searchPlan(ModuleOp module, const AutoShardOptions &options,
                         const LowerOptions &lower, SearchHandoff &handoff);

/// The phase that writes a plan onto the operations, for a plan at hand. `isVerified`: what becomes
/// of it is.
LogicalResult annotatePlan(ModuleOp module, const ::autopar::Plan &plan, bool isVerified = true);

/// What a plan takes for what it names to be computed again, as its `believed` then says: time, and
/// the memory of each mesh. `details` are the plan's without recomputation.
LogicalResult priceRecomputation(ModuleOp module, const AutoShardOptions &options,
                                 const LowerOptions &lower, const ::autopar::PlanDetails &details,
                                 ::autopar::Plan &plan);

/// Believes of the plan in `handoff`, if it is not judged yet, the memory of what its operations
/// become: fusion groups, with everything kept. Of more than 50,000 operations, and where that is
/// over the limit, it stays what the search counts.
LogicalResult believePeak(ModuleOp module, const AutoShardOptions &options,
                          const LowerOptions &lower, SearchHandoff &handoff);

/// Lowers a copy of the module along the plan of `handoff` until memory is planned, and while that
/// is over the limit lets as much more be computed again where `recompute=auto` permits it. What
/// the program really needs (scratch of library calls, gaps between buffers) is known only then.
/// Where nothing fits, `leastBytes` gets what a device needs by the smallest program. A plan that
/// is lowered already fits.
LogicalResult fitToMemory(ModuleOp module, const AutoShardOptions &options,
                          const LowerOptions &lower, SearchHandoff &handoff,
                          int64_t *leastBytes = nullptr);

/// searchPlan() for a plan whose program fits, as fitToMemory() says: what is refused is searched
/// again with less to promise.
LogicalResult searchFitting(ModuleOp module, const AutoShardOptions &options,
                            const LowerOptions &lower, SearchHandoff &handoff);

/// Takes out of host memory what of a plan's state there is room for on the devices, by the
/// programs that fitToMemory() left, where that makes them faster.
LogicalResult keepOnDevices(ModuleOp module, const AutoShardOptions &options,
                            const LowerOptions &lower, SearchHandoff &handoff);

/// Planning memory knows the largest device only; a rank may be on a smaller one.
::autopar::Status checkDevices(ModuleOp module, const ::autopar::Cluster &cluster);

/// Says of the plan in `handoff` whether a step takes longer than one would if memory were free: it
/// computes again what nobody demanded, or the same search finds a faster sharding without the
/// limit. Of one with state in host memory that is compared elsewhere. `module` is the one that was
/// searched, with its holds.
LogicalResult weighPlan(ModuleOp module, const AutoShardOptions &options, SearchHandoff &handoff);

/// Believes of the plan in `handoff` what the kernels take that it would become, unless that is
/// known.
LogicalResult believeKernels(ModuleOp module, const AutoShardOptions &options,
                             const LowerOptions &lower, SearchHandoff &handoff);

} // namespace mlir::autopar
