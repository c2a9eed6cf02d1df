// SPDX-License-Identifier: Apache-2.0
// A climb over estimates, then the real thing for the best of them.
#include "ChoosePipeline.h"

#include "BalanceStages.h"
#include "PlanJudge.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/StageEstimate.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

#include <map>
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
/// In times of the best: up to this, what is slower by the first schedule is timed by the others
/// too, and what is slower by the search's count by its kernels.
static constexpr double kClose = 1.1;
/// Of 1F1B's bubble: what is left of it where the schedule is free.
static constexpr double kBubble = 1.0 / 3;
/// Of the memory limit: by what estimates get less where nothing holds, and the least that they
/// get.
static constexpr double kShareStep = 0.75, kLeastShare = 0.4;
/// Micro-batches per stage at which estimates begin: no bubble is large then.
static constexpr int64_t kFilled = 4;
/// How many plans are judged by the kernels that they become, of those that are close to the best.
static constexpr size_t kJudged = 3;
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
    int64_t leastBytes = 0;                                   ///< where no sharding fits
  };
  struct Times {
    double us, workUs; ///< of a step, and of what its busiest mesh does in it
    /// By a schedule that is free.
    double leastUs() const { return workUs + kBubble * (us - workUs); }
  };
  struct Candidate {
    CutPlan cut;
    std::string name;
    double us() const { return cut.found.plan->believed.stepUs; }
    double workUs() const {
      double most = 0;
      for (const MeshLoad &load : cut.found.loads)
        most = std::max(most, load.workUs + load.againUs);
      return most > 0 ? most : us();
    }
    double kernelsUs() const { return cut.found.plan->believed.kernelsUs; }
  };

  ModuleOp split(size_t microBatches);
  ModuleOp held(size_t microBatches);
  void estimate(ArrayRef<PipelinePlace> places);
  bool findStart();
  void climb();
  bool tryBest(int64_t turns);
  std::vector<PipelinePlace> ranking() const;
  std::optional<Candidate> build(PipelinePlace place, const std::string &schedule, int64_t turns);
  std::optional<Times> consider(PipelinePlace place, const std::string &schedule, int64_t turns);
  bool considerTurns(PipelinePlace place, const std::string &schedule, double beforeUs);
  void considerSchedules(PipelinePlace place, int64_t turns, Times first);
  double fullUs(PipelinePlace place, Times first) const;
  void considerKeptOut(int64_t turns, double closeUs);
  bool hasPlan() const { return !built.empty(); }
  double bestUs() const { return built.front().us(); }
  void keep(Candidate candidate);
  void missed(int64_t leastBytes, const std::string &name);
  std::string reasons() const;
  LogicalResult judge();
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
  std::set<PipelinePlace> leftOut;                        ///< estimates of these do not hold
  std::set<PipelinePlace> tried;                          ///< to build, of the estimates
  SmallVector<std::pair<PipelinePlace, Times>> finalists; ///< what was built by the first schedule
  std::optional<PipelinePlace> best, bestEqual;
  double limitShare = 1;                     ///< of the memory limit, what estimates have
  std::map<std::string, std::string> whyNot; ///< of what was tried in vain, by name
  std::optional<std::pair<int64_t, std::string>> leanest; ///< of it: bytes per device, name
  std::vector<Candidate> built;                           ///< the best, by what the search believes
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
    whyNot[std::to_string(own.microBatches) + " micro-batches"] = problem;
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
      options.boundUs = hasPlan() ? bestUs() : estimates.at(*known).found->stepUs;
    options.leastUs = &estimate.leastUs;
    options.leastBytes = &estimate.leastBytes;
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
  if (!best && limitShare == 1)
    for (auto &[place, one] : estimates) {
      if (leftOut.empty()) // what was built says more than these bounds
        missed(one.leastBytes, offered.nameOf(place));
      if (!leftOut.count(place))
        whyNot.try_emplace(offered.nameOf(place), one.whyNot);
    }
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
  OwningOpRef<ModuleOp> uncut(split(place.microBatches).clone());
  auto function = uncut->lookupSymbol<func::FuncOp>("main");
  setStageDevices(function, devices);
  if (!estimate.paces.empty())
    function->setAttr(kStagePaceAttribute,
                      DenseF64ArrayAttr::get(function.getContext(), estimate.paces));
  std::string name = offered.nameOf(place);
  if (own.stages > 1 && choices.schedules.size() > 1)
    name += ", " + schedule;
  if (turns > 1)
    name += ", " + std::to_string(turns) + " turns";
  onCandidate(name);
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      whyNot[name] = diagnostic.str();
    return success();
  });
  // Of one stage, the whole search is over the same function as the estimate, and goes further:
  // what is computed again counts by operations, on every mesh.
  SearchHandoff start;
  if (own.stages == 1 && estimate.again != ComputesAgain::Nothing) {
    own.mesh = options.mesh;
  } else {
    start.start = estimate.plan;
    start.again = estimate.again;
  }
  double boundUs = hasPlan() ? bestUs() : HUGE_VAL;
  int64_t leastBytes = 0;
  FailureOr<CutPlan> cut =
      cutAndSearch(*uncut, own, lower, std::move(start), {boundUs, boundUs}, &leastBytes);
  if (failed(cut)) {
    missed(leastBytes, name);
    return std::nullopt;
  }
  return Candidate{std::move(*cut), name};
}

