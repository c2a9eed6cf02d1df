// SPDX-License-Identifier: Apache-2.0
// See the header. A plan is judged by what it becomes: a copy of the module is lowered along it
// until fusion groups are formed, which is what is kept or computed again.
#include "SearchPlan.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/RecomputeProblem.h"
#include "mlir/IR/Verifier.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Plan;
using ::autopar::RecomputeProblem;
using ::autopar::RecomputeSolution;

namespace {

/// A plan whose search counts less than this share of the limit fits: the search knows neither
/// copies that are resharded nor scratch.
constexpr double kFree = 0.6;
/// A plan whose search counts less than this share of the limit is not held up by it.
constexpr double kUnbound = 0.85;
/// Limits, in that of the device, under which shardings are searched for which every layer is
/// computed again.
constexpr double kRelaxed[] = {1e3, 2, 1.4, 1, 0.85, 0.7, 0.55};

/// With what shardings are searched that recomputation makes fit.
constexpr ComputesAgain kRecomputed[] = {ComputesAgain::Cheap, ComputesAgain::Layers};

/// How often a plan is lowered to see whether it fits.
constexpr int kFittings = 8;

struct Candidate {
  Plan plan; ///< with its recomputation, as believed
  ::autopar::PlanDetails details;
  bool fits = false, isJudged = false;
  int64_t leastBytes = std::numeric_limits<int64_t>::max();
};

class PlanSearch {
public:
  PlanSearch(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower,
             SearchHandoff &handoff)
      : module(module), options(options), lower(lower), handoff(handoff) {}

  LogicalResult run() {
    if (!options.plan.empty())
      return runPhase(module, Phase::Search, options);
    // A plan that is drawn is run as it is drawn.
    if (options.recompute == "none" || options.engine == "random")
      return runPass(options, ComputesAgain::Nothing, true);
    if (failed(loadCluster()))
      return failure();
    AutoShardOptions own;
    own.copyOptionValuesFrom(options);
    std::string why;
    if (options.recompute == "full")
      return recomputeLayers(own);
    if (handoff.again && *handoff.again != ComputesAgain::Nothing)
      return chooseAmong(std::nullopt, *handoff.again, own, why);
    ArrayRef<ComputesAgain> others = kRecomputed;
    if (!searched(own, ComputesAgain::Nothing, why))
      return chooseAmong(std::nullopt, handoff.again ? others.take_back(1) : others, own, why);
    if (static_cast<double>(handoff.plan->believed.peakBytes.front()) <= kFree * limit)
      return success();
    return chooseAmong(taken(), handoff.again ? others.take_front(0) : others, own, why);
  }

  LogicalResult fit() {
    if (options.recompute != "auto" || options.engine == "random")
      return success();
    if (failed(loadCluster()))
      return failure();
    Plan now = *handoff.plan;
    if (now.recompute.empty() &&
        static_cast<double>(*llvm::max_element(now.believed.peakBytes)) <= kFree * limit)
      return success();
    Plan bare = withoutRecomputation(now);
    std::vector<RecomputeProblem> problems;
    for (int round = 0; round < kFittings; ++round) {
      FailureOr<OwningOpRef<ModuleOp>> lowered = programsOfRanks(now);
      if (failed(lowered))
        return failure();
      std::vector<int64_t> planned = plannedBytes(**lowered, now);
      if (static_cast<double>(*llvm::max_element(planned)) <= limit) {
        now.believed.peakBytes = std::move(planned);
        handoff.lowered = std::move(*lowered);
        handoff.plan = std::move(now);
        handoff.isJudged = true;
        return success();
      }
      if (problems.empty()) {
        FailureOr<std::vector<RecomputeProblem>> found = programsOf(bare);
        if (failed(found))
          return failure();
        problems = *found;
      }
      std::vector<RecomputeSolution> solutions;
      for (auto [problem, bytes] : llvm::zip_equal(problems, planned)) {
        int64_t missing = bytes - static_cast<int64_t>(limit), least = 0;
        // A little more than is missing: buffers do not fit each other exactly.
        if (missing > 0)
          problem.memoryLimitBytes -= missing + static_cast<int64_t>(limit / 256);
        auto solution = ::autopar::chooseRecomputation(problem, &least);
        if (!solution)
          return emitError(module.getLoc())
                 << llvm::formatv("no plan fits {0:f0} bytes per device: the program of the best "
                                  "one needs {1}, and with recomputation not below about {2}: "
                                  "raise the limit, use more ranks, or more micro-batches",
                                  limit, bytes,
                                  least + static_cast<int64_t>(limit) - problem.memoryLimitBytes)
                        .str();
        solutions.push_back(solution.take());
      }
      now = bare;
      believe(now, problems, solutions);
    }
    return success(); // plan-memory says by how much it does not fit
  }

