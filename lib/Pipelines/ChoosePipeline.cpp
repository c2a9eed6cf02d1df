// SPDX-License-Identifier: Apache-2.0
// A climb over estimates, then the real thing for the best of them.
#include "ChoosePipeline.h"

#include "SearchPlan.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/StageEstimate.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;
using ::autopar::PlanAlternative;

/// How many of the estimated pipelines with equal stages, and how many others, are cut, searched
/// and timed.
static constexpr size_t kFinalists = 2;
/// How many are where estimates still promise more than what the best turned out to be.
static constexpr size_t kMostFinalists = 6;
/// In times of the best: up to this, other schedules of what is second are timed too.
static constexpr double kClose = 1.1;
/// Of 1F1B's bubble: what is left of it where the schedule is free.
static constexpr double kBubble = 1.0 / 3;
/// Of the memory limit: by what estimates get less where nothing holds, and the least that they
/// get.
static constexpr double kShareStep = 0.75, kLeastShare = 0.4;
/// Micro-batches per stage at which estimates begin: no bubble is large then.
static constexpr int64_t kFilled = 4;
/// Stages of a mesh that are tried.
static constexpr int64_t kTurns[] = {2, 4};

namespace {

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
  void estimate(ArrayRef<PipelinePlace> places);
  bool findStart();
  void climb();
  bool tryBest(int64_t turns);
  std::vector<PipelinePlace> ranking() const;
  std::optional<Candidate> build(PipelinePlace place, const std::string &schedule, int64_t turns);
  std::optional<double> consider(PipelinePlace place, const std::string &schedule, int64_t turns);
  void considerTurns(PipelinePlace place, const std::string &schedule);
  void considerSchedules(PipelinePlace place, int64_t turns);
  void considerKeptOut(int64_t turns, double closeUs);
  double chosenUs() const { return chosen->found.plan->believed.stepUs; }
  bool isFound(PipelinePlace place) const { return estimates.at(place).found.has_value(); }

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  const ::autopar::Cluster &cluster;
  function_ref<void(const std::string &)> onCandidate;
  ::autopar::Constraints demands;
  PipelinePlaces offered{choices, cluster, demands};
  std::map<size_t, OwningOpRef<ModuleOp>> splits; ///< by index of the number of micro-batches
  std::map<size_t, OwningOpRef<ModuleOp>> holds;  ///< the same, for estimates
  std::map<PipelinePlace, Estimate> estimates;
  std::set<PipelinePlace> leftOut;                         ///< estimates of these do not hold
  std::set<PipelinePlace> tried;                           ///< to build, of the estimates
  SmallVector<std::pair<PipelinePlace, double>> finalists; ///< what was built, and its time
  std::optional<PipelinePlace> best, bestEqual;
  double limitShare = 1; ///< of the memory limit, what estimates have
  std::string why;       ///< what was tried in vain
  std::optional<Candidate> chosen;
  std::vector<PlanAlternative> rejected;
};

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
void Chooser::estimate(ArrayRef<PipelinePlace> places) {
  StageEstimateOptions common;
  common.memoryLimit = options.memoryLimit;
  common.memoryShare = limitShare;
  common.recomputes = options.recompute != "none";
  if (llvm::any_of(choices.schedules, [](StringRef name) { return name == "zero-bubble"; }))
    common.bubble = kBubble;
  common.engine = options.engine;
  common.seed = options.seed;
  common.constraints = demands;
  if (best)
    common.near = innermost(estimates.at(*best).found->plan.meshes.front());
  SmallVector<std::pair<PipelinePlace, ModuleOp>> wanted;
  for (PipelinePlace place : places)
    if (!estimates.count(place)) {
      onCandidate(offered.nameOf(place));
      wanted.emplace_back(place, held(place.microBatches));
      estimates[place];
    }
  std::pair bounds(bestEqual, best);
  parallelFor(module.getContext(), 0, wanted.size(), [&](size_t i) {
    auto [place, own] = wanted[i];
    Estimate &estimate = estimates.at(place);
    if (!own)
      return;
    StageEstimateOptions options = common;
    options.stages = choices.stages[place.stages];
    options.shares = place.shares;
    // What shares that are not equal promise keeps no equal ones out: it is rougher.
    if (const std::optional<PipelinePlace> &known =
            place.shares == DeviceShares::Equal ? bounds.first : bounds.second)
      options.boundUs = chosen ? chosenUs() : estimates.at(*known).found->stepUs;
    options.leastUs = &estimate.leastUs;
    auto found = estimateStages(own.lookupSymbol<func::FuncOp>("main"), cluster, options);
    if (found)
      estimate.found = found.take();
    else
      estimate.whyNot = found.status().message();
  });
  auto keep = [&](std::optional<PipelinePlace> &known, PipelinePlace place) {
    if (!known || estimates.at(place).found->stepUs < estimates.at(*known).found->stepUs)
      known = place;
  };
  for (auto &[place, own] : wanted)
    if (isFound(place)) {
      keep(best, place);
      if (place.shares == DeviceShares::Equal)
        keep(bestEqual, place);
    }
}

