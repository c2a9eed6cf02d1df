// SPDX-License-Identifier: Apache-2.0
// The pipelines that were built: the best few by the search's count, told apart by their kernels,
// of which the best whose program fits is taken.
#pragma once

#include "BuildPipeline.h"

#include <deque>

namespace mlir::autopar {

/// Stages of a mesh that are tried.
constexpr int64_t kTurns[] = {2, 4};
/// In times of the best: up to this, what is slower by the search's count may be the faster one.
constexpr double kClose = 1.1;

class PipelineContest {
public:
  /// All outlive it. With `mustFit`, what is taken has a program that fits. `turns`: of stages on a
  /// mesh, that are asked for.
  PipelineContest(const PipelineChoices &choices, const AutoShardOptions &options,
                  const ::autopar::Cluster &cluster, bool mustFit, int64_t turns,
                  PipelineBuilder &builder, PipelineEstimates &estimates, TriedInVain &inVain)
      : choices(choices), options(options), cluster(cluster), mustFit(mustFit), turns(turns),
        builder(builder), estimates(estimates), inVain(inVain) {}

  /// What their steps take, of those that have a plan. They are built side by side, measured
  /// against the best before.
  SmallVector<std::optional<PipelineTimes>> consider(ArrayRef<Pipeline> pipelines);
  bool hasPlan() const { return !built.empty(); }
  /// Of those that have a plan.
  double bestUs() const { return built.front().us(); }
  /// What others have to be faster than; infinite where nothing ever had a plan.
  double toBeatUs() const;

  /// The search counts operations one by one; what is close by that is told apart by kernels, and
  /// by what runs beside them, each cut as they want it.
  LogicalResult judge();
  /// The best whose program fits, if that is asked for, is left alone; false: there is none.
  bool takeFitting();
  /// Whether programs that did not fit are not yet too many.
  bool goesOn() const;
  /// Those whose programs did not fit, in other ways, until one has a plan.
  bool considerRefused();
  /// What others were faster than, until one has a plan.
  bool considerOutdone();
  /// The best, with all others among its alternatives.
  CutPlan take();

private:
  void keep(BuiltPipeline candidate);
  void leaveOut(BuiltPipeline &candidate);
  LogicalResult considerTogether();
  void askAgain(const Pipeline &pipeline, int64_t neededBytes);

  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const ::autopar::Cluster &cluster;
  bool mustFit;
  int64_t turns;
  PipelineBuilder &builder;
  PipelineEstimates &estimates;
  TriedInVain &inVain;
  std::vector<BuiltPipeline> built;                 ///< the best, by what the search believes
  std::vector<std::pair<double, Pipeline>> outdone; ///< what else was built, and its time
  std::deque<Pipeline> again; ///< whose programs did not fit, to be built in other ways
  std::vector<::autopar::PlanAlternative> rejected;
  size_t refused = 0; ///< programs that did not fit
};

} // namespace mlir::autopar
