// SPDX-License-Identifier: Apache-2.0
// Which pipelines are built: what estimates promise the most of, by every schedule that may pay,
// and what lies beside that where it turns out to hold less.
#include "ChoosePipeline.h"

#include "PipelineContest.h"
#include "SideBySide.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "llvm/ADT/StringExtras.h"

#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;

/// How many of the estimated pipelines with equal stages, and how many others, are cut, searched
/// and timed.
static constexpr size_t kFinalists = 2;
/// How many are where estimates still promise more than what the best turned out to be.
static constexpr size_t kMostFinalists = 6;
/// How many pipelines are built by a schedule before the best of them is what others have to beat.
static constexpr size_t kAtOnce = 2;
/// Of the memory limit: by what estimates get less where nothing holds, and the least that they
/// get.
static constexpr double kShareStep = 0.75, kLeastShare = 0.4;
/// How many places are built that estimates kept out, or that lie beside what was built.
static constexpr size_t kMostBeside = 12;
/// How many pipelines are searched whole.
static constexpr size_t kMostWhole = 4;

static func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

namespace {

class Chooser {
public:
  Chooser(ModuleOp module, const PipelineChoices &choices, const AutoShardOptions &options,
          const LowerOptions &lower, const ::autopar::Cluster &cluster, bool mustFit,
          function_ref<void(const std::string &)> onCandidate)
      : module(module), choices(choices), options(options), lower(lower), cluster(cluster),
        mustFit(mustFit), onCandidate(onCandidate),
        turns(options.stageMeshes ? options.stages / options.stageMeshes : 1) {}

  LogicalResult run(OwningOpRef<ModuleOp> &result, SearchHandoff &handoff);

private:
  struct Finalist {
    PipelinePlace place;
    PipelineTimes times; ///< by the first schedule
    bool isWhole = false;
  };

  void findPlans();
  bool tryBest(double limitShare);
  SmallVector<Pipeline> finalistsToBe(size_t equal);
  double heldUs() const;
  SmallVector<Finalist> considerTurns(ArrayRef<Finalist> finalists, const std::string &schedule);
  void considerSchedules(SmallVector<Finalist> finalists);
  bool considerFirst(PipelinePlace place, bool isWhole, bool byOthers);
  double bubbleUs(PipelinePlace place, double workUs) const;
  double hopedUs(const Finalist &finalist, const std::string &schedule) const;
  bool mayWin(const Finalist &finalist, const std::string &schedule) const;
  void considerBeside(bool byOthers);
  void gatherHopes();
  void considerWhole(bool byOthers);
  bool considerOthers();
  LogicalResult refuse() const;