  /// Believes of a plan what it takes to compute again what it names: whole groups, as the
  /// backward pass will.
  LogicalResult price(Plan &plan) {
    Plan priced = withoutRecomputation(plan);
    if (plan.recompute.empty()) {
      plan = std::move(priced);
      return success();
    }
    if (failed(loadCluster()))
      return failure();
    FailureOr<OwningOpRef<ModuleOp>> copy = groupsOf(priced);
    if (failed(copy))
      return failure();
    llvm::StringSet<> named, again;
    named.insert_range(plan.recompute);
    for (Operation &op : (*copy)->lookupSymbol<func::FuncOp>("main").getBody().front())
      op.walk([&](Operation *inner) {
        if (named.contains(getOpId(inner)))
          again.insert(getOpId(&op));
      });
    FailureOr<std::vector<RecomputeProblem>> problems =
        programsOf(**copy, priced, [&](StringRef id) { return again.contains(id); });
    if (failed(problems))
      return failure();
    std::vector<RecomputeSolution> solutions;
    for (const RecomputeProblem &problem : *problems) {
      std::vector<char> choice;
      for (const ::autopar::RecomputeOp &op : problem.ops)
        choice.push_back(op.mayRecompute);
      solutions.push_back(solutionOf(problem, choice));
    }
    believe(priced, *problems, solutions);
    priced.recompute = std::move(plan.recompute);
    plan = std::move(priced);
    return success();
  }

private:
  static Plan withoutRecomputation(Plan plan) {
    plan.believed.stepUs -= plan.believed.recomputeUs;
    plan.believed.recomputeUs = 0;
    plan.believed.savedBytes = 0;
    plan.recompute.clear();
    return plan;
  }

  /// What devices of a mesh have less than the limit, where nobody set one.
  int64_t missingOn(const Plan &plan, size_t mesh) const {
    ::autopar::Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
    if (options.memoryLimit || !meshes)
      return 0;
    return std::max<int64_t>(0, static_cast<int64_t>(limit) -
                                    cluster.usableBytes((*meshes)[mesh].devices));
  }

  /// A copy of the module that is lowered along the plan until memory is planned.
  FailureOr<OwningOpRef<ModuleOp>> programsOfRanks(const Plan &plan) {
    FailureOr<OwningOpRef<ModuleOp>> copy = groupsOf(plan);
    if (failed(copy))
      return failure();
    LowerOptions own;
    own.copyOptionValuesFrom(lower);
    own.memoryLimit = limit;
    own.refuse = false; // who fits the plan wants to know by how much
    for (Phase phase : {Phase::Schedule, Phase::Lower, Phase::PlanMemory})
      if (failed(runPhase(**copy, phase, options, own)))
        return failure();
    return copy;
  }

  /// Bytes of each mesh's program, and what its devices have less than the limit.
  std::vector<int64_t> plannedBytes(ModuleOp programs, const Plan &plan) const {
    std::vector<int64_t> bytes;
    for (auto program : programs.getOps<exec::ProgramOp>())
      bytes.push_back(program.getArena()->front() + missingOn(plan, bytes.size()));
    return bytes;
  }