/// Every number of stages with as many micro-batches as fill it; many stages fit easily, and what
/// is slower than they are is told fast. Where none of them fits, the fewest stages that do, and
/// the fewest micro-batches with them. False: nothing does.
bool Chooser::findStart() {
  for (size_t stages = choices.stages.size(); stages-- > 0;) {
    SmallVector<PipelinePlace> places = offered.startsOf(stages);
    for (PipelinePlace &place : places)
      while (place.microBatches + 1 < choices.microBatches.size() && choices.stages[stages] > 1 &&
             choices.microBatches[place.microBatches] < kFilled * choices.stages[stages])
        ++place.microBatches;
    estimate(places);
  }
  for (size_t stages = 0; !best && stages < choices.stages.size(); ++stages)
    for (size_t microBatches = 0; !best && microBatches < choices.microBatches.size();
         ++microBatches) {
      SmallVector<PipelinePlace> places = offered.startsOf(stages);
      for (PipelinePlace &place : places)
        place.microBatches = microBatches;
      estimate(places);
    }
  for (auto &[place, one] : estimates)
    if (!best)
      why += offered.nameOf(place) + ": " + one.whyNot + "\n";
  return best.has_value();
}

void Chooser::climb() {
  std::set<PipelinePlace> left;
  for (bool isNew = true; std::exchange(isNew, false);)
    for (std::optional<PipelinePlace> at : {bestEqual, best})
      if (at && left.insert(*at).second) {
        estimate(offered.neighbours(*at));
        isNew = true;
      }
}

/// By their estimates, the best first.
std::vector<PipelinePlace> Chooser::ranking() const {
  std::vector<std::pair<double, PipelinePlace>> order;
  for (auto &[place, one] : estimates)
    if (one.found)
      order.emplace_back(one.found->stepUs, place);
  llvm::sort(order);
  std::vector<PipelinePlace> ranked;
  for (auto &[us, place] : order)
    ranked.push_back(place);
  return ranked;
}

