// SPDX-License-Identifier: Apache-2.0
// What pipelines promise before any is cut: a climb over estimates of the uncut function.
#pragma once

#include "PipelinePlaces.h"

#include "autopar/Pipelines/Pipelines.h"
#include "autopar/Transforms/StageEstimate.h"
#include "mlir/IR/BuiltinOps.h"

#include <limits>
#include <map>
#include <set>

namespace mlir::autopar {

/// Of 1F1B's bubble: what is left of it where the schedule is free.
constexpr double kFreeBubble = 1.0 / 3;

/// What was tried and came to nothing.
class TriedInVain {
public:
  void add(const std::string &name, const std::string &reason) { reasons[name] = reason; }
  void addIfNew(const std::string &name, const std::string &reason) {
    reasons.try_emplace(name, reason);
  }
  /// It has a plan after all.
  void drop(const std::string &name) { reasons.erase(name); }
  /// That it needs so many bytes per device at least; 0: unknown. What only an estimate says counts
  /// where nothing was built.
  void missed(int64_t leastBytes, const std::string &name, bool isEstimate = false);
  bool empty() const { return reasons.empty(); }
  /// A line for each.
  std::string text() const;
  /// The one that needs the least; empty: unknown.
  std::string leanest() const;

private:
  std::map<std::string, std::string> reasons; ///< by name
  std::optional<std::pair<int64_t, std::string>> least, leastEstimate;
};

class PipelineEstimates {
public:
  /// All outlive it. `module` is not split yet, unless there is one number of micro-batches.
  PipelineEstimates(ModuleOp module, const PipelineChoices &choices,
                    const AutoShardOptions &options, const ::autopar::Cluster &cluster,
                    const ::autopar::Constraints &demands, TriedInVain &inVain,
                    function_ref<void(const std::string &)> onCandidate)
      : module(module), choices(choices), options(options), cluster(cluster), demands(demands),
        inVain(inVain), onCandidate(onCandidate) {}

  /// The module in so many micro-batches (an index); null where the batch cannot be split so.
  ModuleOp split(size_t microBatches);

  /// Estimates without `leftOut`, where plans may take `share` of the memory limit. False: nothing
  /// fits.
  bool climb(double share, const std::set<PipelinePlace> &leftOut);
  /// From now on what does not promise less than this is kept out.
  void beat(double us) { toBeatUs = us; }
  /// Estimates what was kept out although it may take less than `us`.
  void estimateKeptOut(double us);
  /// Estimates what lies beside `places` and is not known.
  void estimateBeside(const std::set<PipelinePlace> &places);
  /// Equal stages for which nothing was found that fits, with what they take at the least.
  std::vector<std::pair<double, PipelinePlace>> unfit() const;

  /// Whether one of them would take less than the best if there were memory for it.
  bool lackMemory() const;

  std::string nameOf(PipelinePlace place) const { return offered.nameOf(place); }
  /// Of a place that has one.
  const StageEstimate &at(PipelinePlace place) const { return *estimates.at(place).found; }
  /// Places that have an estimate, the fastest first.
  std::vector<PipelinePlace> ranking() const;
  /// What all but `built` promise, or take at the least.
  std::vector<::autopar::PlanAlternative> others(const std::set<PipelinePlace> &built) const;

private:
  struct Estimate {
    std::optional<StageEstimate> found;
    std::string whyNot;
    double leastUs = std::numeric_limits<double>::infinity(); ///< without a memory limit
    double unfitUs = std::numeric_limits<double>::infinity(); ///< of what did not fit
    int64_t leastBytes = 0;                                   ///< where no sharding fits
  };

  ModuleOp held(size_t microBatches);
  void estimate(ArrayRef<PipelinePlace> places);
  void keepBest(PipelinePlace place);
  void forget(double share, const std::set<PipelinePlace> &leftOut);
  void findStart();

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const ::autopar::Cluster &cluster;
  const ::autopar::Constraints &demands;
  TriedInVain &inVain;
  function_ref<void(const std::string &)> onCandidate;
  PipelinePlaces offered{choices, cluster, demands};
  std::map<size_t, OwningOpRef<ModuleOp>> splits; ///< by index of the number of micro-batches
  std::map<size_t, OwningOpRef<ModuleOp>> holds;  ///< the same, for estimates
  std::map<PipelinePlace, Estimate> estimates;
  /// What of the estimates does not depend on what was to be beaten.
  std::map<PipelinePlace, std::shared_ptr<SolvedMeshes>> solved;
  std::optional<PipelinePlace> best, bestEqual;
  std::optional<double> toBeatUs; ///< none: the best estimate
  double limitShare = 1;          ///< of the memory limit
};

} // namespace mlir::autopar
