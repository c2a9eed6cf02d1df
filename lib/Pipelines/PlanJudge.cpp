// SPDX-License-Identifier: Apache-2.0
#include "PlanJudge.h"

#include "SearchPlan.h"

#include "autopar/Dialect/Exec/IR/Exec.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/Pass/PassManager.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Plan;
using ::autopar::RecomputeProblem;
using ::autopar::RecomputeSolution;

/// Operations up to which a plan that surely fits is judged: of more, that takes as long as it took
/// to find.
static constexpr size_t kMostToJudge = 50000;

Plan PlanJudge::withoutRecomputation(Plan plan) {
  plan.believed.stepUs -= plan.believed.recomputeUs;
  plan.believed.recomputeUs = 0;
  plan.believed.savedBytes = 0;
  plan.recompute.clear();
  plan.offloadActivations.clear();
  return plan;
}

int64_t PlanJudge::missingOn(const Plan &plan, size_t mesh) const {
  ::autopar::Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (options.memoryLimit || !meshes)
    return 0;
  return std::max<int64_t>(0, static_cast<int64_t>(limit) -
                                  cluster.usableBytes((*meshes)[mesh].devices));
}

LogicalResult PlanJudge::load() {
  ::autopar::Result<Cluster> loaded = Cluster::load(options.cluster);
  if (!loaded)
    return emitError(module.getLoc()) << "cluster: " << loaded.status().message();
  cluster = loaded.take();
  limit = options.memoryLimit ? int64_t(options.memoryLimit) : cluster.mostUsableBytes();
  return success();
}

FailureOr<OwningOpRef<ModuleOp>> PlanJudge::groupsOf(const Plan &plan) const {
  OwningOpRef<ModuleOp> copy(module.clone());
  AutoShardOptions own;
  own.cluster = options.cluster;
  // What a search says of shardings is legal; a person may err.
  if (failed(annotatePlan(*copy, plan, /*isVerified=*/!options.plan.empty())))
    return failure();
  // One of many copies: what is wrong with the one that is taken is found when it is lowered.
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  for (Phase phase :
       {Phase::InsertReshards, Phase::Partition, Phase::OptimizeCollectives, Phase::FormGroups})
    buildPhase(manager, phase, own, lower);
  if (failed(manager.run(*copy)))
    return failure();
  return copy;
}

static OwningOpRef<ModuleOp> copyOf(const PlanModules::Module &module) {
  return OwningOpRef<ModuleOp>(module->get().clone());
}

/// The module itself, where nobody else has it.
static OwningOpRef<ModuleOp> taken(PlanModules::Module &module) {
  PlanModules::Module own = std::move(module);
  return own.use_count() == 1 ? std::move(*own) : copyOf(own);
}

FailureOr<OwningOpRef<ModuleOp>> PlanJudge::groupsOf(const Plan &plan, PlanModules &modules) const {
  // What is computed again takes part in how groups are formed.
  if (!plan.recompute.empty() || !plan.offloadActivations.empty())
    return groupsOf(plan);
  if (!modules.groups) {
    FailureOr<OwningOpRef<ModuleOp>> groups = groupsOf(plan);
    if (failed(groups))
      return failure();
    modules.groups = std::make_shared<OwningOpRef<ModuleOp>>(std::move(*groups));
  }
  return copyOf(modules.groups);
}

LogicalResult PlanJudge::order(const Plan &plan, PlanModules &modules) const {
  if (modules.ordered && modules.orderedFor == options.memoryLimit)
    return success();
  bool keepsAll = plan.recompute.empty() && plan.offloadActivations.empty();
  FailureOr<OwningOpRef<ModuleOp>> copy =
      modules.keepsGroups          ? groupsOf(plan, modules)
      : modules.groups && keepsAll ? FailureOr<OwningOpRef<ModuleOp>>(taken(modules.groups))
                                   : groupsOf(plan);
  if (failed(copy))
    return failure();
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  addOrder(manager, options, lower);
  if (failed(manager.run(**copy)))
    return failure();
  modules.ordered = std::make_shared<OwningOpRef<ModuleOp>>(std::move(*copy));
  modules.orderedFor = options.memoryLimit;
  return success();
}

