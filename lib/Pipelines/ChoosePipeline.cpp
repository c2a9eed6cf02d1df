// SPDX-License-Identifier: Apache-2.0
// A climb over estimates, then the real thing for the best of them.
#include "ChoosePipeline.h"

#include "SearchPlan.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/StageEstimate.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;
using ::autopar::PlanAlternative;

/// More stages than this have bubbles that no batch fills.
static constexpr int64_t kMostStages = 64;
/// How many of the estimated pipelines are cut, searched and timed.
static constexpr size_t kFinalists = 2;
/// Of 1F1B's bubble: what is left of it where the schedule is free.
static constexpr double kBubble = 1.0 / 3;
/// Of the memory limit: by what estimates get less where nothing holds, and the least that they
/// get.
static constexpr double kShareStep = 0.75, kLeastShare = 0.4;
/// Micro-batches per stage at which estimates begin: no bubble is large then.
static constexpr int64_t kFilled = 4;
/// Stages of a mesh that are tried.
static constexpr int64_t kTurns[] = {2, 4};

std::vector<int64_t> mlir::autopar::stageCounts(int64_t devices) {
  std::vector<int64_t> counts;
  for (int64_t stages = 1; stages <= std::min(devices, kMostStages); ++stages)
    if (devices % stages == 0)
      counts.push_back(stages);
  return counts;
}

std::vector<int64_t> mlir::autopar::microBatchCounts(int64_t samples) {
  std::vector<int64_t> counts{1};
  for (int64_t count = 2; count <= samples; ++count)
    if (samples % count == 0 && count >= 2 * counts.back())
      counts.push_back(count);
  return counts;
}

static std::string counted(int64_t count, const char *one, const char *several) {
  return std::to_string(count) + " " + (count == 1 ? one : several);
}

namespace {

/// Indices into the lists of choices.
struct Place {
  size_t microBatches = 0, stages = 0;
  auto operator<=>(const Place &) const = default;
};

class Chooser {
public:
  Chooser(ModuleOp module, const PipelineChoices &choices, const AutoShardOptions &options,
          const LowerOptions &lower, const ::autopar::Cluster &cluster,
          function_ref<void(const std::string &)> onCandidate)
      : module(module), choices(choices), options(options), lower(lower), cluster(cluster),
        onCandidate(onCandidate) {}

  LogicalResult run(OwningOpRef<ModuleOp> &result, SearchHandoff &handoff);

private:
  struct Estimate {
    std::optional<StageEstimate> found;
    std::string whyNot;
    double leastUs = std::numeric_limits<double>::infinity(); ///< without a memory limit
  };
  struct Candidate {
    OwningOpRef<ModuleOp> module;
    std::string name, schedule;
    SearchHandoff found;
  };

  ModuleOp split(size_t microBatches);
  ModuleOp held(size_t microBatches);
  void estimate(ArrayRef<Place> places);
  bool findStart();
  void climb();
  bool tryBest(int64_t turns, std::set<Place> &tried);
  SmallVector<Place> neighbours(Place place) const;
  std::vector<Place> ranking() const;
  std::optional<Candidate> build(Place place, const std::string &schedule, int64_t turns);
  std::optional<double> consider(Place place, const std::string &schedule, int64_t turns);
  void considerTurns(Place place, const std::string &schedule);
  std::string nameOf(Place place) const;
  bool isFound(Place place) const { return estimates.at(place).found.has_value(); }

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  const ::autopar::Cluster &cluster;
  function_ref<void(const std::string &)> onCandidate;
  std::map<size_t, OwningOpRef<ModuleOp>> splits; ///< by index of the number of micro-batches
  std::map<size_t, OwningOpRef<ModuleOp>> holds;  ///< the same, for estimates
  std::map<Place, Estimate> estimates;
  std::set<Place> leftOut; ///< estimates of these do not hold
  std::optional<Place> best;
  ::autopar::Constraints demands;
  double limitShare = 1; ///< of the memory limit, what estimates have
  std::string why;       ///< what was tried in vain
  std::optional<Candidate> chosen;
  std::vector<PlanAlternative> rejected;
};

std::string Chooser::nameOf(Place place) const {
  std::string name = counted(choices.stages[place.stages], "stage", "stages");
  if (choices.microBatches.size() > 1)
    name +=
        ", " + counted(choices.microBatches[place.microBatches], "micro-batch", "micro-batches");
  return name;
}

/// Null where the batch cannot be split so.
ModuleOp Chooser::split(size_t microBatches) {
  if (choices.microBatches.size() == 1)
    return module;
  auto [it, isNew] = splits.try_emplace(microBatches);
  if (!isNew)
    return it->second.get();
  it->second = module.clone();
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.microBatches = choices.microBatches[microBatches];
  std::string problem;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    problem += diagnostic.str();
    return success();
  });
  if (own.microBatches > 1 && failed(runPhase(*it->second, Phase::SplitMicroBatches, own))) {
    it->second = nullptr;
    why += std::to_string(own.microBatches) + " micro-batches: " + problem + "\n";
  }
  return it->second.get();
}

