// SPDX-License-Identifier: Apache-2.0
// The real thing for what estimates promise the most of, under every schedule that may pay.
#include "ChoosePipeline.h"

#include "BalanceStages.h"
#include "PipelineEstimates.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/Stages.h"
#include "llvm/ADT/StringExtras.h"

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
/// Of the memory limit: by what estimates get less where nothing holds, and the least that they
/// get.
static constexpr double kShareStep = 0.75, kLeastShare = 0.4;
/// How many plans are judged by the kernels that they become, of those that are close to the best.
static constexpr size_t kJudged = 3;
/// Stages of a mesh that are tried.
static constexpr int64_t kTurns[] = {2, 4};
/// Of a step: what plans that take turns have to save, for all that there is more of in them.
static constexpr double kTurnsSave = 0.005;

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
  struct Times {
    double us, workUs, evenUs; ///< of a step, of what its busiest mesh does in it, and its mean one
    /// By a schedule that is free.
    double leastUs() const { return workUs + kFreeBubble * (us - workUs); }
  };
  /// A place of the estimates and how it is run.
  struct Pipeline {
    PipelinePlace place;
    std::string schedule;
    int64_t turns;
  };
  using Finalist = std::pair<PipelinePlace, Times>;
  struct Candidate {
    Pipeline pipeline;
    std::string name;
    CutPlan cut;
    double us() const { return cut.found.plan->believed.stepUs; }
    Times times() const {
      double most = 0, sum = 0;
      for (const MeshLoad &load : cut.found.loads) {
        most = std::max(most, load.workUs + load.againUs);
        sum += load.workUs + load.againUs;
      }
      if (most == 0)
        return {us(), us(), us()};
      return {us(), most, sum / static_cast<double>(cut.found.loads.size())};
    }
    /// By its kernels, what turns have to save included.
    double kernelsUs() const {
      double us = cut.found.plan->believed.kernelsUs;
      return pipeline.turns > 1 ? us / (1 - kTurnsSave) : us;
    }
  };

  bool tryBest(int64_t turns, double limitShare);
  std::string nameOf(const Pipeline &pipeline) const;
  void configure(const Pipeline &pipeline, AutoShardOptions &own) const;
  OwningOpRef<ModuleOp> uncut(const Pipeline &pipeline);
  std::optional<Candidate> build(const Pipeline &pipeline);
  std::optional<Times> consider(const Pipeline &pipeline);
  bool considerTurns(const Finalist &finalist, const std::string &schedule);
  void considerSchedules(ArrayRef<Finalist> close, int64_t turns);
  double bubbleUs(PipelinePlace place, double workUs) const;
  void considerKeptOut(int64_t turns, double closeUs);
  bool hasPlan() const { return !built.empty(); }
  double bestUs() const { return built.front().us(); }
  void keep(Candidate candidate);
  LogicalResult judge();

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  const ::autopar::Cluster &cluster;
  function_ref<void(const std::string &)> onCandidate;
  ::autopar::Constraints demands;
  TriedInVain inVain;
  PipelineEstimates estimates{module, choices, options, cluster, demands, inVain, onCandidate};
  std::set<PipelinePlace> leftOut; ///< estimates of these do not hold
  std::set<PipelinePlace> tried;   ///< to build, of the estimates
  bool lacksMemory = false;        ///< what was built, or was to be, and is faster with more of it
  SmallVector<Finalist> finalists; ///< what was built by the first schedule
  std::vector<Candidate> built;    ///< the best, by what the search believes
  std::vector<PlanAlternative> rejected;
};

std::string Chooser::nameOf(const Pipeline &pipeline) const {
  std::string name = estimates.nameOf(pipeline.place);
  if (choices.stages[pipeline.place.stages] * pipeline.turns > 1 && choices.schedules.size() > 1)
    name += ", " + pipeline.schedule;
  if (pipeline.turns > 1)
    name += ", " + std::to_string(pipeline.turns) + " turns";
  return name;
}

/// Says what is cut, and that the estimate's mesh is searched.
void Chooser::configure(const Pipeline &pipeline, AutoShardOptions &own) const {
  const StageEstimate &estimate = estimates.at(pipeline.place);
  own.copyOptionValuesFrom(options);
  own.stageMeshes = choices.stages[pipeline.place.stages];
  own.stages = own.stageMeshes * pipeline.turns;
  own.schedule = pipeline.schedule;
  // Of one stage, the whole search is over the same function as the estimate, and goes further:
  // what is computed again counts by operations, on every mesh.
  if (own.stages > 1 || estimate.again == ComputesAgain::Nothing)
    own.mesh = ::autopar::shapeText(estimate.meshes);
}

