// SPDX-License-Identifier: Apache-2.0
// A plan whose program is larger than its search believed computes more again, until it fits, or is
// searched again with less to promise.
#include "PlanJudge.h"
#include "PromisedMemory.h"
#include "SearchPlan.h"

#include "autopar/Dialect/Exec/IR/Exec.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;
using ::autopar::RecomputeProblem;
using ::autopar::RecomputeSolution;

/// How often a plan is lowered to see whether it fits.
static constexpr int kFittings = 8;

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
                                         const LowerOptions &lower, SearchHandoff &handoff,
                                         int64_t *leastBytes) {
  if (options.engine == "random" || handoff.lowered)
    return success();
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  double limit = judge.limitBytes();
  Plan now = *handoff.plan;
  // The search does not know what is fetched from host memory.
  bool isWhole = now.recompute.empty() && now.offload.empty() && now.offloadActivations.empty();
  if (isWhole && judge.surelyFits(now.believed.peakBytes))
    return success();
  Plan bare = PlanJudge::withoutRecomputation(now);
  std::vector<RecomputeProblem> problems;
  bool isLeanest = false; // has had its turn
  int64_t least = std::numeric_limits<int64_t>::max();
  auto refuse = [&] {
    if (leastBytes)
      *leastBytes = least;
    return refuseMemory(module, static_cast<int64_t>(limit), least);
  };
  for (int round = 0; round < kFittings; ++round) {
    FailureOr<OwningOpRef<ModuleOp>> lowered = judge.lowered(now);
    if (failed(lowered))
      return failure();
    std::vector<int64_t> planned = judge.plannedBytes(now, **lowered);
    least = std::min(least, *llvm::max_element(planned));
    if (static_cast<double>(*llvm::max_element(planned)) <= limit) {
      now.believed.peakBytes = std::move(planned);
      if (fitsHost(**lowered, lower))
        handoff.lowered = std::move(*lowered); // else plan-memory says by how much it does not
      handoff.plan = std::move(now);
      handoff.isJudged = true;
      return success();
    }
    bool mayKeepLess =
        options.recompute == "auto" || (options.recompute == "none" && options.offloadActivations);
    if (!mayKeepLess)
      return refuse();
    if (problems.empty()) {
      FailureOr<std::vector<RecomputeProblem>> found = judge.programsOf(bare);
      if (failed(found))
        return failure();
      problems = *found;
    }
    bool isLeast = false;
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
      if (!solution && leanest.peakBytes == 0)
        return emitError(module.getLoc()) << solution.status().message();
      if (!solution && isLeanest)
        return refuse();
      isLeast |= !solution;
      solutions.push_back(solution ? solution.take() : std::move(leanest));
    }
    isLeanest |= isLeast;
    now = bare;
    PlanJudge::believe(now, handoff.details, problems, solutions);
  }
  return refuse();
}

::autopar::Status mlir::autopar::checkDevices(ModuleOp module, const ::autopar::Cluster &cluster) {
  for (auto rank : module.getOps<exec::RankOp>()) {
    auto program = module.lookupSymbol<exec::ProgramOp>(rank.getProgram());
    int64_t device = rank.getRank();
    if (device >= cluster.deviceCount())
      break; // the runtime asks for as many devices
    int64_t needed = (*program.getArena())[0], usable = cluster.usableBytes({device});
    if (needed > usable)
      return ::autopar::Status::badInput(
          "the program of rank " + std::to_string(device) + " needs " + std::to_string(needed) +
          " bytes of device memory, and device " + std::to_string(device) + ", a \"" +
          cluster.typeOfDevice(device).name + "\", has " + std::to_string(usable) +
          " for it: give this stage less, or more devices");
  }
  return ::autopar::Status::ok();
}
