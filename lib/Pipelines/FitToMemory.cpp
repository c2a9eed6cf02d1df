// SPDX-License-Identifier: Apache-2.0
// A plan whose program is larger than its search believed computes more again, until it fits.
#include "PlanJudge.h"
#include "SearchPlan.h"

#include "autopar/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;
using ::autopar::RecomputeProblem;
using ::autopar::RecomputeSolution;

/// How often a plan is lowered to see whether it fits.
static constexpr int kFittings = 8;

/// A copy of the module that is lowered along the plan until memory is planned.
static FailureOr<OwningOpRef<ModuleOp>> programsOfRanks(const PlanJudge &judge, const Plan &plan,
                                                        const AutoShardOptions &options,
                                                        const LowerOptions &lower) {
  FailureOr<OwningOpRef<ModuleOp>> copy = judge.groupsOf(plan);
  if (failed(copy))
    return failure();
  LowerOptions own;
  own.copyOptionValuesFrom(lower);
  own.memoryLimit = static_cast<int64_t>(judge.limitBytes());
  own.refuse = false; // who fits the plan wants to know by how much
  for (Phase phase : {Phase::Schedule, Phase::Lower, Phase::PlanMemory})
    if (failed(runPhase(**copy, phase, options, own)))
      return failure();
  return copy;
}

/// Bytes of each mesh's program, and what its devices have less than the limit.
static std::vector<int64_t> plannedBytes(const PlanJudge &judge, const Plan &plan,
                                         ModuleOp programs) {
  std::vector<int64_t> bytes;
  for (auto program : programs.getOps<exec::ProgramOp>())
    bytes.push_back(program.getArena()->front() + judge.missingOn(plan, bytes.size()));
  return bytes;
}

/// What programs need that was not believed of them, of the mesh where that is the most.
static int64_t unknownBytes(const PlanJudge &judge, const Plan &plan, ArrayRef<int64_t> planned) {
  int64_t most = 0;
  if (plan.believed.peakBytes.size() == planned.size())
    for (auto [mesh, believed, bytes] : llvm::enumerate(plan.believed.peakBytes, planned))
      most = std::max(most, bytes - judge.missingOn(plan, mesh) - believed);
  return most;
}

static bool fitsHost(ModuleOp programs, const LowerOptions &lower) {
  return lower.hostMemoryLimit == 0 ||
         llvm::all_of(programs.getOps<exec::ProgramOp>(), [&](exec::ProgramOp program) {
           return (*program.getArena())[1] <= lower.hostMemoryLimit;
         });
}

LogicalResult mlir::autopar::fitToMemory(ModuleOp module, const AutoShardOptions &options,
                                         const LowerOptions &lower, SearchHandoff &handoff) {
  if (options.recompute != "auto" || options.engine == "random")
    return success();
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  double limit = judge.limitBytes();
  Plan now = *handoff.plan;
  // The search does not know what is fetched from host memory.
  bool isWhole = now.recompute.empty() && now.offload.empty();
  if (isWhole && judge.surelyFits(now.believed.peakBytes))
    return success();
  Plan bare = PlanJudge::withoutRecomputation(now);
  std::vector<RecomputeProblem> problems;
  for (int round = 0; round < kFittings; ++round) {
    FailureOr<OwningOpRef<ModuleOp>> lowered = programsOfRanks(judge, now, options, lower);
    if (failed(lowered))
      return failure();
    std::vector<int64_t> planned = plannedBytes(judge, now, **lowered);
    if (static_cast<double>(*llvm::max_element(planned)) <= limit) {
      now.believed.peakBytes = std::move(planned);
      if (fitsHost(**lowered, lower))
        handoff.lowered = std::move(*lowered); // else plan-memory says by how much it does not
      handoff.plan = std::move(now);
      handoff.isJudged = true;
      return success();
    }
    if (problems.empty()) {
      FailureOr<std::vector<RecomputeProblem>> found = judge.programsOf(bare);
      if (failed(found))
        return failure();
      problems = *found;
    }
    std::vector<RecomputeSolution> solutions;
    int64_t most = unknownBytes(judge, now, planned);
    for (auto [mesh, problem, bytes] : llvm::enumerate(problems, planned)) {
      int64_t missing = bytes - static_cast<int64_t>(limit);
      RecomputeSolution leanest;
      // A little more than is missing: buffers do not fit each other exactly.
      if (missing > 0)
        problem.memoryLimitBytes =
            std::min(problem.memoryLimitBytes - missing,
                     static_cast<int64_t>(limit) - judge.missingOn(now, mesh) - most) -
            static_cast<int64_t>(limit / 256);
      auto solution = ::autopar::chooseRecomputation(problem, &leanest);
      if (!solution)
        return emitError(module.getLoc())
               << llvm::formatv("no plan fits {0:f0} bytes per device: the program of the best "
                                "one needs {1}, and with recomputation not below about {2}: "
                                "raise the limit, use more ranks, or more micro-batches",
                                limit, bytes,
                                leanest.peakBytes + static_cast<int64_t>(limit) -
                                    problem.memoryLimitBytes)
                      .str();
      solutions.push_back(solution.take());
    }
    now = bare;
    PlanJudge::believe(now, handoff.details, problems, solutions);
  }
  return success(); // plan-memory says by how much it does not fit
}