/// The function with the devices and paces of the estimate.
OwningOpRef<ModuleOp> Chooser::uncut(const Pipeline &pipeline) {
  const StageEstimate &estimate = estimates.at(pipeline.place);
  SmallVector<SmallVector<int64_t>> devices;
  for (const ::autopar::Mesh &mesh : estimate.meshes)
    devices.emplace_back(mesh.devices.begin(), mesh.devices.end());
  OwningOpRef<ModuleOp> copy(estimates.split(pipeline.place.microBatches).clone());
  auto function = copy->lookupSymbol<func::FuncOp>("main");
  setStageDevices(function, devices);
  if (!estimate.paces.empty())
    function->setAttr(kStagePaceAttribute,
                      DenseF64ArrayAttr::get(function.getContext(), estimate.paces));
  return copy;
}

/// Cuts, and searches from the estimate's plan.
std::optional<Chooser::Candidate> Chooser::build(const Pipeline &pipeline) {
  const StageEstimate &estimate = estimates.at(pipeline.place);
  std::string name = nameOf(pipeline);
  onCandidate(name);
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      inVain.add(name, diagnostic.str());
    return success();
  });
  AutoShardOptions own;
  configure(pipeline, own);
  SearchHandoff start;
  if (own.stages > 1 || estimate.again == ComputesAgain::Nothing) {
    start.start = estimate.plan;
    start.again = estimate.again;
  }
  double boundUs = hasPlan() ? bestUs() : HUGE_VAL;
  int64_t leastBytes = 0;
  FailureOr<CutPlan> cut =
      cutAndSearch(*uncut(pipeline), own, lower, std::move(start), {boundUs, boundUs}, &leastBytes);
  if (failed(cut)) {
    inVain.missed(leastBytes, name);
    lacksMemory |= leastBytes > 0;
    return std::nullopt;
  }
  return Candidate{pipeline, name, std::move(*cut)};
}

/// What its step takes, if it has a plan.
std::optional<Chooser::Times> Chooser::consider(const Pipeline &pipeline) {
  std::optional<Candidate> candidate = build(pipeline);
  if (!candidate)
    return std::nullopt;
  Times times = candidate->times();
  lacksMemory |= !candidate->cut.found.plan->recompute.empty();
  keep(std::move(*candidate));
  return times;
}

void Chooser::keep(Candidate candidate) {
  auto isSlower = [&](const Candidate &other) { return other.us() > candidate.us(); };
  built.insert(llvm::find_if(built, isSlower), std::move(candidate));
  estimates.beat(bestUs());
  while (built.size() > kJudged || built.back().us() > kClose * bestUs()) {
    rejected.push_back({built.back().name, built.back().us()});
    built.pop_back();
  }
}

/// The search counts operations one by one; what is close by that is told apart by kernels, and by
/// what runs beside them, each cut as they want it. The best comes to the front.
LogicalResult Chooser::judge() {
  if (built.size() == 1 && choices.stages[built.front().pipeline.place.stages] == 1)
    return success();
  for (Candidate &candidate : built) {
    onCandidate(candidate.name + ": its kernels");
    AutoShardOptions own;
    configure(candidate.pipeline, own);
    if (failed(refineByKernels(*uncut(candidate.pipeline), own, lower, candidate.cut)))
      return failure();
  }
  std::sort(built.begin(), built.end(),
            [](const Candidate &a, const Candidate &b) { return a.kernelsUs() < b.kernelsUs(); });
  for (; built.size() > 1; built.pop_back())
    rejected.push_back(
        {built.back().name + llvm::formatv(" ({0:f1} us by its kernels)",
                                           built.back().cut.found.plan->believed.kernelsUs)
                                 .str(),
         built.back().us()});
  return success();
}

/// What filling and draining takes by the first schedule where every mesh works that long in a
/// step.
double Chooser::bubbleUs(PipelinePlace place, double workUs) const {
  return workUs * static_cast<double>(choices.stages[place.stages] - 1) /
         static_cast<double>(choices.microBatches[place.microBatches]);
}

/// The more stages take turns on a mesh, the smaller the bubble and the more micro-batches are in
/// flight: from few to many, while that is faster than by the first schedule, in which all have one
/// turn. Whether it ever was.
bool Chooser::considerTurns(const Finalist &finalist, const std::string &schedule) {
  const auto &[place, first] = finalist;
  if (choices.microBatches[place.microBatches] % choices.stages[place.stages] != 0)
    return false; // the schedule asks for it
  double beforeUs = first.us;
  for (int64_t turns : kTurns) {
    double drainUs = bubbleUs(place, first.evenUs) / static_cast<double>(turns);
    if (::autopar::splitsBackward(schedule))
      drainUs *= kFreeBubble;
    if (first.evenUs + drainUs >= bestUs())
      continue; // shorter stages are shared more evenly, but no more than that
    std::optional<Times> times = consider({place, schedule, turns});
    if (!times || times->us >= beforeUs)
      break;
    beforeUs = times->us;
  }
  return beforeUs < first.us;
}