  LogicalResult loadCluster() {
    ::autopar::Result<Cluster> loaded = Cluster::load(options.cluster);
    if (!loaded)
      return emitError(module.getLoc()) << "cluster: " << loaded.status().message();
    cluster = loaded.take();
    limit = options.memoryLimit ? int64_t(options.memoryLimit) : cluster.mostUsableBytes();
    return success();
  }

  AutoShardOptions &relaxed(AutoShardOptions &own, double factor) const {
    own.memoryLimit = static_cast<int64_t>(std::min(factor * limit, 9e18));
    return own;
  }

  /// Whether there is a plan under these options; `why` gets what the search said where not.
  bool searched(const AutoShardOptions &own, ComputesAgain what, std::string &why) {
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
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
    search.planFile = "";
    manager.addPass(createSearchPass(search, handoff));
    if (failed(manager.run(module)))
      return failure();
    return success(!isFirst || succeeded(verify(module)));
  }

  /// What was searched last.
  Candidate taken() {
    Candidate candidate{std::move(*handoff.plan), std::move(handoff.details)};
    handoff.plan.reset();
    return candidate;
  }
  LogicalResult deliver(Candidate candidate) {
    handoff.plan = std::move(candidate.plan);
    handoff.details = std::move(candidate.details);
    handoff.isJudged = candidate.isJudged;
    return success();
  }

  //===-- judging --------------------------------------------------------------------------===//

  /// A copy of the module that is lowered along the plan until fusion groups are formed.
  FailureOr<OwningOpRef<ModuleOp>> groupsOf(const Plan &plan) {
    OwningOpRef<ModuleOp> copy(module.clone());
    AutoShardOptions own;
    own.cluster = options.cluster;
    if (failed(annotatePlan(*copy, plan)))
      return failure();
    for (Phase phase :
         {Phase::InsertReshards, Phase::Partition, Phase::OptimizeCollectives, Phase::FormGroups})
      if (failed(runPhase(*copy, phase, own, lower)))
        return failure();
    return copy;
  }

  /// The program of each mesh under a plan.
  FailureOr<std::vector<RecomputeProblem>> programsOf(const Plan &plan) {
    llvm::StringSet<> known;
    for (Operation &op : module.lookupSymbol<func::FuncOp>("main").getBody().front())
      known.insert(getOpId(&op));
    auto isKnown = [&](StringRef id) {
      return !id.empty() &&
             (known.contains(id) || (id.consume_back("/reshard") && known.contains(id)));
    };
    FailureOr<OwningOpRef<ModuleOp>> copy = groupsOf(plan);
    if (failed(copy))
      return failure();
    return programsOf(**copy, plan, isKnown);
  }

  FailureOr<std::vector<RecomputeProblem>> programsOf(ModuleOp groups, const Plan &plan,
                                                      function_ref<bool(StringRef)> isKnown) {
    auto problems =
        recomputeProblems(groups.lookupSymbol<func::FuncOp>("main"), plan, cluster, isKnown);
    if (!problems)
      return emitError(module.getLoc()) << problems.status().message();
    for (auto [mesh, problem] : llvm::enumerate(*problems))
      problem.memoryLimitBytes = static_cast<int64_t>(limit) - missingOn(plan, mesh);
    return problems.take();
  }

  static RecomputeSolution solutionOf(const RecomputeProblem &problem,
                                      const std::vector<char> &choice) {
    ::autopar::RecomputeUse use = ::autopar::useOf(problem, choice);
    RecomputeSolution solution;
    solution.recomputed = std::move(use.again);
    solution.timeUs = use.timeUs;
    solution.peakBytes = use.peakBytes;
    return solution;
  }

