// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StepParts.h"

#include "Cost/ModuleCluster.h"

using namespace mlir;
using namespace mlir::autopar;

/// One part in so many of a device's memory may hold what is put into another order.
static constexpr int64_t kWorthOfOrder = 64;

static bool isKnown(ModuleOp module, StringRef cluster) {
  return !cluster.empty() || !module.getOps<ClusterOp>().empty();
}

FailureOr<std::unique_ptr<TimedStep>> mlir::autopar::timeStep(StepOrder order,
                                                              const ::autopar::Schedule &schedule,
                                                              StringRef cluster, Target target,
                                                              KnownTimes *known) {
  func::FuncOp function = order.function;
  auto module = function->getParentOfType<ModuleOp>();
  if (!isKnown(module, cluster))
    return std::unique_ptr<TimedStep>();
  auto loaded = clusterOf(module, cluster);
  if (!loaded)
    return function.emitOpError() << loaded.status().message();
  std::vector<::autopar::Mesh> meshes;
  for (MeshOp op : module.getOps<MeshOp>())
    meshes.push_back(costMeshOf(op));
  if (static_cast<int32_t>(meshes.size()) != schedule.meshes)
    return std::unique_ptr<TimedStep>();
  std::unique_ptr<TimedStep> step(
      new TimedStep{loaded.take(), std::move(meshes), StepWork(std::move(order), schedule), {}});
  for (auto [number, mesh] : llvm::enumerate(step->meshes))
    step->times.emplace_back(step->cluster, mesh, /*convolves=*/target == Target::Cpu,
                             known ? &known->of(cluster, target, number) : nullptr);
  return step;
}

FailureOr<bool> mlir::autopar::communicatesBeside(func::FuncOp function, StringRef cluster) {
  auto module = function->getParentOfType<ModuleOp>();
  if (!isKnown(module, cluster))
    return false;
  auto loaded = clusterOf(module, cluster);
  if (!loaded)
    return function.emitOpError() << loaded.status().message();
  return llvm::any_of(module.getOps<MeshOp>(), [&](MeshOp mesh) {
    return !loaded->slowestOf(costMeshOf(mesh).devices).communicatesWhileIdle;
  });
}

LogicalResult mlir::autopar::forEachPart(ModuleOp module, StringRef cluster, Target target,
                                         int64_t memoryLimit, KnownTimes *known,
                                         function_ref<void(const StepPart &)> call,
                                         bool behindRows) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  if (!isKnown(module, cluster) || !function || function.isExternal() ||
      !function.getBody().hasOneBlock())
    return success();
  StepOrder order(function);
  auto schedule = order.schedule();
  if (!schedule)
    return function.emitOpError() << schedule.status().message();
  FailureOr<std::unique_ptr<TimedStep>> timed =
      timeStep(std::move(order), *schedule, cluster, target, known);
  if (failed(timed) || !*timed)
    return success(succeeded(timed));
  TimedStep &step = **timed;
  auto visit = [&](ArrayRef<Operation *> ops, int32_t mesh) {
    const ::autopar::DeviceType &device = step.cluster.slowestOf(step.meshes[mesh].devices);
    int64_t memory =
        memoryLimit > 0 ? memoryLimit : step.cluster.usableBytes(step.meshes[mesh].devices);
    call({ops, step.work, step.times[mesh], device, memory / kWorthOfOrder});
  };
  if (schedule->stages == 1) {
    for (const std::vector<Operation *> *ops :
         {&step.work.atStart, &step.work.inEach, &step.work.atEnd})
      visit(*ops, 0);
    return success();
  }
  for (auto &[part, ops] : step.work.rows)
    visit(ops, schedule->meshOf(static_cast<int32_t>(part.first)));
  std::vector<SmallVector<Operation *>> behind(behindRows ? step.meshes.size() : 0);
  for (Operation *op : step.work.atEnd)
    if (const llvm::SmallBitVector &on = step.work.places[op]; behindRows && on.count() == 1)
      behind[on.find_first()].push_back(op);
  for (auto [mesh, ops] : llvm::enumerate(behind))
    visit(ops, static_cast<int32_t>(mesh));
  return success();
}