/// The same where values may change their sharding between phases, as in the search that follows.
ModuleOp Chooser::held(size_t microBatches) {
  ModuleOp own = split(microBatches);
  OwningOpRef<ModuleOp> &copy = holds[microBatches];
  if (!own || copy)
    return copy.get();
  copy = own.clone();
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  manager.addNestedPass<func::FuncOp>(createHoldAcrossPhasesPass());
  if (failed(manager.run(*copy)))
    copy = nullptr;
  return copy.get();
}

/// All of `places` that are not known yet, side by side.
void Chooser::estimate(ArrayRef<Place> places) {
  StageEstimateOptions common;
  int64_t limit = options.memoryLimit ? int64_t(options.memoryLimit) : cluster.mostUsableBytes();
  common.memoryLimit = static_cast<int64_t>(limitShare * static_cast<double>(limit));
  common.recomputes = options.recompute != "none";
  if (llvm::any_of(choices.schedules, [](StringRef name) { return name == "zero-bubble"; }))
    common.bubble = kBubble;
  common.engine = options.engine;
  common.seed = options.seed;
  common.constraints = demands;
  if (best) {
    const StageEstimate &known = *estimates.at(*best).found;
    common.boundUs = known.stepUs;
    common.near = innermost(known.plan.meshes.front());
  }
  SmallVector<std::pair<Place, ModuleOp>> wanted;
  for (Place place : places)
    if (!estimates.count(place)) {
      onCandidate(nameOf(place));
      wanted.emplace_back(place, held(place.microBatches));
      estimates[place];
    }
  parallelFor(module.getContext(), 0, wanted.size(), [&](size_t i) {
    auto [place, own] = wanted[i];
    Estimate &estimate = estimates.at(place);
    if (!own)
      return;
    StageEstimateOptions options = common;
    options.stages = choices.stages[place.stages];
    options.leastUs = &estimate.leastUs;
    auto found = estimateStages(own.lookupSymbol<func::FuncOp>("main"), cluster, options);
    if (found)
      estimate.found = found.take();
    else
      estimate.whyNot = found.status().message();
  });
  for (auto &[place, own] : wanted)
    if (isFound(place) &&
        (!best || estimates.at(place).found->stepUs < estimates.at(*best).found->stepUs))
      best = place;
}

/// Every number of stages with as many micro-batches as fill it; many stages fit easily, and what
/// is slower than they are is told fast. Where none of them fits, the fewest stages that do, and
/// the fewest micro-batches with them. False: nothing does.
bool Chooser::findStart() {
  for (size_t stages = choices.stages.size(); stages-- > 0;) {
    size_t microBatches = 0;
    while (microBatches + 1 < choices.microBatches.size() && choices.stages[stages] > 1 &&
           choices.microBatches[microBatches] < kFilled * choices.stages[stages])
      ++microBatches;
    estimate(Place{microBatches, stages});
  }
  for (size_t stages = 0; !best && stages < choices.stages.size(); ++stages)
    for (size_t microBatches = 0; !best && microBatches < choices.microBatches.size();
         ++microBatches)
      estimate(Place{microBatches, stages});
  for (auto &[place, one] : estimates)
    if (!best)
      why += nameOf(place) + ": " + one.whyNot + "\n";
  return best.has_value();
}

/// More stages want more micro-batches.
SmallVector<Place> Chooser::neighbours(Place place) const {
  SmallVector<Place> found;
  for (auto [microBatches, stages] :
       std::initializer_list<std::pair<int, int>>{{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}}) {
    Place other{place.microBatches + microBatches, place.stages + stages}; // below 0: very large
    if (other.microBatches < choices.microBatches.size() && other.stages < choices.stages.size())
      found.push_back(other);
  }
  return found;
}

void Chooser::climb() {
  std::optional<Place> at;
  while (at != best) {
    at = best;
    estimate(neighbours(*at));
  }
}

/// By their estimates, the best first.
std::vector<Place> Chooser::ranking() const {
  std::vector<std::pair<double, Place>> order;
  for (auto &[place, one] : estimates)
    if (one.found)
      order.emplace_back(one.found->stepUs, place);
  llvm::sort(order);
  std::vector<Place> ranked;
  for (auto &[us, place] : order)
    ranked.push_back(place);
  return ranked;
}

/// Cuts, and searches from the estimate's plan on the estimate's mesh.
std::optional<Chooser::Candidate> Chooser::build(Place place, const std::string &schedule,
                                                 int64_t turns) {
  Candidate candidate{
      OwningOpRef<ModuleOp>(split(place.microBatches).clone()), nameOf(place), schedule, {}};
  const StageEstimate &estimate = *estimates.at(place).found;
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.stageMeshes = choices.stages[place.stages];
  own.stages = own.stageMeshes * turns;
  own.schedule = schedule;
  own.mesh = ::autopar::shapeText(estimate.plan.meshes);
  candidate.found.start = estimate.plan;
  candidate.found.again = estimate.again;
  if (own.stages > 1 && choices.schedules.size() > 1)
    candidate.name += ", " + schedule;
  if (turns > 1)
    candidate.name += ", " + counted(turns, "turn", "turns");
  onCandidate(candidate.name);
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      why += candidate.name + ": " + diagnostic.str() + "\n";
    return success();
  });
  if (own.stages > 1 && failed(runPhase(*candidate.module, Phase::CutStages, own)))
    return std::nullopt;
  if (failed(searchPlan(*candidate.module, own, lower, candidate.found)))
    return std::nullopt;
  return candidate;
}