/// All schedules but the first, one after the other, so that what is built late is measured against
/// all that came before. One that takes turns is left out where the one before it, which is faster
/// and holds more, paid; one that runs ahead, where nothing is gained by it.
void Chooser::considerSchedules(ArrayRef<Finalist> close, int64_t turns) {
  std::set<PipelinePlace> paid;
  for (const std::string &schedule : ArrayRef(choices.schedules).drop_front())
    for (const Finalist &finalist : close) {
      const auto &[place, first] = finalist;
      if (choices.stages[place.stages] == 1 || first.leastUs() >= bestUs())
        continue;
      if (::autopar::isInterleaved(schedule)) {
        if (!paid.count(place) && considerTurns(finalist, schedule))
          paid.insert(place);
      } else if (schedule != "eager-1f1b" ||
                 first.workUs + bubbleUs(place, first.workUs) < bestUs()) {
        consider({place, schedule, turns});
      }
    }
}

/// Estimates that promised more than they held may have kept out what is faster than the best has
/// turned out to be. Those that take up to `closeUs` by the first schedule are tried by the others.
void Chooser::considerKeptOut(int64_t turns, double closeUs) {
  SmallVector<PipelinePlace> keptOut = estimates.estimateKeptOut(bestUs());
  size_t count = 0;
  for (PipelinePlace place : estimates.ranking()) {
    if (count == kFinalists || estimates.at(place).stepUs >= bestUs())
      break;
    if (!llvm::is_contained(keptOut, place) || !tried.insert(place).second)
      continue;
    std::optional<Times> times = consider({place, choices.schedules.front(), turns});
    if (times && times->us <= closeUs)
      considerSchedules(Finalist{place, *times}, turns);
    count += times.has_value();
  }
}

/// Estimates all anew and builds the best; false where no estimate fits.
bool Chooser::tryBest(int64_t turns, double limitShare) {
  tried.clear();
  if (!estimates.climb(limitShare, leftOut))
    return false;
  size_t equal = 0;
  for (PipelinePlace place : estimates.ranking()) {
    bool isEqual = place.shares == DeviceShares::Equal;
    bool promisesMore =
        hasPlan() && finalists.size() < kMostFinalists && estimates.at(place).stepUs < bestUs();
    if ((isEqual ? equal : finalists.size() - equal) >= kFinalists && !promisesMore)
      continue;
    tried.insert(place);
    std::optional<Times> times = consider({place, choices.schedules.front(), turns});
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
  while (tryBest(turns, 1) && !hasPlan() && !tried.empty())
    leftOut.insert(tried.begin(), tried.end());
  leftOut.clear();
  for (double share = kShareStep; !hasPlan() && share >= kLeastShare; share *= kShareStep)
    if (!tryBest(turns, share))
      break;
  if (!hasPlan() && inVain.empty()) {
    std::string shapes;
    for (const std::vector<::autopar::MeshAxis> &axes : demands.meshes())
      shapes += (shapes.empty() ? "" : "/") + ::autopar::shapeText(axes);
    return emitError(module.getLoc())
           << "no pipeline is as demanded: mesh " << shapes << " for each of "
           << llvm::join(llvm::map_range(choices.stages,
                                         [](int64_t count) { return std::to_string(count); }),
                         " or ")
           << " stages, with all " << cluster.deviceCount() << " devices in them";
  }
  if (!hasPlan()) {
    InFlightDiagnostic error = emitError(module.getLoc(), "no pipeline has a plan");
    if (std::string leanest = inVain.leanest(); !leanest.empty())
      error << ": " << leanest;
    return error << "; what was tried:\n" << inVain.text();
  }
  double first = bestUs();
  std::sort(finalists.begin(), finalists.end(), [](const Finalist &a, const Finalist &b) {
    return a.second.leastUs() < b.second.leastUs();
  });
  llvm::erase_if(finalists, [&](const Finalist &one) { return one.second.us > kClose * first; });
  considerSchedules(finalists, turns);
  considerKeptOut(turns, kClose * first);
  if (!inVain.empty())
    emitRemark(module.getLoc()) << "without a plan:\n" << inVain.text();
  llvm::append_range(rejected, estimates.others(tried));
  if (failed(judge()))
    return failure();
  CutPlan &chosen = built.front().cut;
  chosen.found.isHeldBack = lacksMemory || estimates.lackMemory();
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
