// SPDX-License-Identifier: Apache-2.0
// One pipeline of many that are compared: cut, searched, judged by its kernels and by its program.
#pragma once

#include "BalanceStages.h"
#include "PipelineEstimates.h"
#include "PromisedMemory.h"

#include "autopar/Pipelines/Pipelines.h"

#include <map>

namespace mlir::autopar {

/// A place of the estimates and how it is run.
struct Pipeline {
  PipelinePlace place;
  std::string schedule;
  int64_t turns = 1;
  bool isWhole = false;   ///< searched as if it were demanded, and not from an estimate
  bool isPlain = false;   ///< cut for memory alone, where what is balanced does not fit
  bool holdsMore = false; ///< than its estimate, so that something may have to be computed again
  PromisedMemory promised = {};
};

struct PipelineTimes {
  double us, workUs, evenUs; ///< of a step, of what its busiest mesh does in it, and its mean one
  /// By a schedule that is free.
  double leastUs() const { return workUs + kFreeBubble * (us - workUs); }
};

/// What the cut is told besides the pipeline.
struct PipelineTerms {
  std::string mesh;                          ///< empty: all are searched
  SmallVector<SmallVector<int64_t>> devices; ///< of each mesh; empty: shared equally
  std::vector<double> paces;                 ///< of each mesh; empty: all the same
};

struct BuiltPipeline {
  Pipeline pipeline;
  std::string name;
  PipelineTerms terms;
  CutPlan cut;
  double us() const { return cut.found.plan->believed.stepUs; }
  PipelineTimes times() const;
  /// By its kernels; turns have to save something for all that there is more of in them.
  double kernelsUs() const;
};

class PipelineBuilder {
public:
  /// All outlive it. `module` is as estimates know it.
  PipelineBuilder(ModuleOp module, const PipelineChoices &choices, const AutoShardOptions &options,
                  const LowerOptions &lower, PipelineEstimates &estimates, TriedInVain &inVain,
                  function_ref<void(const std::string &)> onCandidate)
      : module(module), choices(choices), options(options), lower(lower), estimates(estimates),
        inVain(inVain), onCandidate(onCandidate) {}

  std::string nameOf(const Pipeline &pipeline) const;
  /// Whether a search over every mesh takes minutes.
  bool isDeep() const;
  /// Cuts and searches all of them side by side; what does not become faster than `boundUs` is not
  /// balanced. None: there is no plan.
  std::vector<std::optional<BuiltPipeline>> build(ArrayRef<Pipeline> pipelines, double boundUs);
  /// Times them by their kernels, cut again as those want it unless they are plain, side by side.
  LogicalResult refine(MutableArrayRef<BuiltPipeline> built);
  /// Whether its program fits, as more may have to be computed again for that; it is kept then.
  /// `leastBytes` gets what a device needs where it does not, if that is known.
  bool fits(BuiltPipeline &built, int64_t &leastBytes);

  /// What estimates promised of places that came to nothing.
  const std::map<PipelinePlace, double> &failedPlaces() const { return promises; }
  /// Whether memory was missing for one.
  bool lackedMemory() const { return lacksMemory; }

private:
  /// A pipeline that is built, and what is said meanwhile.
  struct Building;

  void configure(const Pipeline &pipeline, const PipelineTerms &terms, AutoShardOptions &own) const;
  OwningOpRef<ModuleOp> uncut(const Pipeline &pipeline, const PipelineTerms &terms) const;
  bool followsEstimate(const Pipeline &pipeline) const;
  PipelineTerms termsOf(const Pipeline &pipeline) const;
  void runBuild(Building &building, double boundUs) const;
  LogicalResult refineOne(BuiltPipeline &built, ModuleOp whole) const;
  void fail(const Pipeline &pipeline, const PipelineTerms &terms, int64_t leastBytes);

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  PipelineEstimates &estimates;
  TriedInVain &inVain;
  function_ref<void(const std::string &)> onCandidate;
  std::map<PipelinePlace, double> promises;
  std::map<PipelinePlace, PipelineTerms> failedTerms; ///< of unequal shares
  bool lacksMemory = false;
};

} // namespace mlir::autopar