/// What its step takes, if it has a plan.
std::optional<Chooser::Times> Chooser::consider(PipelinePlace place, const std::string &schedule,
                                                int64_t turns) {
  std::optional<Candidate> candidate = build(place, schedule, turns);
  if (!candidate)
    return std::nullopt;
  Times times{candidate->us(), candidate->workUs()};
  keep(std::move(*candidate));
  return times;
}

void Chooser::keep(Candidate candidate) {
  auto isSlower = [&](const Candidate &other) { return other.us() > candidate.us(); };
  built.insert(llvm::find_if(built, isSlower), std::move(candidate));
  while (built.size() > kJudged || built.back().us() > kClose * bestUs()) {
    rejected.push_back({built.back().name, built.back().us()});
    built.pop_back();
  }
}

/// The search counts operations one by one; what is close by that is told apart by kernels, and by
/// what runs beside them. The best comes to the front.
LogicalResult Chooser::judge() {
  if (built.size() < 2)
    return success();
  for (Candidate &candidate : built) {
    onCandidate(candidate.name + ": its kernels");
    PlanJudge judge(*candidate.cut.module, options, lower);
    if (failed(judge.load()))
      return failure();
    FailureOr<double> us = judge.kernelsUs(*candidate.cut.found.plan);
    if (failed(us))
      return failure();
    candidate.cut.found.plan->believed.kernelsUs = *us;
  }
  std::sort(built.begin(), built.end(),
            [](const Candidate &a, const Candidate &b) { return a.kernelsUs() < b.kernelsUs(); });
  for (; built.size() > 1; built.pop_back())
    rejected.push_back(
        {built.back().name +
             llvm::formatv(" ({0:f1} us by its kernels)", built.back().kernelsUs()).str(),
         built.back().us()});
  return success();
}

/// The more stages take turns on a mesh, the smaller the bubble and the more micro-batches are in
/// flight: from few to many, while that is faster than `beforeUs`, in which all have one turn.
/// Whether it ever was.
bool Chooser::considerTurns(PipelinePlace place, const std::string &schedule, double beforeUs) {
  if (choices.microBatches[place.microBatches] % choices.stages[place.stages] != 0)
    return false; // the schedule asks for it
  bool isFaster = false;
  for (int64_t turns : kTurns) {
    std::optional<Times> times = consider(place, schedule, turns);
    if (!times || times->us >= beforeUs)
      break;
    isFaster = true;
    beforeUs = times->us;
  }
  return isFaster;
}

/// By a schedule that fills and drains like the first one and hides all of its messages.
double Chooser::fullUs(PipelinePlace place, Times first) const {
  auto stages = static_cast<double>(choices.stages[place.stages]),
       microBatches = static_cast<double>(choices.microBatches[place.microBatches]);
  return first.workUs * (1 + (stages - 1) / microBatches);
}

/// All schedules but the first. One that takes turns is left out where the one before it, which is
/// faster and holds more, paid; one that runs ahead, where nothing is gained by it.
void Chooser::considerSchedules(PipelinePlace place, int64_t turns, Times first) {
  if (choices.stages[place.stages] == 1)
    return;
  double us = first.us;
  bool turnsPaid = false;
  for (const std::string &schedule : ArrayRef(choices.schedules).drop_front()) {
    if (::autopar::isInterleaved(schedule))
      turnsPaid = turnsPaid || considerTurns(place, schedule, first.us);
    else if (schedule == "eager-1f1b" && fullUs(place, first) >= bestUs())
      continue;
    else if (std::optional<Times> times = consider(place, schedule, turns))
      us = std::min(us, times->us);
  }
}

