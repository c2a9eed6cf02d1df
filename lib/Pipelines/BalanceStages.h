// SPDX-License-Identifier: Apache-2.0
// A cut into stages and the search of its shardings, in loops: what a mesh takes, and whether its
// part fits, is known only once it has been searched, and what its kernels take once it is lowered.
#pragma once

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

struct CutPlan {
  OwningOpRef<ModuleOp> module; ///< cut and searched
  SearchHandoff found;
  std::vector<double> workUs;  ///< of each mesh in a micro-batch, shared evenly; may be empty
  std::vector<double> extraUs; ///< what the cut was told that each mesh takes beside it
  double waitsUs = 0; ///< once it was timed by kernels: of a step, a mesh waits for collectives
};

/// Which cuts are left as they are: those that could not become faster than this.
struct BalanceBounds {
  double missingUs; ///< where memory is missing
  double fittingUs; ///< where it is not; 0: all
};

/// Cuts a copy of `module` into the stages that the options say and searches from what `start`
/// says; cuts it again by what meshes turned out to take and to need, while that is faster than
/// before, or misses less memory.
/// Failure: there is no plan; diagnostics say why not for the first cut, and `leastBytes` gets
/// what a device needs by the cut that misses the least memory, where that is known.
FailureOr<CutPlan> cutAndSearch(ModuleOp module, const AutoShardOptions &options,
                                const LowerOptions &lower, SearchHandoff start,
                                BalanceBounds bounds, int64_t *leastBytes = nullptr);

/// The same for stages that are demanded: balanced by the search and by kernels. With `mustFit` the
/// program fits, as fitToMemory() says; where a balanced one does not, cut for memory alone, and
/// where that does not either, searched with less to promise.
FailureOr<CutPlan> cutDemanded(ModuleOp module, const AutoShardOptions &options,
                               const LowerOptions &lower, bool mustFit);

/// Says what a step of the plan takes by its kernels (Plan::believed).
LogicalResult timeByKernels(const AutoShardOptions &options, const LowerOptions &lower,
                            CutPlan &plan);

/// Says what a step of the plan takes by its kernels (Plan::believed). Cuts `module`, of which
/// `plan` is a cut, again by what meshes work in them, while a step gets shorter by that.
LogicalResult refineByKernels(ModuleOp module, const AutoShardOptions &options,
                              const LowerOptions &lower, CutPlan &plan);

} // namespace mlir::autopar