  ModuleOp module;
  const PipelineChoices &choices;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  const ::autopar::Cluster &cluster;
  bool mustFit;
  function_ref<void(const std::string &)> onCandidate;
  int64_t turns; ///< that are asked for
  ::autopar::Constraints demands;
  TriedInVain inVain;
  PipelineEstimates estimates{module, choices, options, cluster, demands, inVain, onCandidate};
  PipelineBuilder builder{module, choices, options, lower, estimates, inVain, onCandidate};
  PipelineContest contest{choices, options, cluster, mustFit, turns, builder, estimates, inVain};
  std::set<PipelinePlace> leftOut;       ///< estimates of these do not hold
  std::set<PipelinePlace> tried;         ///< to build, of the estimates
  std::set<PipelinePlace> seen;          ///< tried at any time
  std::set<PipelinePlace> wholes;        ///< searched whole
  std::map<PipelinePlace, double> hopes; ///< what takes so much at the least, and has no plan
  SmallVector<Finalist> finalists;       ///< what was built by the first schedule
};

/// What filling and draining takes by the first schedule where every mesh works that long in a
/// step.
double Chooser::bubbleUs(PipelinePlace place, double workUs) const {
  return workUs * static_cast<double>(choices.stages[place.stages] - 1) /
         static_cast<double>(choices.microBatches[place.microBatches]);
}

/// The more stages take turns on a mesh, the smaller the bubble and the more micro-batches are in
/// flight: from few to many, while that is faster than by the first schedule, in which all have one
/// turn. Those that ever were.
SmallVector<Chooser::Finalist> Chooser::considerTurns(ArrayRef<Finalist> finalists,
                                                      const std::string &schedule) {
  struct Climb {
    const Finalist *finalist;
    PipelineTimes before;
    int64_t turns = 1; ///< of `before`
    bool goesOn = true;
  };
  SmallVector<Climb> climbs;
  for (const Finalist &finalist : finalists)
    climbs.push_back({&finalist, finalist.times});
  // Shorter stages are shared more evenly, but no more than that; once they take turns, about as
  // they are.
  auto hopedUs = [&](const Climb &climb, int64_t turns) {
    const auto &[us, workUs, evenUs] = climb.before;
    if (climb.turns > 1)
      return workUs + (us - workUs) * static_cast<double>(climb.turns) / static_cast<double>(turns);
    double drainUs = bubbleUs(climb.finalist->place, evenUs) / static_cast<double>(turns);
    return evenUs + drainUs * (::autopar::splitsBackward(schedule) ? kFreeBubble : 1);
  };
  for (int64_t turns : kTurns) {
    SmallVector<Pipeline> pipelines;
    SmallVector<Climb *> of;
    for (Climb &climb : climbs) {
      if (!climb.goesOn || hopedUs(climb, turns) >= contest.bestUs())
        continue;
      const auto &[place, first, isWhole] = *climb.finalist;
      pipelines.push_back({place, schedule, turns, isWhole});
      of.push_back(&climb);
    }
    for (auto [climb, times] : llvm::zip_equal(of, contest.consider(pipelines))) {
      climb->goesOn = times && times->us < climb->before.us;
      if (climb->goesOn) {
        climb->before = *times;
        climb->turns = turns;
      }
    }
  }
  SmallVector<Finalist> faster;
  for (const Climb &climb : climbs)
    if (climb.turns > 1)
      faster.push_back(*climb.finalist);
  return faster;
}

/// What a step may take by a schedule, as the first one tells: the bubble that is left, and of what
/// the busiest mesh works more than the mean a half, since stages are cut anew.
double Chooser::hopedUs(const Finalist &finalist, const std::string &schedule) const {
  const auto &[place, first, isWhole] = finalist;
  if (schedule == "eager-1f1b")
    return first.workUs + bubbleUs(place, first.workUs);
  double bubble = first.us - first.workUs;
  if (::autopar::splitsBackward(schedule))
    bubble *= kFreeBubble;
  if (::autopar::isInterleaved(schedule))
    bubble /= static_cast<double>(*std::rbegin(kTurns));
  return (first.workUs + first.evenUs) / 2 + bubble;
}

bool Chooser::mayWin(const Finalist &finalist, const std::string &schedule) const {
  int64_t stages = choices.stages[finalist.place.stages];
  bool isOffered = !::autopar::isInterleaved(schedule) ||
                   choices.microBatches[finalist.place.microBatches] % stages == 0;
  return stages > 1 && isOffered && hopedUs(finalist, schedule) < contest.bestUs();
}

/// All schedules but the first, one after the other, so that what is built late is measured against
/// all that came before; the most promising two first, so that the others are measured against
/// them too. One that takes turns is left out where the one before it, which is faster and holds
/// more, paid; one that runs ahead, where nothing is gained by it.
void Chooser::considerSchedules(SmallVector<Finalist> finalists) {
  std::set<PipelinePlace> paid;
  for (const std::string &schedule : ArrayRef(choices.schedules).drop_front()) {
    bool takesTurns = ::autopar::isInterleaved(schedule);
    llvm::sort(finalists, [&](const Finalist &a, const Finalist &b) {
      return std::pair(hopedUs(a, schedule), a.place) < std::pair(hopedUs(b, schedule), b.place);
    });
    for (auto next = finalists.begin(); next != finalists.end();) {
      SmallVector<Finalist> together;
      for (; next != finalists.end() && together.size() < kAtOnce; ++next)
        if (mayWin(*next, schedule) && !(takesTurns && paid.count(next->place)))
          together.push_back(*next);
      if (together.empty())
        break;
      if (takesTurns) {
        for (const Finalist &finalist : considerTurns(together, schedule))
          paid.insert(finalist.place);
        continue;
      }
      SmallVector<Pipeline> pipelines;
      for (const Finalist &finalist : together)
        pipelines.push_back({finalist.place, schedule, turns, finalist.isWhole});
      contest.consider(pipelines);
    }
  }
}

/// By the first schedule, and with `byOthers` by the others too. Whether it has a plan.
bool Chooser::considerFirst(PipelinePlace place, bool isWhole, bool byOthers) {
  std::optional<PipelineTimes> times =
      contest.consider(Pipeline{place, choices.schedules.front(), turns, isWhole}).front();
  if (times && byOthers)
    considerSchedules({Finalist{place, *times, isWhole}});
  return times.has_value();
}

/// Estimates that promised more than they held may have kept out what is faster than the best has
/// turned out to be, and ended the climb where its way led on: what was kept out, and what lies
/// beside all that was tried, is estimated and built while it promises more. Of a deep model, which
/// takes long to build, only the best of what was kept out, unless nothing has a plan.
void Chooser::considerBeside(bool byOthers) {
  bool isShort = builder.isDeep() && contest.toBeatUs() < HUGE_VAL;
  size_t found = 0, count = 0, most = isShort ? kFinalists : kMostBeside;
  for (bool isNew = true; std::exchange(isNew, false);) {
    estimates.beat(contest.toBeatUs());
    estimates.estimateKeptOut(contest.toBeatUs());
    if (!isShort)
      estimates.estimateBeside(seen);
    for (PipelinePlace place : estimates.ranking()) {
      if (found == kFinalists || count == most || estimates.at(place).stepUs >= contest.toBeatUs())
        break;
      if (!seen.insert(place).second)
        continue;
      isNew = true;
      ++count;
      found += considerFirst(place, /*isWhole=*/false, byOthers);
    }
  }
}

void Chooser::gatherHopes() {
  auto add = [&](PipelinePlace place, double us) {
    auto [known, isNew] = hopes.try_emplace(place, us);
    known->second = std::min(known->second, us);
  };
  for (auto [us, place] : estimates.unfit())
    add(place, us);
  for (auto [place, us] : builder.failedPlaces())
    add(place, us);
}

/// What came to nothing when it was built from its estimate, or has none that fits, may have a plan
/// all the same: it is searched as if it were demanded. Of a deep model that takes minutes, and is
/// done where nothing else has a plan.
void Chooser::considerWhole(bool byOthers) {
  if (builder.isDeep() && contest.toBeatUs() < HUGE_VAL)
    return;
  gatherHopes();
  std::vector<std::pair<double, PipelinePlace>> order;
  for (auto [place, us] : hopes)
    order.emplace_back(us, place);
  llvm::sort(order);
  size_t count = 0;
  for (auto [us, place] : order) {
    if (us >= contest.toBeatUs() || count == kMostWhole)
      break;
    if (!wholes.insert(place).second)
      continue;
    ++count;
    considerFirst(place, /*isWhole=*/true, byOthers);
  }
}

/// Where no program of the best fits: they once more, what they kept out, and what they were faster
/// than.
bool Chooser::considerOthers() {
  if (contest.considerRefused())
    return true;
  considerBeside(/*byOthers=*/false);
  considerWhole(/*byOthers=*/false);
  return contest.considerOutdone();
}

/// Estimates all anew and builds the best; false where no estimate fits.
bool Chooser::tryBest(double limitShare) {
  tried.clear();
  if (!estimates.climb(limitShare, leftOut))
    return false;
  size_t equal = 0;
  for (SmallVector<Pipeline> next = finalistsToBe(equal); !next.empty();
       next = finalistsToBe(equal))
    for (auto [pipeline, times] : llvm::zip_equal(next, contest.consider(next)))
      if (times) {
        finalists.push_back({pipeline.place, *times});
        equal += pipeline.place.shares == DeviceShares::Equal;
      }
  return true;
}

/// What the best of those that were built would take by the schedule that estimates count with.
double Chooser::heldUs() const {
  double us = HUGE_VAL;
  bool isFree = llvm::is_contained(choices.schedules, "zero-bubble");
  for (const Finalist &one : finalists)
    us = std::min(us, isFree ? one.times.leastUs() : one.times.us);
  return us;
}

/// Of the estimates as many as are missing, and the best with another number of stages, which keeps
/// other things waiting; where none is missing, one that promises more than the best holds.
/// `equal`: finalists with equal shares.
SmallVector<Pipeline> Chooser::finalistsToBe(size_t equal) {
  SmallVector<Pipeline> next;
  size_t missing[] = {kFinalists - std::min(kFinalists, finalists.size() - equal),
                      kFinalists - std::min(kFinalists, equal)};
  auto take = [&](PipelinePlace place) {
    tried.insert(place);
    seen.insert(place);
    next.push_back({place, choices.schedules.front(), turns});
  };
  std::vector<PipelinePlace> ranking = estimates.ranking();
  for (PipelinePlace place : ranking)
    if (size_t &count = missing[place.shares == DeviceShares::Equal];
        count > 0 && !tried.count(place)) {
      --count;
      take(place);
    }
  std::set<size_t> stages;
  for (PipelinePlace place : tried)
    stages.insert(place.stages);
  auto isOfAnotherKind = [&](PipelinePlace place) {
    return !stages.count(place.stages) &&
           estimates.at(place).stepUs < kClose * estimates.at(ranking.front()).stepUs;
  };
  if (stages.size() == 1)
    if (auto other = llvm::find_if(ranking, isOfAnotherKind); other != ranking.end())
      take(*other);
  if (!next.empty() || !contest.hasPlan() || finalists.size() >= kMostFinalists)
    return next;
  for (PipelinePlace place : ranking)
    if (!tried.count(place) && estimates.at(place).stepUs < heldUs()) {
      take(place);
      break;
    }
  return next;
}

/// Estimates may promise what does not fit: where none holds, what is slower than they are, and
/// was left out for it, has its turn, and where that does not help, they get less to promise. Then
/// by all schedules what may win by them.
void Chooser::findPlans() {
  while (tryBest(1) && !contest.hasPlan() && !tried.empty())
    leftOut.insert(tried.begin(), tried.end());
  leftOut.clear();
  gatherHopes();
  for (double share = kShareStep; !contest.hasPlan() && share >= kLeastShare; share *= kShareStep)
    if (!tryBest(share))
      break;
  if (contest.hasPlan())
    considerSchedules(finalists);
  considerBeside(/*byOthers=*/true);
  considerWhole(/*byOthers=*/true);
}

LogicalResult Chooser::refuse() const {
  if (inVain.empty()) {
    std::string shapes;
    for (const std::vector<::autopar::MeshAxis> &axes : demands.meshes())
      shapes += (shapes.empty() ? "" : "/") + ::autopar::shapeText(axes);
    return emitError(module->getLoc())
           << "no pipeline is as demanded: mesh " << shapes << " for each of "
           << llvm::join(llvm::map_range(choices.stages,
                                         [](int64_t count) { return std::to_string(count); }),
                         " or ")
           << " stages, with all " << cluster.deviceCount() << " devices in them";
  }
  InFlightDiagnostic error = emitError(module->getLoc(), "no pipeline has a plan");
  if (std::string leanest = inVain.leanest(); !leanest.empty())
    error << ": " << leanest;
  return error << "; what was tried:\n" << inVain.text();
}

LogicalResult Chooser::run(OwningOpRef<ModuleOp> &result, SearchHandoff &handoff) {
  func::FuncOp function = mainOf(module);
  if (!function || function.isExternal() || !function.getBody().hasOneBlock())
    return emitError(module.getLoc(), "expected a function @main of one block to plan");
  auto parsed = ::autopar::Constraints::parse("constraints", options.constraints);
  if (!parsed)
    return emitError(module.getLoc()) << parsed.status().message();
  demands = parsed.take();
  loadDialects(*module.getContext(), options, lower);
  findPlans();
  if (!contest.hasPlan())
    return refuse();
  do
    if (failed(contest.judge()))
      return failure();
  while (!contest.takeFitting() && contest.goesOn() && considerOthers());
  if (!contest.hasPlan())
    return refuse();
  if (!inVain.empty())
    emitRemark(module.getLoc()) << "without a plan:\n" << inVain.text();
  CutPlan chosen = contest.take();
  llvm::append_range(chosen.found.plan->believed.alternatives, estimates.others(seen));
  chosen.found.isHeldBack = builder.lackedMemory() || estimates.lackMemory();
  result = std::move(chosen.module);
  handoff = std::move(chosen.found);
  return success();
}

} // namespace

LogicalResult mlir::autopar::choosePipeline(
    OwningOpRef<ModuleOp> &module, const PipelineChoices &choices, const AutoShardOptions &options,
    const LowerOptions &lower, const ::autopar::Cluster &cluster, bool mustFit,
    SearchHandoff &handoff, function_ref<void(const std::string &)> onCandidate) {
  OwningOpRef<ModuleOp> result;
  Chooser chooser(*module, choices, options, lower, cluster, mustFit, onCandidate);
  if (failed(chooser.run(result, handoff)))
    return failure();
  module = std::move(result);
  return success();
}
