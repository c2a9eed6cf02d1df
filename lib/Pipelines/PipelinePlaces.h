// SPDX-License-Identifier: Apache-2.0
// The pipelines that there are to choose from, and which of them lie beside each other.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Plan/Constraints.h"
#include "autopar/Transforms/StageEstimate.h"

namespace mlir::autopar {

/// What may be chosen; each list has at least one entry.
struct PipelineChoices {
  std::vector<int64_t> microBatches; ///< rising; one entry: the module is split already
  std::vector<int64_t> stages;       ///< rising; meshes, where several stages take turns on one
  std::vector<std::string> schedules;
  int countsToDouble = 1; ///< steps in `microBatches` to a number about twice as large
};

/// What `options` leave to cost.
::autopar::Result<PipelineChoices> pipelineChoices(ModuleOp module, const AutoShardOptions &options,
                                                   int64_t devices);

/// A pipeline of any schedule: indices into the lists of choices.
struct PipelinePlace {
  size_t microBatches = 0, stages = 0;
  DeviceShares shares = DeviceShares::Equal;
  auto operator<=>(const PipelinePlace &) const = default;
};

class PipelinePlaces {
public:
  PipelinePlaces(const PipelineChoices &choices, const ::autopar::Cluster &cluster,
                 const ::autopar::Constraints &demands)
      : choices(choices), cluster(cluster), demands(demands) {}

  std::string nameOf(PipelinePlace place) const;
  /// Where a climb begins with as many stages; the micro-batches are left open.
  SmallVector<PipelinePlace> startsOf(size_t stages) const;
  /// With as many micro-batches as leave every device of a stage a sample; as it is where that is
  /// not more.
  PipelinePlace leanest(PipelinePlace place) const;
  SmallVector<PipelinePlace> neighbours(PipelinePlace place) const;

private:
  bool isOffered(PipelinePlace place) const;

  const PipelineChoices &choices;
  const ::autopar::Cluster &cluster;
  const ::autopar::Constraints &demands;
};

} // namespace mlir::autopar