FailureOr<PlanJudge::Lowered> PlanJudge::lowered(const Plan &plan, PlanModules &modules) const {
  if (failed(order(plan, modules)))
    return failure();
  OwningOpRef<ModuleOp> ordered = taken(modules.ordered);
  LowerOptions own;
  own.copyOptionValuesFrom(lower);
  own.memoryLimit = static_cast<int64_t>(limit);
  own.refuse = false; // who fits the plan wants to know by how much
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  addWriteOut(manager, options, lower);
  if (failed(manager.run(*ordered)))
    return failure();
  for (Phase phase : {Phase::Lower, Phase::PlanMemory})
    if (failed(runPhase(*ordered, phase, options, own)))
      return failure();
  std::vector<int64_t> bytes = plannedBytes(plan, *ordered);
  return Lowered{std::move(ordered), std::move(bytes)};
}

std::vector<int64_t> PlanJudge::plannedBytes(const Plan &plan, ModuleOp lowered) const {
  std::vector<int64_t> bytes;
  for (auto program : lowered.getOps<exec::ProgramOp>())
    bytes.push_back(program.getArena()->front() + missingOn(plan, bytes.size()));
  return bytes;
}

FailureOr<std::vector<RecomputeProblem>> PlanJudge::programsOf(const Plan &plan,
                                                               PlanModules &modules) const {
  llvm::StringSet<> known;
  for (Operation &op : module.lookupSymbol<func::FuncOp>("main").getBody().front())
    known.insert(getOpId(&op));
  auto isKnown = [&](Operation *op) {
    StringRef id = getOpId(op);
    return !id.empty() && (known.contains(id) || known.contains(wholeOf(id)));
  };
  FailureOr<OwningOpRef<ModuleOp>> copy = groupsOf(plan, modules);
  if (failed(copy))
    return failure();
  FailureOr<std::vector<RecomputeProblem>> problems = programsOf(**copy, plan, isKnown);
  if (succeeded(problems) && options.offloadActivations)
    for (auto [mesh, problem] : llvm::enumerate(*problems))
      offerHost(plan, mesh, problem);
  return problems;
}

FailureOr<std::vector<RecomputeProblem>>
PlanJudge::programsOf(ModuleOp groups, const Plan &plan,
                      function_ref<bool(Operation *)> isKnown) const {
  auto problems = recomputeProblems(groups.lookupSymbol<func::FuncOp>("main"), plan, cluster,
                                    lower.target, isKnown);
  if (!problems)
    return emitError(module.getLoc()) << problems.status().message();
  for (auto [mesh, problem] : llvm::enumerate(*problems))
    problem.memoryLimitBytes = static_cast<int64_t>(limit) - missingOn(plan, mesh);
  return problems.take();
}

