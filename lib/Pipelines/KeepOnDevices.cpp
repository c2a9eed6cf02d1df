// SPDX-License-Identifier: Apache-2.0
// Of the state that a plan has in host memory, what the devices have room for stays there: what is
// not fetched and stored costs no time, and shardings stay as they are.
#include "PlanJudge.h"
#include "SearchPlan.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/DescribePlan.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/PlannedOffload.h"
#include "autopar/Transforms/Stages.h"

#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;

/// How often a plan is lowered to see whether it fits with what it keeps.
static constexpr int kFittings = 3;

namespace {

/// State in host memory.
struct State {
  unsigned number; ///< of the argument
  std::string name;
  size_t mesh;
  int64_t bytes;     ///< of a device
  bool isReadBefore; ///< by a rounding at the beginning of the step: it is fetched twice
};

} // namespace

static int64_t bytesOnDevice(RankedTensorType type, const ::autopar::ValueSharding &sharding,
                             const ::autopar::Mesh &mesh) {
  SmallVector<int64_t> local;
  for (auto [extent, axes] : llvm::zip_equal(type.getShape(), sharding.dims)) {
    int64_t parts = 1;
    for (const std::string &axis : axes)
      parts *= std::max<int64_t>(1, mesh.axisSize(axis));
    local.push_back(llvm::divideCeil(extent, parts));
  }
  return tensorBytes(type.clone(local));
}

/// Those that are fetched most often first.
static std::vector<State> statesOf(func::FuncOp function, const Plan &plan,
                                   ArrayRef<::autopar::Mesh> meshes) {
  Stages stages(function);
  llvm::StringSet<> offloaded;
  offloaded.insert_range(plan.offload);
  std::vector<State> states;
  for (BlockArgument argument : function.getArguments()) {
    std::string name = nameOfArgument(argument);
    if (!offloaded.contains(name))
      continue;
    int64_t stage = stages.of(argument);
    size_t mesh = stage < 0 ? 0 : stage % meshes.size();
    states.push_back({argument.getArgNumber(), name, mesh,
                      bytesOnDevice(cast<RankedTensorType>(argument.getType()),
                                    plan.values.at(name), meshes[mesh]),
                      llvm::any_of(argument.getUsers(), llvm::IsaPred<CastOp>)});
  }
  llvm::sort(states, [](const State &a, const State &b) {
    return std::pair(!a.isReadBefore, a.number) < std::pair(!b.isReadBefore, b.number);
  });
  return states;
}

/// Without the states that have room on their mesh.
static Plan keeping(Plan plan, ArrayRef<State> states, std::vector<int64_t> room) {
  llvm::StringSet<> kept;
  for (const State &state : states)
    if (state.bytes <= room[state.mesh]) {
      room[state.mesh] -= state.bytes;
      kept.insert(state.name);
    }
  llvm::erase_if(plan.offload, [&](const std::string &name) { return kept.contains(name); });
  return plan;
}

static double kernelsUs(ModuleOp lowered) {
  return lowered->getAttrOfType<FloatAttr>(kStepTimeAttribute).getValueAsDouble();
}

/// Believes of a plan what its smaller traffic takes.
static LogicalResult describeAnew(ModuleOp module, const AutoShardOptions &options,
                                  SearchHandoff &handoff) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  ::autopar::Result<::autopar::Cluster> cluster = ::autopar::Cluster::load(options.cluster);
  if (!cluster)
    return emitError(module.getLoc()) << cluster.status().message();
  if (failed(offloadAsPlanned(function, *handoff.plan)))
    return failure();
  ::autopar::Result<::autopar::PlanDetails> details =
      describePlan(function, *handoff.plan, *cluster);
  if (!details)
    return emitError(module.getLoc()) << details.status().message();
  ::autopar::PlanBelief &believed = handoff.plan->believed;
  believed.stepUs = details->believed.stepUs + believed.recomputeUs;
  believed.lowerBoundUs = 0; // was one with all of it in host memory
  handoff.details = details.take();
  return success();
}

LogicalResult mlir::autopar::keepOnDevices(ModuleOp module, const AutoShardOptions &options,
                                           const LowerOptions &lower, SearchHandoff &handoff) {
  const Plan &plan = *handoff.plan;
  if (!handoff.lowered || plan.offload.empty())
    return success();
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  auto limit = static_cast<int64_t>(judge.limitBytes());
  std::vector<int64_t> room;
  for (int64_t bytes : judge.plannedBytes(plan, *handoff.lowered))
    room.push_back(limit - bytes);
  ::autopar::Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (!meshes)
    return emitError(module.getLoc()) << meshes.status().message();
  std::vector<State> states = statesOf(module.lookupSymbol<func::FuncOp>("main"), plan, *meshes);
  for (int round = 0; round < kFittings; ++round) {
    Plan next = keeping(plan, states, room);
    if (next.offload.size() == plan.offload.size())
      return success();
    PlanModules modules;
    FailureOr<PlanJudge::Lowered> lowered = judge.lowered(next, modules);
    if (failed(lowered))
      return failure();
    if (judge.isWithinLimit(lowered->bytes)) {
      if (kernelsUs(*lowered->module) >= kernelsUs(*handoff.lowered))
        return success();
      next.believed.peakBytes = std::move(lowered->bytes);
      handoff.plan = std::move(next);
      handoff.lowered = std::move(lowered->module);
      return describeAnew(module, options, handoff);
    }
    // A little more than is missing: buffers do not fit each other exactly.
    for (auto [left, bytes] : llvm::zip_equal(room, lowered->bytes))
      left -= std::max<int64_t>(0, bytes - limit) + limit / 256;
  }
  return success();
}