  /// What a plan takes when meshes compute again what `chosen` says: a mesh does so in every
  /// micro-batch, and the first result waits for all of them.
  static void believe(Plan &plan, ArrayRef<RecomputeProblem> problems,
                      ArrayRef<RecomputeSolution> solutions) {
    double slowest = 0;
    int64_t peak = 0, without = 0;
    plan.believed.peakBytes.clear();
    for (auto [problem, solution] : llvm::zip_equal(problems, solutions)) {
      if (!solution.recomputed.empty())
        slowest = std::max(slowest, solution.timeUs - problem.sharedUs);
      plan.believed.peakBytes.push_back(solution.peakBytes);
      peak = std::max(peak, solution.peakBytes);
      without = std::max(
          without, ::autopar::useOf(problem, std::vector<char>(problem.ops.size(), 0)).peakBytes);
      for (int32_t op : solution.recomputed)
        plan.recompute.push_back(problem.ops[op].id);
    }
    double fill =
        static_cast<double>(plan.microBatches + static_cast<int64_t>(problems.size()) - 1) /
        static_cast<double>(plan.microBatches);
    plan.believed.recomputeUs = slowest * fill;
    plan.believed.stepUs += plan.believed.recomputeUs;
    plan.believed.savedBytes = without - peak;
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

  LogicalResult judge(Candidate &candidate) {
    FailureOr<std::vector<RecomputeProblem>> problems = programsOf(candidate.plan);
    if (failed(problems))
      return failure();
    candidate.fits = true;
    candidate.leastBytes = 0;
    std::vector<RecomputeSolution> solutions;
    for (RecomputeProblem &problem : *problems) {
      int64_t least = 0;
      auto solution = ::autopar::chooseRecomputation(problem, &least);
      if (!solution) {
        candidate.fits = false;
        problem.memoryLimitBytes = least;
        solution = ::autopar::chooseRecomputation(problem);
      }
      if (!solution)
        return emitError(module.getLoc()) << solution.status().message();
      candidate.leastBytes = std::max(candidate.leastBytes, solution->peakBytes);
      solutions.push_back(solution.take());
    }
    believe(candidate.plan, *problems, solutions);
    candidate.isJudged = true;
    return success();
  }

  //===-- choosing -------------------------------------------------------------------------===//

  /// Searches under the relaxed limits, falling, in that of the device, until `visit` says that it
  /// is enough; whether it did. Plans that are like the one before are left out; `why` is what the
  /// search said of the limit under which nothing was found.
  FailureOr<bool> searchRelaxed(AutoShardOptions &own, std::string &why,
                                function_ref<FailureOr<bool>(Candidate)> visit) {
    double last = 0, unlimitedBytes = std::numeric_limits<double>::infinity();
    for (double factor : kRelaxed) {
      if (factor * limit >= unlimitedBytes)
        continue; // would find the same
      if (!searched(relaxed(own, factor), ComputesAgain::Layers, why))
        return false; // nor under a lower one
      Candidate found = taken();
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

  /// The fastest whole of the plan that fits without recomputation, if there is one, and those
  /// whose shardings are searched with it.
  LogicalResult chooseAmong(std::optional<Candidate> tight, ArrayRef<ComputesAgain> recomputed,
                            const AutoShardOptions &own, std::string &why) {
    std::optional<Candidate> best, leanest;
    bool isUnbound =
        tight && static_cast<double>(tight->plan.believed.peakBytes.front()) <= kUnbound * limit;
    auto consider = [&](Candidate candidate) {
      if (best && candidate.plan.believed.stepUs >= best->plan.believed.stepUs)
        return success();
      if (failed(judge(candidate)))
        return failure();
      if (!leanest || candidate.leastBytes < leanest->leastBytes)
        leanest = candidate;
      if (candidate.fits && (!best || candidate.plan.believed.stepUs < best->plan.believed.stepUs))
        best = std::move(candidate);
      return success();
    };
    if (tight && isMeasured())
      best = *tight;
    else if (tight && failed(consider(*tight)))
      return failure();
    if (best && best->plan.recompute.empty() && isUnbound)
      return deliver(std::move(*best));
    for (ComputesAgain what : recomputed)
      if (searched(own, what, why) && failed(consider(taken())))
        return failure();
    // What the search cannot fit may fit as the program that it becomes; else it says what it
    // takes.
    if (!best && !handoff.again) {
      AutoShardOptions loose;
      loose.copyOptionValuesFrom(own);
      if (failed(searchRelaxed(loose, why, [&](Candidate found) -> FailureOr<bool> {
            if (failed(consider(std::move(found))))
              return failure();
            return best.has_value();
          })))
        return failure();
    }
    if (best) {
      if (tight && best->plan.recompute != tight->plan.recompute)
        best->plan.believed.alternatives.push_back(
            {"within the limit without recomputation", tight->plan.believed.stepUs});
      return deliver(std::move(*best));
    }
    if (!leanest)
      return emitError(module.getLoc()) << why;
    return emitError(module.getLoc())
           << llvm::formatv(
                  "no plan fits {0:f0} bytes per device; with recomputation {1} bytes are "
                  "needed, and a step takes about {2:f1} ms, {3:f1} ms of it for what is "
                  "computed again: raise the limit, use more ranks, or more micro-batches",
                  limit, leanest->leastBytes, leanest->plan.believed.stepUs / 1e3,
                  leanest->plan.believed.recomputeUs / 1e3)
                  .str();
  }

  /// The fastest sharding that fits once every layer is computed again: the looser the limit that
  /// it was searched under, the faster it is and the more it needs.
  LogicalResult recomputeLayers(AutoShardOptions &own) {
    int64_t least = std::numeric_limits<int64_t>::max();
    std::string why;
    FailureOr<bool> fits = searchRelaxed(own, why, [&](Candidate found) -> FailureOr<bool> {
      if (failed(believeLayers(found.plan)))
        return failure();
      found.isJudged = true;
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

  /// A plan under which every layer is computed again.
  LogicalResult believeLayers(Plan &chosen) {
    FailureOr<std::vector<RecomputeProblem>> problems = programsOf(chosen);
    if (failed(problems))
      return failure();
    std::vector<RecomputeSolution> solutions;
    for (const RecomputeProblem &problem : *problems) {
      std::vector<char> choice(problem.ops.size(), 0);
      for (const std::vector<int32_t> &layer : problem.layers)
        for (int32_t op : layer)
          choice[op] = 1;
      solutions.push_back(solutionOf(problem, choice));
    }
    believe(chosen, *problems, solutions);
    return success();
  }

  ModuleOp module;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  SearchHandoff &handoff;
  bool isHeld = false; ///< values have their holds
  Cluster cluster;
  double limit = 0; ///< bytes per device
};

} // namespace

LogicalResult mlir::autopar::annotatePlan(ModuleOp module, const Plan &plan) {
  PassManager manager(module.getContext());
  manager.enableVerifier(false); // once is enough
  manager.addPass(createAnnotatePass(plan));
  return success(succeeded(manager.run(module)) && succeeded(verify(module)));
}

LogicalResult mlir::autopar::searchPlan(ModuleOp module, const AutoShardOptions &options,
                                        const LowerOptions &lower, SearchHandoff &handoff) {
  return PlanSearch(module, options, lower, handoff).run();
}

LogicalResult mlir::autopar::priceRecomputation(ModuleOp module, const AutoShardOptions &options,
                                                const LowerOptions &lower, Plan &plan) {
  SearchHandoff none;
  return PlanSearch(module, options, lower, none).price(plan);
}

LogicalResult mlir::autopar::fitToMemory(ModuleOp module, const AutoShardOptions &options,
                                         const LowerOptions &lower, SearchHandoff &handoff) {
  return PlanSearch(module, options, lower, handoff).fit();
}
