// SPDX-License-Identifier: Apache-2.0
// See the header. What a plan takes is PlanJudge's to say.
#include "SearchPlan.h"

#include "PlanJudge.h"
#include "PromisedMemory.h"
#include "SideBySide.h"
#include "WaitedShares.h"
#include "autopar/Base/UnitsText.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;

namespace {

/// A plan whose search counts less than this share of the limit is not held up by it.
constexpr double kUnbound = 0.85;
/// Limits, in that of the device, under which shardings are searched for which every layer is
/// computed again.
constexpr double kRelaxed[] = {1e3, 2, 1.4, 1, 0.85, 0.7, 0.55};

/// With what shardings are searched that recomputation makes fit.
constexpr ComputesAgain kRecomputed[] = {ComputesAgain::Cheap, ComputesAgain::Layers};

class PlanSearch {
public:
  /// `isHeld`: values of the module have their holds.
  /// `waitedShare` as autopar-search takes it.
  PlanSearch(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower,
             SearchHandoff &handoff, bool isHeld = false, double waitedShare = 0)
      : module(module), options(options), lower(lower), handoff(handoff), isHeld(isHeld),
        waitedShare(waitedShare) {}

  /// What is done while a plan is judged that most likely fits as it is and takes `likelyUs`, and
  /// what by the thread that judged it. `time` times its kernels ahead of who asks for that next,
  /// if it fits, once it is judged.
  using Meanwhile = std::function<void(double likelyUs, function_ref<void()> time)>;
  void whileJudged(Meanwhile task, std::function<void()> then, bool keepsGroups) {
    meanwhile = std::move(task);
    behind = std::move(then);
    this->keepsGroups = keepsGroups;
  }

  LogicalResult run() {
    if (!options.plan.empty())
      return runPhase(module, Phase::Search, options);
    // A plan that is drawn is run as it is drawn.
    bool keepsAll = options.recompute == "none" && !options.offloadActivations;
    if (keepsAll || options.engine == "random")
      return runPass(options, ComputesAgain::Nothing, true);
    if (failed(judge.load()))
      return failure();
    limit = judge.limitBytes();
    AutoShardOptions own;
    own.copyOptionValuesFrom(options);
    std::string why;
    if (options.recompute == "full")
      return recomputeLayers(own);
    if (handoff.again && *handoff.again != ComputesAgain::Nothing)
      return chooseAmong(std::nullopt, own, why);
    if (!searched(own, ComputesAgain::Nothing, why))
      return chooseAmong(std::nullopt, own, why);
    if (judge.surelyFits(handoff.plan->believed.peakBytes)) {
      handoff.again = ComputesAgain::Nothing;
      return success();
    }
    return chooseAmong(taken(ComputesAgain::Nothing), own, why);
  }

private:
  AutoShardOptions &relaxed(AutoShardOptions &own, double factor) const {
    own.memoryLimit = static_cast<int64_t>(std::min(factor * limit, 9e18));
    return own;
  }

  /// Whether there is a plan under these options; `why` gets what the search said where not.
  bool searched(const AutoShardOptions &own, ComputesAgain what, std::string &why) {
    OwnDiagnostics handler(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return failure();
      why = diagnostic.str();
      return success();
    });
    // What would do is not asked: recomputation may do with less.
    return succeeded(runPass(own, what, false));
  }

  LogicalResult runPass(const AutoShardOptions &own, ComputesAgain what, bool leastMemory) {
    bool isFirst = !std::exchange(isHeld, true);
    PassManager manager(module.getContext());
    manager.enableVerifier(false); // once is enough
    if (isFirst)
      manager.addNestedPass<func::FuncOp>(createHoldAcrossPhasesPass());
    SearchPassOptions search = searchOptions(own);
    search.leastMemory = leastMemory;
    search.computesAgain = nameOf(what).str();
    search.waitedShare = waitedShare;
    search.planFile = "";
    manager.addPass(createSearchPass(search, handoff));
    if (failed(manager.run(module)))
      return failure();
    return success(!isFirst || succeeded(verify(module)));
  }

