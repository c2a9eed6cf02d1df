// SPDX-License-Identifier: Apache-2.0
// A plan whose program is larger than its search believed computes more again, until it fits, or is
// searched again with less to promise.
#include "PlanJudge.h"
#include "PromisedMemory.h"
#include "SearchPlan.h"

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

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

namespace {

/// Lowers the plan, and as long as its program is too large chooses again what it keeps.
class Fitting {
public:
  Fitting(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower,
          SearchHandoff &handoff)
      : module(module), options(options), lower(lower), handoff(handoff),
        judge(module, options, lower), now(*handoff.plan) {}

  LogicalResult run(int64_t *leastBytes) {
    if (failed(judge.load()))
      return failure();
    limit = judge.limitBytes();
    // The search does not know what is fetched from host memory.
    bool isWhole = now.recompute.empty() && now.offload.empty() && now.offloadActivations.empty();
    if (isWhole && !handoff.modules.ordered && judge.surelyFits(now.believed.peakBytes) &&
        bytesOfAll() <= limit)
      return success();
    for (int round = 0; round < kFittings; ++round) {
      FailureOr<PlanJudge::Lowered> lowered = judge.lowered(now, handoff.modules);
      if (failed(lowered))
        return failure();
      least = std::min(least, *llvm::max_element(lowered->bytes));
      if (judge.isWithinLimit(lowered->bytes)) {
        take(std::move(*lowered));
        return success();
      }
      FailureOr<bool> keepsLess = mayKeepLess() ? keepLess(lowered->bytes) : false;
      if (failed(keepsLess))
        return failure();
      if (!*keepsLess)
        break;
    }
    if (leastBytes)
      *leastBytes = least;
    return refuseMemory(module, options, static_cast<int64_t>(limit), least);
  }

private:
  /// What a device would hold if it held the whole of every value until the end.
  double bytesOfAll() {
    double bytes = 0;
    auto add = [&](TypeRange types) {
      for (Type type : types)
        if (auto tensor = dyn_cast<RankedTensorType>(type))
          bytes += static_cast<double>(tensorBytes(tensor));
    };
    for (auto function : module.getOps<func::FuncOp>()) {
      add(function.getArgumentTypes());
      function.walk([&](Operation *op) { add(op->getResultTypes()); });
    }
    return bytes * static_cast<double>(std::max<int64_t>(1, now.microBatches));
  }

  bool mayKeepLess() const {
    return options.recompute == "auto" ||
           (options.recompute == "none" && options.offloadActivations);
  }

  void take(PlanJudge::Lowered lowered) {
    now.believed.peakBytes = std::move(lowered.bytes);
    if (fitsHost(*lowered.module, lower))
      handoff.lowered = std::move(lowered.module); // else plan-memory says by how much it does not
    handoff.plan = std::move(now);
    handoff.modules = {};
    handoff.isJudged = true;
  }

  /// Chooses what is computed again or waits in host memory, so that as much is kept less as the
  /// programs need too much. False where the least had its turn already.
  FailureOr<bool> keepLess(ArrayRef<int64_t> planned) {
    Plan bare = PlanJudge::withoutRecomputation(*handoff.plan);
    if (problems.empty()) {
      FailureOr<std::vector<RecomputeProblem>> found = judge.programsOf(bare, handoff.modules);
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
        return false;
      isLeast |= !solution;
      solutions.push_back(solution ? solution.take() : std::move(leanest));
    }
    isLeanest |= isLeast;
    handoff.modules.ordered = nullptr; // is of what was computed again until now
    now = std::move(bare);
    PlanJudge::believe(now, handoff.details, problems, solutions);
    return true;
  }

  ModuleOp module;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  SearchHandoff &handoff;
  PlanJudge judge;
  Plan now; ///< the plan that is tried
  double limit = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  std::vector<RecomputeProblem> problems;
  bool isLeanest = false; ///< has had its turn
};

} // namespace

LogicalResult mlir::autopar::fitToMemory(ModuleOp module, const AutoShardOptions &options,
                                         const LowerOptions &lower, SearchHandoff &handoff,
                                         int64_t *leastBytes) {
  if (options.engine == "random" || handoff.lowered)
    return success();
  return Fitting(module, options, lower, handoff).run(leastBytes);
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