/// What its step takes, if it has a plan: the best one is kept.
std::optional<double> Chooser::consider(Place place, const std::string &schedule, int64_t turns) {
  std::optional<Candidate> candidate = build(place, schedule, turns);
  if (!candidate)
    return std::nullopt;
  double us = candidate->found.plan->believed.stepUs;
  if (!chosen || us < chosen->found.plan->believed.stepUs) {
    std::swap(chosen, candidate);
    best = place;
  }
  if (candidate && candidate->found.plan->believed.stepUs != chosen->found.plan->believed.stepUs)
    rejected.push_back({candidate->name, candidate->found.plan->believed.stepUs});
  return us;
}

/// The more stages take turns on a mesh, the smaller the bubble and the more micro-batches are in
/// flight: from few to many, while that is faster.
void Chooser::considerTurns(Place place, const std::string &schedule) {
  if (choices.microBatches[place.microBatches] % choices.stages[place.stages] != 0)
    return; // the schedule asks for it
  double before = std::numeric_limits<double>::infinity();
  for (int64_t turns : kTurns) {
    std::optional<double> us = consider(place, schedule, turns);
    if (!us || *us >= before)
      return;
    before = *us;
  }
}

/// Estimates all anew and builds the best; false where no estimate fits.
bool Chooser::tryBest(int64_t turns, std::set<Place> &tried) {
  estimates.clear();
  best.reset();
  tried.clear();
  for (Place place : leftOut)
    estimates[place].whyNot = "its program does not fit";
  if (!findStart())
    return false;
  climb();
  size_t built = 0;
  for (Place place : ranking()) {
    if (built == kFinalists)
      break;
    tried.insert(place);
    built += consider(place, choices.schedules.front(), turns).has_value();
  }
  return true;
}

LogicalResult Chooser::run(OwningOpRef<ModuleOp> &result, SearchHandoff &handoff) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (!function || function.isExternal() || !function.getBody().hasOneBlock())
    return emitError(module.getLoc(), "expected a function @main of one block to plan");
  auto parsed = ::autopar::Constraints::parse("constraints", options.constraints);
  if (!parsed)
    return emitError(module.getLoc()) << parsed.status().message();
  demands = parsed.take();
  int64_t turns = options.stageMeshes ? options.stages / options.stageMeshes : 1;
  // Estimates may promise what does not fit: where none holds, they get less to promise, and where
  // that does not help, what is slower than they are, and was left out for it, has its turn.
  std::set<Place> tried, broken;
  for (limitShare = 1; !chosen && limitShare >= kLeastShare; limitShare *= kShareStep) {
    if (!tryBest(turns, tried))
      break;
    broken.insert(tried.begin(), tried.end());
  }
  limitShare = 1;
  while (!chosen && !broken.empty()) {
    leftOut = broken;
    if (!tryBest(turns, tried))
      break;
    broken.insert(tried.begin(), tried.end());
  }
  if (!chosen)
    return emitError(module.getLoc()) << "no pipeline has a plan:\n" << why;
  if (Place place = *best; choices.stages[place.stages] > 1)
    for (const std::string &schedule : ArrayRef(choices.schedules).drop_front()) {
      if (::autopar::isInterleaved(schedule))
        considerTurns(place, schedule);
      else
        consider(place, schedule, turns);
    }
  if (!why.empty())
    emitRemark(module.getLoc()) << "without a plan:\n" << why;
  for (auto &[place, one] : estimates)
    if (one.found && !tried.count(place))
      rejected.push_back({nameOf(place) + " (estimated)", one.found->stepUs});
    else if (!one.found && std::isfinite(one.leastUs))
      rejected.push_back({nameOf(place) + " (estimated, at the least)", one.leastUs});
  llvm::append_range(chosen->found.plan->believed.alternatives, rejected);
  result = std::move(chosen->module);
  handoff = std::move(chosen->found);
  return success();
}

} // namespace

LogicalResult
mlir::autopar::choosePipeline(OwningOpRef<ModuleOp> &module, const PipelineChoices &choices,
                              const AutoShardOptions &options, const LowerOptions &lower,
                              const ::autopar::Cluster &cluster, SearchHandoff &handoff,
                              function_ref<void(const std::string &)> onCandidate) {
  OwningOpRef<ModuleOp> result;
  if (failed(Chooser(*module, choices, options, lower, cluster, onCandidate).run(result, handoff)))
    return failure();
  module = std::move(result);
  return success();
}
