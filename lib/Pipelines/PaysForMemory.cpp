// SPDX-License-Identifier: Apache-2.0
// What a plan takes longer for the memory limit. A search without a limit is the fast part of one
// with it, and where its answer fits it is the same answer.
#include "SearchPlan.h"

#include "autopar/Cost/Mesh.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::autopar;

/// More bytes than there are, and fewer than sums of them overflow at.
static constexpr int64_t kAnyBytes = 1LL << 60;
/// Of a step: what sums of its parts differ by when they are made in another order.
static constexpr double kRounding = 1e-9;

/// What a step takes by the search if memory is free; by what a layer takes where all are computed
/// again on demand.
static FailureOr<double> freeUs(ModuleOp module, const AutoShardOptions &options,
                                const SearchHandoff &handoff) {
  SearchHandoff freed;
  freed.start = handoff.start;
  SearchPassOptions search = searchOptions(options);
  search.memoryLimit = kAnyBytes;
  search.planFile = "";
  search.computesAgain =
      nameOf(options.recompute == "full" ? ComputesAgain::Layers : ComputesAgain::Nothing).str();
  if (handoff.plan->stages.size() > 1) { // others were weighed when it was cut
    ::autopar::Result<std::vector<::autopar::Mesh>> meshes = handoff.plan->stageMeshes();
    if (!meshes)
      return emitError(module.getLoc()) << meshes.status().message();
    search.meshShape = ::autopar::shapeText(*meshes);
  }
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // nothing is changed
  manager.addPass(createSearchPass(search, freed));
  if (failed(manager.run(module)))
    return failure();
  return freed.plan->believed.stepUs;
}

static FailureOr<bool> paysForMemory(ModuleOp module, const AutoShardOptions &options,
                                     const SearchHandoff &handoff) {
  const ::autopar::PlanBelief &believed = handoff.plan->believed;
  if (options.engine == "random")
    return false; // is not chosen by cost
  bool isDemanded = options.recompute == "full";
  if (handoff.isHeldBack || !handoff.plan->offloadActivations.empty() ||
      (!isDemanded && !handoff.plan->recompute.empty()))
    return true;
  FailureOr<double> free = freeUs(module, options, handoff);
  if (failed(free))
    return failure();
  return believed.stepUs - believed.recomputeUs > (1 + kRounding) * *free;
}

LogicalResult mlir::autopar::weighPlan(ModuleOp module, const AutoShardOptions &options,
                                       SearchHandoff &handoff) {
  if (!handoff.plan->offload.empty())
    return success();
  FailureOr<bool> pays = paysForMemory(module, options, handoff);
  if (failed(pays))
    return failure();
  handoff.paysForMemory = *pays;
  return success();
}
