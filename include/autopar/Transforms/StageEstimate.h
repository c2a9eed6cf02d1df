// SPDX-License-Identifier: Apache-2.0
// What a step would take if the function were cut into pipeline stages, without cutting it:
// fast enough to ask for every number of stages and micro-batches.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Plan/Constraints.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Transforms/ComputesAgain.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <memory>

namespace mlir::autopar {

/// How stages share the devices of a cluster.
enum class DeviceShares {
  Equal, ///< as many each, in order
  Parts, ///< what is fastest by the dynamic program, in equal parts of nodes and in whole nodes
  Any,   ///< the same in any number
  Given  ///< each stage has the mesh that the constraints say, on the next of its devices
};

/// What was found of meshes, whatever was the time to beat: another estimate of the same function,
/// stages, shares and share of memory need not search them again.
struct SolvedMeshes;

struct StageEstimateOptions {
  int64_t stages = 1;
  DeviceShares shares = DeviceShares::Equal;
  int64_t memoryLimit = 0; ///< bytes per device; 0: the cluster's
  double memoryShare = 1;  ///< what of it may be used
  bool recomputes = false; ///< what does not fit may be computed again
  double bubble = 1;       ///< what the schedule leaves of 1F1B's
  std::string engine = "auto";
  uint64_t seed = 1;
  ::autopar::Constraints constraints;
  /// Of more than 16 devices only meshes whose innermost axis is about as long as this; 0: all.
  int64_t near = 0;
  /// Nobody is interested in a plan that takes as long as this or longer.
  double boundUs = std::numeric_limits<double>::infinity();
  /// But in one that fits without a search for it and takes less than this.
  double nearUs = 0;
  /// If given: gets what the fastest mesh takes without a memory limit, where that is known. No
  /// plan is faster by the estimate.
  double *leastUs = nullptr;
  /// If given: the least of itself and what meshes take without a memory limit on which no sharding
  /// was found that fits.
  double *unfitUs = nullptr;
  /// If given: gets what a device holds at the least, by the guess, where that is far too much.
  int64_t *leastBytes = nullptr;
  std::shared_ptr<SolvedMeshes> solved; ///< from an estimate like this one, and for the next
};

/// Extent of a mesh's axis with the fastest links; 1 for one axis, whose devices are all alike.
inline int64_t innermost(const ::autopar::Mesh &mesh) {
  return mesh.axes.size() > 1 ? mesh.axes.back().size : 1;
}

struct StageEstimate {
  double stepUs = 0; ///< by the slowest of stages that are cut by their compute
  /// Of the uncut function on the mesh of the slowest stage.
  ::autopar::Plan plan;
  std::vector<::autopar::Mesh> meshes; ///< the best for each stage, on its devices
  /// How many times as long each mesh takes as its work shared evenly; none: all the same.
  std::vector<double> paces;
  /// What its sharding was searched with. As much of that is computed again, in the step's time
  /// too, as makes it fit.
  ComputesAgain again = ComputesAgain::Nothing;
};

std::shared_ptr<SolvedMeshes> makeSolvedMeshes();

/// The best meshes of stages and the sharding on them, by the memory of the first stage of equal
/// ones if that were the largest. BadInput where none fits or is faster than the bound, or where
/// devices that are not shared equally would give nothing else, or nothing faster, than those that
/// are.
::autopar::Result<StageEstimate> estimateStages(func::FuncOp function,
                                                const ::autopar::Cluster &cluster,
                                                const StageEstimateOptions &options);

} // namespace mlir::autopar