void PlanJudge::offerHost(const Plan &plan, size_t mesh, RecomputeProblem &problem) const {
  ::autopar::Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (!meshes)
    return; // said where the plan is lowered
  const ::autopar::DeviceType &device = cluster.slowestOf((*meshes)[mesh].devices);
  ::autopar::letWaitOnHost(problem, device, device.hostMemoryBytes - problem.hostBytes);
  if (options.recompute == "none")
    for (::autopar::RecomputeOp &op : problem.ops)
      op.mayRecompute &= op.waitsOnHost;
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

std::vector<MeshLoad> mlir::autopar::loadsOf(const Plan &plan,
                                             const ::autopar::PlanDetails &details) {
  std::vector<MeshLoad> loads(plan.stages.size() > 1 ? plan.meshes.size() : 0);
  for (const ::autopar::TimelineSlice &slice : details.timeline)
    if (slice.queue < static_cast<int32_t>(loads.size()))
      loads[slice.queue].workUs += slice.endUs - slice.startUs;
  return loads;
}

std::vector<MeshLoad> PlanJudge::believe(Plan &plan, const ::autopar::PlanDetails &details,
                                         ArrayRef<RecomputeProblem> problems,
                                         ArrayRef<RecomputeSolution> solutions) {
  std::vector<MeshLoad> loads = loadsOf(plan, details);
  loads.resize(problems.size());
  double slowest = 0, slowestWhole = 0;
  int64_t peak = 0, without = 0;
  plan.believed.peakBytes.clear();
  for (auto [load, problem, solution] : llvm::zip_equal(loads, problems, solutions)) {
    slowest = std::max(slowest, load.workUs);
    if (!solution.recomputed.empty())
      load.againUs = std::max(0.0, solution.timeUs - problem.sharedUs);
    slowestWhole = std::max(slowestWhole, load.workUs + load.againUs);
    load.leastBytes = solution.peakBytes;
    load.limitBytes = problem.memoryLimitBytes;
    plan.believed.peakBytes.push_back(solution.peakBytes);
    peak = std::max(peak, solution.peakBytes);
    without = std::max(
        without, ::autopar::useOf(problem, std::vector<char>(problem.ops.size(), 0)).peakBytes);
    for (int32_t op : solution.recomputed)
      (problem.ops[op].waitsOnHost ? plan.offloadActivations : plan.recompute)
          .push_back(problem.ops[op].id);
  }
  double fill = static_cast<double>(plan.microBatches + static_cast<int64_t>(problems.size()) - 1) /
                static_cast<double>(plan.microBatches);
  plan.believed.recomputeUs = (slowestWhole - slowest) * fill;
  plan.believed.stepUs += plan.believed.recomputeUs;
  plan.believed.savedBytes = without - peak;
  return loads;
}

FailureOr<std::vector<int64_t>> PlanJudge::peakOf(const Plan &plan, PlanModules &modules) const {
  FailureOr<std::vector<RecomputeProblem>> problems = programsOf(plan, modules);
  if (failed(problems))
    return failure();
  std::vector<int64_t> peak;
  for (const RecomputeProblem &problem : *problems)
    peak.push_back(::autopar::useOf(problem, std::vector<char>(problem.ops.size(), 0)).peakBytes);
  return peak;
}

/// What keeps instructions from waiting for others' memory, as a share of the limit: llama3-8b,
/// 16x8192 on 8 H100 with activations in host memory, took 1,452 ms within 76.1 GiB, of which 1 MiB
/// was left, and 1,341 ms with 65 MiB more.
static constexpr int64_t kRoomForOrder = 512;

/// The choice within the problem's limit. One that has to be made leaves room, if it can.
static ::autopar::Result<RecomputeSolution> chooseWithRoom(RecomputeProblem problem,
                                                           RecomputeSolution &leanest) {
  int64_t limit = problem.memoryLimitBytes;
  std::vector<char> none(problem.ops.size(), 0);
  if (::autopar::useOf(problem, none).peakBytes > limit) {
    problem.memoryLimitBytes -= limit / kRoomForOrder;
    auto solution = ::autopar::chooseRecomputation(problem, &leanest);
    if (solution || leanest.peakBytes > limit)
      return solution;
    problem.memoryLimitBytes = limit;
  }
  return ::autopar::chooseRecomputation(problem, &leanest);
}

LogicalResult PlanJudge::judge(JudgedPlan &judged) const {
  FailureOr<std::vector<RecomputeProblem>> problems = programsOf(judged.plan, judged.modules);
  if (failed(problems))
    return failure();
  judged.fits = true;
  judged.leastBytes = 0;
  std::vector<RecomputeSolution> solutions;
  for (const RecomputeProblem &problem : *problems) {
    RecomputeSolution leanest;
    auto solution = chooseWithRoom(problem, leanest);
    if (!solution && leanest.peakBytes == 0)
      return emitError(module.getLoc()) << solution.status().message();
    judged.fits &= static_cast<bool>(solution);
    solutions.push_back(solution ? solution.take() : std::move(leanest));
    judged.leastBytes = std::max(judged.leastBytes, solutions.back().peakBytes);
  }
  judged.loads = believe(judged.plan, judged.details, *problems, solutions);
  // Where work has to move to other meshes, how much they could hold counts.
  if (!judged.fits)
    for (auto [load, problem] : llvm::zip_equal(judged.loads, *problems)) {
      RecomputeSolution leanest;
      problem.memoryLimitBytes = 1;
      if (!::autopar::chooseRecomputation(problem, &leanest))
        load.leastBytes = std::min(load.leastBytes, leanest.peakBytes);
    }
  judged.isJudged = true;
  return success();
}

FailureOr<PlanJudge::KernelTimes> PlanJudge::kernelTimes(const Plan &plan,
                                                         PlanModules &modules) const {
  if (failed(order(plan, modules)))
    return failure();
  ModuleOp ordered = modules.ordered->get();
  auto us = ordered->getAttrOfType<FloatAttr>(kStepTimeAttribute);
  if (!us)
    return failure();
  KernelTimes times{us.getValueAsDouble(), {}, 0};
  if (auto meshes = ordered->getAttrOfType<DenseF64ArrayAttr>(kMeshTimesAttribute))
    times.meshUs = meshes.asArrayRef().vec();
  if (auto waits = ordered->getAttrOfType<FloatAttr>(kRowWaitsAttribute))
    times.waitsUs = waits.getValueAsDouble();
  return times;
}

LogicalResult PlanJudge::believeLayers(JudgedPlan &judged) const {
  FailureOr<std::vector<RecomputeProblem>> problems = programsOf(judged.plan, judged.modules);
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
  judged.loads = believe(judged.plan, judged.details, *problems, solutions);
  judged.isJudged = true;
  return success();
}

LogicalResult PlanJudge::price(Plan &plan, const ::autopar::PlanDetails &details) const {
  Plan priced = withoutRecomputation(plan);
  if (plan.recompute.empty() && plan.offloadActivations.empty()) {
    plan = std::move(priced);
    return success();
  }
  FailureOr<OwningOpRef<ModuleOp>> copy = groupsOf(priced);
  if (failed(copy))
    return failure();
  llvm::StringSet<> named, stored;
  named.insert_range(plan.recompute);
  stored.insert_range(plan.offloadActivations);
  llvm::StringSet<> onHost;
  auto isNamed = [&](Operation *op) {
    bool isAgain = false, isStored = false;
    op->walk([&](Operation *inner) {
      isAgain |= named.contains(getOpId(inner));
      isStored |= stored.contains(getOpId(inner));
    });
    if (isStored)
      onHost.insert(getOpId(op));
    return isAgain || isStored;
  };
  FailureOr<std::vector<RecomputeProblem>> problems = programsOf(**copy, priced, isNamed);
  if (failed(problems))
    return failure();
  std::vector<RecomputeSolution> solutions;
  for (RecomputeProblem &problem : *problems) {
    std::vector<char> choice;
    for (::autopar::RecomputeOp &op : problem.ops) {
      op.waitsOnHost = onHost.contains(op.id);
      op.timeUs = op.waitsOnHost ? 0 : op.timeUs; // beside what computes
      choice.push_back(op.mayRecompute);
    }
    solutions.push_back(solutionOf(problem, choice));
  }
  believe(priced, details, *problems, solutions);
  priced.recompute = std::move(plan.recompute);
  priced.offloadActivations = std::move(plan.offloadActivations);
  plan = std::move(priced);
  return success();
}

LogicalResult mlir::autopar::priceRecomputation(ModuleOp module, const AutoShardOptions &options,
                                                const LowerOptions &lower,
                                                const ::autopar::PlanDetails &details, Plan &plan) {
  PlanJudge judge(module, options, lower);
  return failed(judge.load()) ? failure() : judge.price(plan, details);
}

LogicalResult mlir::autopar::believePeak(ModuleOp module, const AutoShardOptions &options,
                                         const LowerOptions &lower, SearchHandoff &handoff) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (handoff.isJudged || function.getBody().front().getOperations().size() > kMostToJudge)
    return success();
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  FailureOr<std::vector<int64_t>> peak = judge.peakOf(*handoff.plan, handoff.modules);
  if (failed(peak))
    return failure();
  // One that would not fit is made to fit, or refused, when it is lowered.
  if (static_cast<double>(*llvm::max_element(*peak)) <= judge.limitBytes())
    handoff.plan->believed.peakBytes = std::move(*peak);
  handoff.isJudged = true;
  return success();
}

LogicalResult mlir::autopar::believeKernels(ModuleOp module, const AutoShardOptions &options,
                                            const LowerOptions &lower, SearchHandoff &handoff) {
  ::autopar::PlanBelief &believed = handoff.plan->believed;
  if (believed.kernelsUs > 0)
    return success();
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  FailureOr<PlanJudge::KernelTimes> times = judge.kernelTimes(*handoff.plan, handoff.modules);
  if (failed(times))
    return failure();
  believed.kernelsUs = times->stepUs;
  return success();
}