/// Cuts, and searches from the estimate's plan on the estimate's mesh.
std::optional<Chooser::Candidate> Chooser::build(PipelinePlace place, const std::string &schedule,
                                                 int64_t turns) {
  Candidate candidate{OwningOpRef<ModuleOp>(split(place.microBatches).clone()),
                      offered.nameOf(place),
                      schedule,
                      {}};
  const StageEstimate &estimate = *estimates.at(place).found;
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.stageMeshes = choices.stages[place.stages];
  own.stages = own.stageMeshes * turns;
  own.schedule = schedule;
  own.mesh = ::autopar::shapeText(estimate.meshes);
  SmallVector<SmallVector<int64_t>> devices;
  for (const ::autopar::Mesh &mesh : estimate.meshes)
    devices.emplace_back(mesh.devices.begin(), mesh.devices.end());
  auto function = candidate.module->lookupSymbol<func::FuncOp>("main");
  setStageDevices(function, devices);
  if (!estimate.paces.empty())
    function->setAttr(kStagePaceAttribute,
                      DenseF64ArrayAttr::get(function.getContext(), estimate.paces));
  candidate.found.start = estimate.plan;
  candidate.found.again = estimate.again;
  if (own.stages > 1 && choices.schedules.size() > 1)
    candidate.name += ", " + schedule;
  if (turns > 1)
    candidate.name += ", " + std::to_string(turns) + " turns";
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
std::optional<double> Chooser::consider(PipelinePlace place, const std::string &schedule,
                                        int64_t turns) {
  std::optional<Candidate> candidate = build(place, schedule, turns);
  if (!candidate)
    return std::nullopt;
  double us = candidate->found.plan->believed.stepUs;
  if (!chosen || us < chosenUs())
    std::swap(chosen, candidate);
  if (candidate && candidate->found.plan->believed.stepUs != chosenUs())
    rejected.push_back({candidate->name, candidate->found.plan->believed.stepUs});
  return us;
}

/// The more stages take turns on a mesh, the smaller the bubble and the more micro-batches are in
/// flight: from few to many, while that is faster.
void Chooser::considerTurns(PipelinePlace place, const std::string &schedule) {
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

/// All schedules but the first.
void Chooser::considerSchedules(PipelinePlace place, int64_t turns) {
  if (choices.stages[place.stages] == 1)
    return;
  for (const std::string &schedule : ArrayRef(choices.schedules).drop_front()) {
    if (::autopar::isInterleaved(schedule))
      considerTurns(place, schedule);
    else
      consider(place, schedule, turns);
  }
}

/// Estimates that promised more than they held may have kept out what is faster than the best has
/// turned out to be. Those that take up to `closeUs` by the first schedule are tried by the others.
void Chooser::considerKeptOut(int64_t turns, double closeUs) {
  SmallVector<PipelinePlace> keptOut;
  for (auto &[place, one] : estimates)
    if (!one.found && one.leastUs < chosenUs())
      keptOut.push_back(place);
  for (PipelinePlace place : keptOut)
    estimates.erase(place);
  estimate(keptOut);
  size_t built = 0;
  for (PipelinePlace place : ranking()) {
    if (built == kFinalists || estimates.at(place).found->stepUs >= chosenUs())
      break;
    if (!llvm::is_contained(keptOut, place) || !tried.insert(place).second)
      continue;
    std::optional<double> us = consider(place, choices.schedules.front(), turns);
    if (us && *us <= closeUs)
      considerSchedules(place, turns);
    built += us.has_value();
  }
}

/// Estimates all anew and builds the best; false where no estimate fits.
bool Chooser::tryBest(int64_t turns) {
  estimates.clear();
  best.reset();
  bestEqual.reset();
  tried.clear();
  for (PipelinePlace place : leftOut)
    estimates[place].whyNot = "its program does not fit";
  if (!findStart())
    return false;
  climb();
  size_t equal = 0;
  for (PipelinePlace place : ranking()) {
    bool isEqual = place.shares == DeviceShares::Equal;
    bool promisesMore = chosen && finalists.size() < kMostFinalists &&
                        estimates.at(place).found->stepUs < chosenUs();
    if ((isEqual ? equal : finalists.size() - equal) >= kFinalists && !promisesMore)
      continue;
    tried.insert(place);
    std::optional<double> us = consider(place, choices.schedules.front(), turns);
    if (!us)
      continue;
    finalists.emplace_back(place, *us);
    equal += isEqual;
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
  // Estimates may promise what does not fit: where none holds, what is slower than they are, and
  // was left out for it, has its turn, and where that does not help, they get less to promise.
  while (tryBest(turns) && !chosen && !tried.empty())
    leftOut.insert(tried.begin(), tried.end());
  leftOut.clear();
  for (limitShare = kShareStep; !chosen && limitShare >= kLeastShare; limitShare *= kShareStep)
    if (!tryBest(turns))
      break;
  if (!chosen)
    return emitError(module.getLoc()) << "no pipeline has a plan:\n" << why;
  // Estimates of shares that are not equal are rough: who is behind may be first in the end.
  bool areRough = llvm::any_of(
      finalists, [](const auto &finalist) { return finalist.first.shares != DeviceShares::Equal; });
  double first = chosenUs();
  for (auto &[place, us] : finalists)
    if (us <= (areRough ? kClose : 1) * first)
      considerSchedules(place, turns);
  considerKeptOut(turns, kClose * first);
  if (!why.empty())
    emitRemark(module.getLoc()) << "without a plan:\n" << why;
  for (auto &[place, one] : estimates)
    if (one.found && !tried.count(place))
      rejected.push_back({offered.nameOf(place) + " (estimated)", one.found->stepUs});
    else if (!one.found && std::isfinite(one.leastUs))
      rejected.push_back({offered.nameOf(place) + " (estimated, at the least)", one.leastUs});
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