  /// What was searched last.
  JudgedPlan taken(ComputesAgain again) {
    JudgedPlan candidate;
    candidate.plan = std::move(*handoff.plan);
    candidate.details = std::move(handoff.details);
    candidate.describe = std::exchange(handoff.describe, nullptr);
    candidate.again = again;
    handoff.plan.reset();
    return candidate;
  }
  LogicalResult deliver(JudgedPlan candidate) {
    handoff.modules = std::move(candidate.modules);
    handoff.plan = std::move(candidate.plan);
    handoff.details = std::move(candidate.details);
    handoff.describe = std::move(candidate.describe);
    handoff.loads = std::move(candidate.loads);
    handoff.isJudged = candidate.isJudged;
    handoff.again = candidate.again;
    return success();
  }

  /// Operations from a database say themselves what they save and how much they work with, which
  /// the search counts; groups know tensors alone.
  bool isMeasured() const {
    return module
        ->walk([](Operation *op) {
          return isa<ProfiledOp>(op) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  /// Searches under the relaxed limits, falling, in that of the device, until `visit` says that it
  /// is enough; whether it did. Plans that are like the one before are left out; `why` is what the
  /// search said of the limit under which nothing was found.
  FailureOr<bool> searchRelaxed(AutoShardOptions &own, std::string &why,
                                function_ref<FailureOr<bool>(JudgedPlan)> visit) {
    double last = 0, unlimitedBytes = std::numeric_limits<double>::infinity();
    for (double factor : kRelaxed) {
      if (factor * limit >= unlimitedBytes)
        continue; // would find the same
      if (!searched(relaxed(own, factor), ComputesAgain::Layers, why))
        return false; // nor under a lower one
      JudgedPlan found = taken(ComputesAgain::Layers);
      unlimitedBytes =
          std::min(unlimitedBytes, static_cast<double>(found.plan.believed.peakBytes.front()));
      // A limit that binds as little as the one before gives the same plan.
      if (std::exchange(last, found.plan.believed.stepUs) == found.plan.believed.stepUs)
        continue;
      FailureOr<bool> isEnough = visit(std::move(found));
      if (failed(isEnough) || *isEnough)
        return isEnough;
    }
    return false;
  }

  /// One of many that are tried is not looked at from all sides, unless it is slower than it was
  /// thought to be.
  bool isEnough(const JudgedPlan &best) const {
    return handoff.again && best.plan.believed.stepUs <= handoff.enoughUs;
  }

  /// The way of the start first.
  SmallVector<ComputesAgain> recomputed() const {
    SmallVector<ComputesAgain> ways = llvm::to_vector(kRecomputed);
    if (handoff.again)
      llvm::stable_sort(ways, [&](ComputesAgain a, ComputesAgain b) {
        return (a == *handoff.again) > (b == *handoff.again);
      });
    return ways;
  }

  /// The fastest of the judged plans that fits, and the one that needs the fewest bytes.
  struct Contest {
    std::optional<JudgedPlan> best, leanest;
  };

  LogicalResult consider(JudgedPlan candidate, Contest &contest) const {
    std::optional<JudgedPlan> &best = contest.best;
    double boundUs = best ? best->plan.believed.stepUs : handoff.boundUs;
    if (candidate.plan.believed.stepUs >= boundUs)
      return success();
    if (failed(judge.judge(candidate)))
      return failure();
    if (!candidate.fits && (!contest.leanest || candidate.leastBytes < contest.leanest->leastBytes))
      contest.leanest = std::move(candidate);
    else if (candidate.fits &&
             (!best || candidate.plan.believed.stepUs < best->plan.believed.stepUs))
      best = std::move(candidate);
    return success();
  }

  static bool keepsAll(const JudgedPlan &judged) {
    return judged.plan.recompute.empty() && judged.plan.offloadActivations.empty();
  }

  LogicalResult considerMeanwhile(JudgedPlan tight, Contest &contest) {
    double likelyUs = tight.plan.believed.stepUs;
    LogicalResult considered = success();
    std::atomic<bool> isJudged = false;
    loadDialects(*module.getContext(), options, lower);
    runSideBySide(*module.getContext(), 2, [&](size_t i) {
      if (i == 0) {
        considered = consider(std::move(tight), contest);
        isJudged = true;
        return behind();
      }
      meanwhile(likelyUs, [&] {
        if (!isJudged || !contest.best || !keepsAll(*contest.best))
          return;
        contest.best->modules.keepsGroups = keepsGroups;
        (void)judge.kernelTimes(contest.best->plan, contest.best->modules);
      });
    });
    return considered;
  }

  /// Where every layer may be computed again a search sees no use in a sharding that holds less,
  /// such as split sums of gradients, though what it saves need not be computed again. So limits
  /// get tighter while steps get shorter by it.
  LogicalResult tighten(const AutoShardOptions &own, Contest &contest) {
    double lastUs = 0;
    std::string why;
    for (double share = kTighter; contest.best && share >= kTightest; share *= kTighter) {
      double beforeUs = contest.best->plan.believed.stepUs;
      AutoShardOptions tighter;
      tighter.copyOptionValuesFrom(own);
      if (contest.best->plan.believed.recomputeUs < kDearAgain * beforeUs ||
          !searched(relaxed(tighter, share), ComputesAgain::Layers, why))
        break;
      JudgedPlan found = taken(ComputesAgain::Layers);
      if (std::exchange(lastUs, found.plan.believed.stepUs) == found.plan.believed.stepUs)
        continue; // the same once more
      if (failed(consider(std::move(found), contest)))
        return failure();
      if (contest.best->plan.believed.stepUs >= beforeUs)
        break;
    }
    return success();
  }

  /// Of two that fit, by kernels: what split sums take, some of it beside what computes, is told
  /// by them alone.
  LogicalResult takeFaster(std::optional<JudgedPlan> &loose,
                           std::optional<JudgedPlan> &best) const {
    if (!loose || loose->plan.believed.stepUs == best->plan.believed.stepUs)
      return success();
    FailureOr<PlanJudge::KernelTimes> looseUs = judge.kernelTimes(loose->plan, loose->modules),
                                      bestUs = judge.kernelTimes(best->plan, best->modules);
    if (failed(looseUs) || failed(bestUs))
      return failure();
    if (looseUs->stepUs < bestUs->stepUs)
      best = std::move(loose);
    return success();
  }

  /// The fastest whole of the plan that fits without recomputation, if there is one, and those
  /// whose shardings are searched with it.
  LogicalResult chooseAmong(std::optional<JudgedPlan> tight, const AutoShardOptions &own,
                            std::string &why) {
    Contest contest;
    std::optional<JudgedPlan> &best = contest.best;
    std::optional<double> tightUs;
    bool isUnbound = false;
    if (tight) {
      tightUs = tight->plan.believed.stepUs;
      isUnbound = static_cast<double>(tight->plan.believed.peakBytes.front()) <= kUnbound * limit;
      bool hasTime = isUnbound && meanwhile && WaitedShares::areMany(handoff, options);
      if (isMeasured())
        best = std::move(*tight);
      else if (failed(hasTime ? considerMeanwhile(std::move(*tight), contest)
                              : consider(std::move(*tight), contest)))
        return failure();
    }
    if (best && keepsAll(*best) && isUnbound)
      return deliver(std::move(*best));
    for (ComputesAgain what : recomputed()) {
      if (best && isEnough(*best))
        break;
      if (searched(own, what, why) && failed(consider(taken(what), contest)))
        return failure();
    }
    std::optional<JudgedPlan> loose = best;
    if (failed(tighten(own, contest)) || (!handoff.again && failed(takeFaster(loose, best))))
      return failure();
    // What the search cannot fit may fit as the program that it becomes; else it says what it
    // takes.
    if (!best && !handoff.again) {
      AutoShardOptions loose;
      loose.copyOptionValuesFrom(own);
      if (failed(searchRelaxed(loose, why, [&](JudgedPlan found) -> FailureOr<bool> {
            if (failed(consider(std::move(found), contest)))
              return failure();
            return best.has_value();
          })))
        return failure();
    }
    if (!best && contest.leanest)
      return deliverIfProgramFits(std::move(*contest.leanest));
    if (!best)
      return emitError(module.getLoc())
             << (why.empty() ? "nothing is faster than what is known" : why);
    if (tightUs && !best->plan.recompute.empty())
      best->plan.believed.alternatives.push_back(
          {"within the limit without recomputation", *tightUs});
    return deliver(std::move(*best));
  }

  /// The last word where the judge finds nothing that fits.
  LogicalResult deliverIfProgramFits(JudgedPlan leanest) {
    handoff.loads = leanest.loads;
    handoff.leanestUs = leanest.plan.believed.stepUs;
    // One of many that are tried need not know to the byte.
    if (!handoff.again && !isMeasured()) {
      FailureOr<bool> fits = fitsAsProgram(leanest);
      if (failed(fits))
        return failure();
      if (*fits)
        return deliver(std::move(leanest));
    }
    const ::autopar::PlanBelief &believed = leanest.plan.believed;
    std::string what;
    if (believed.recomputeUs > 0)
      what = " with recomputation, and a step takes about " + ::autopar::timeText(believed.stepUs) +
             ", " + ::autopar::timeText(believed.recomputeUs) + " of it for what is computed again";
    return refuseMemory(module, options, static_cast<int64_t>(limit), leanest.leastBytes, what);
  }

  /// Whether the program that a plan becomes fits, which may be smaller than the judge says; its
  /// bytes are what the plan needs either way.
  FailureOr<bool> fitsAsProgram(JudgedPlan &judged) const {
    FailureOr<PlanJudge::Lowered> lowered = judge.lowered(judged.plan, judged.modules);
    if (failed(lowered))
      return failure();
    judged.leastBytes = *llvm::max_element(lowered->bytes);
    judged.plan.believed.peakBytes = std::move(lowered->bytes);
    return static_cast<double>(judged.leastBytes) <= limit;
  }

  /// The fastest sharding that fits once every layer is computed again: the looser the limit that
  /// it was searched under, the faster it is and the more it needs.
  LogicalResult recomputeLayers(AutoShardOptions &own) {
    int64_t least = std::numeric_limits<int64_t>::max();
    std::string why;
    FailureOr<bool> fits = searchRelaxed(own, why, [&](JudgedPlan found) -> FailureOr<bool> {
      if (failed(judge.believeLayers(found)))
        return failure();
      int64_t peak = *llvm::max_element(found.plan.believed.peakBytes);
      least = std::min(least, peak);
      if (static_cast<double>(peak) > limit)
        return false;
      return succeeded(deliver(std::move(found)));
    });
    if (failed(fits) || *fits)
      return fits;
    if (least == std::numeric_limits<int64_t>::max())
      return emitError(module.getLoc()) << why;
    return emitError(module.getLoc())
           << llvm::formatv("with every layer computed again a device needs {0} bytes of {1:f0}: "
                            "use more ranks, more micro-batches, or recompute=auto, which also "
                            "computes parts of a layer again",
                            least, limit)
                  .str();
  }

  ModuleOp module;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  SearchHandoff &handoff;
  PlanJudge judge{module, options, lower};
  Meanwhile meanwhile; ///< null: nothing
  std::function<void()> behind;
  bool keepsGroups = true; ///< of what is timed ahead
  bool isHeld;
  double waitedShare;
  double limit = 0; ///< bytes per device
};

} // namespace

LogicalResult mlir::autopar::annotatePlan(ModuleOp module, const Plan &plan, bool isVerified) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // once is enough
  manager.addPass(createAnnotatePass(plan));
  return success(succeeded(manager.run(module)) && (!isVerified || succeeded(verify(module))));
}

static LogicalResult searchPlan(ModuleOp module, const AutoShardOptions &options,
                                const LowerOptions &lower, SearchHandoff &handoff, bool isHeld,
                                bool isLowered) {
  auto searchShare = [&](SearchHandoff &found, double share) {
    return PlanSearch(module, options, lower, found, /*isHeld=*/true, share).run();
  };
  std::optional<WaitedShares> shares;
  Meeting meeting;
  PlanSearch search(module, options, lower, handoff, isHeld);
  search.whileJudged(
      [&](double likelyUs, function_ref<void()> time) {
        shares.emplace(module, options, lower, handoff, searchShare, isLowered);
        shares->search(handoff, ComputesAgain::Nothing);
        if (succeeded(shares->prepareTiming(likelyUs, time)) && meeting.offer())
          shares->workOff();
      },
      [&] {
        if (meeting.join())
          shares->workOff();
      },
      /*keepsGroups=*/!isLowered);
  handoff.kept = makeKeptProblems();
  if (failed(search.run()))
    return failure();
  if (handoff.plan && WaitedShares::areMany(handoff, options)) {
    if (!shares)
      shares.emplace(module, options, lower, handoff, searchShare, isLowered);
    FailureOr<SearchHandoff> fastest = shares->fastest(std::move(handoff));
    if (failed(fastest))
      return failure();
    handoff = std::move(*fastest);
  }
  handoff.kept.reset();
  if (handoff.plan && handoff.loads.empty())
    handoff.loads = loadsOf(*handoff.plan, handoff.details);
  return success();
}

LogicalResult mlir::autopar::searchPlan(ModuleOp module, const AutoShardOptions &options,
                                        const LowerOptions &lower, SearchHandoff &handoff) {
  if (failed(::searchPlan(module, options, lower, handoff, /*isHeld=*/false, /*isLowered=*/false)))
    return failure();
  handoff.outdone.clear();
  if (::autopar::Status status = handoff.describeNow(); !status.isOk())
    return emitError(module.getLoc()) << status.message();
  return success();
}

/// Lowers the plan until it fits, and meanwhile lets go of the others and describes it.
static LogicalResult fitAndDescribe(ModuleOp module, const AutoShardOptions &options,
                                    const LowerOptions &lower, SearchHandoff &handoff,
                                    int64_t &neededBytes) {
  LogicalResult fits = success();
  ::autopar::Result<::autopar::PlanDetails> details = ::autopar::PlanDetails();
  DescribePlan describe = std::exchange(handoff.describe, nullptr);
  loadDialects(*module.getContext(), options, lower);
  std::vector<SearchHandoff> outdone = std::move(handoff.outdone);
  runSideBySide(*module.getContext(), describe || !outdone.empty() ? 2 : 1, [&](size_t i) {
    if (i == 0) {
      fits = fitToMemory(module, options, lower, handoff, &neededBytes);
      return;
    }
    outdone.clear();
    if (describe)
      details = describe();
  });
  if (failed(fits))
    return failure();
  if (!details)
    return emitError(module.getLoc()) << details.status().message();
  if (describe)
    handoff.details = details.take();
  return success();
}

LogicalResult mlir::autopar::searchFitting(ModuleOp module, const AutoShardOptions &options,
                                           const LowerOptions &lower, SearchHandoff &handoff) {
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  auto attempt = [&](const PromisedMemory &promised, int64_t &neededBytes) -> LogicalResult {
    AutoShardOptions own;
    own.copyOptionValuesFrom(options);
    promised.limitSearch(own);
    handoff = SearchHandoff();
    if (failed(::searchPlan(module, own, lower, handoff, /*isHeld=*/promised.refusals > 0,
                            /*isLowered=*/true)))
      return failure();
    return fitAndDescribe(module, options, lower, handoff, neededBytes);
  };
  return attemptToFit(module, options, static_cast<int64_t>(judge.limitBytes()), attempt);
}