/// Estimates that promised more than they held may have kept out what is faster than the best has
/// turned out to be. Those that take up to `closeUs` by the first schedule are tried by the others.
void Chooser::considerKeptOut(int64_t turns, double closeUs) {
  SmallVector<PipelinePlace> keptOut;
  for (auto &[place, one] : estimates)
    if (!one.found && one.leastUs < bestUs())
      keptOut.push_back(place);
  for (PipelinePlace place : keptOut)
    estimates.erase(place);
  estimate(keptOut);
  size_t count = 0;
  for (PipelinePlace place : ranking()) {
    if (count == kFinalists || estimates.at(place).found->stepUs >= bestUs())
      break;
    if (!llvm::is_contained(keptOut, place) || !tried.insert(place).second)
      continue;
    std::optional<Times> times = consider(place, choices.schedules.front(), turns);
    if (times && times->us <= closeUs)
      considerSchedules(place, turns, *times);
    count += times.has_value();
  }
}

/// What a pipeline needs that does not fit; 0: unknown.
void Chooser::missed(int64_t leastBytes, const std::string &name) {
  if (leastBytes > 0 && (!leanest || leastBytes < leanest->first))
    leanest.emplace(leastBytes, name);
}

/// One line for each that was tried in vain.
std::string Chooser::reasons() const {
  std::string lines;
  for (auto &[name, reason] : whyNot)
    lines += name + ": " + reason + "\n";
  return lines;
}

/// Estimates all anew and builds the best; false where no estimate fits.
bool Chooser::tryBest(int64_t turns) {
  estimates.clear();
  best.reset();
  bestEqual.reset();
  tried.clear();
  for (PipelinePlace place : leftOut)
    estimates.try_emplace(place);
  if (!findStart())
    return false;
  climb();
  size_t equal = 0;
  for (PipelinePlace place : ranking()) {
    bool isEqual = place.shares == DeviceShares::Equal;
    bool promisesMore = hasPlan() && finalists.size() < kMostFinalists &&
                        estimates.at(place).found->stepUs < bestUs();
    if ((isEqual ? equal : finalists.size() - equal) >= kFinalists && !promisesMore)
      continue;
    tried.insert(place);
    std::optional<Times> times = consider(place, choices.schedules.front(), turns);
    if (!times)
      continue;
    finalists.emplace_back(place, *times);
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
  while (tryBest(turns) && !hasPlan() && !tried.empty())
    leftOut.insert(tried.begin(), tried.end());
  leftOut.clear();
  for (limitShare = kShareStep; !hasPlan() && limitShare >= kLeastShare; limitShare *= kShareStep)
    if (!tryBest(turns))
      break;
  if (!hasPlan()) {
    InFlightDiagnostic error = emitError(module.getLoc(), "no pipeline has a plan");
    if (leanest)
      error << ": the leanest that was found, " << leanest->second << ", needs at least "
            << leanest->first << " bytes per device: raise the limit or use more devices";
    return error << "; what was tried:\n" << reasons();
  }
  double first = bestUs();
  std::sort(finalists.begin(), finalists.end(),
            [](const auto &a, const auto &b) { return a.second.leastUs() < b.second.leastUs(); });
  for (auto &[place, times] : finalists)
    if (times.us <= kClose * first && times.leastUs() < bestUs())
      considerSchedules(place, turns, times);
  considerKeptOut(turns, kClose * first);
  if (!whyNot.empty())
    emitRemark(module.getLoc()) << "without a plan:\n" << reasons();
  for (auto &[place, one] : estimates)
    if (one.found && !tried.count(place))
      rejected.push_back({offered.nameOf(place) + " (estimated)", one.found->stepUs});
    else if (!one.found && std::isfinite(one.leastUs))
      rejected.push_back({offered.nameOf(place) + " (estimated, at the least)", one.leastUs});
  if (failed(judge()))
    return failure();
  CutPlan &chosen = built.front().cut;
  llvm::append_range(chosen.found.plan->believed.alternatives, rejected);
  result = std::move(chosen.module);
  handoff = std::move(chosen.found);
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
