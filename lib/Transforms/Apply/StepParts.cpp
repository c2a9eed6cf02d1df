// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "StepParts.h"

#include "Cost/ModuleCluster.h"

using namespace mlir;
using namespace mlir::autopar;

/// One part in so many of a device's memory may hold what is put into another order.
static constexpr int64_t kWorthOfOrder = 64;

LogicalResult mlir::autopar::forEachPart(ModuleOp module, StringRef cluster, Target target,
                                         int64_t memoryLimit,
                                         function_ref<void(const StepPart &)> call) {
  auto function = module.lookupSymbol<func::FuncOp>("main");
  bool isKnown = !cluster.empty() || !module.getOps<ClusterOp>().empty();
  if (!isKnown || !function || function.isExternal() || !function.getBody().hasOneBlock())
    return success();
  auto loaded = clusterOf(module, cluster);
  if (!loaded)
    return function.emitOpError() << loaded.status().message();
  auto schedule = scheduleOf(function);
  if (!schedule)
    return function.emitOpError() << schedule.status().message();
  std::vector<::autopar::Mesh> meshes;
  for (MeshOp op : module.getOps<MeshOp>())
    meshes.push_back(costMeshOf(op));
  if (static_cast<int32_t>(meshes.size()) != schedule->meshes)
    return success(); // said by who evaluates or lowers it
  StepWork work(function, *schedule);
  std::vector<KernelTime> times;
  for (const ::autopar::Mesh &mesh : meshes)
    times.emplace_back(*loaded, mesh, /*convolves=*/target == Target::Cpu);
  auto visit = [&](ArrayRef<Operation *> ops, int32_t mesh) {
    const ::autopar::DeviceType &device = loaded->slowestOf(meshes[mesh].devices);
    int64_t memory = memoryLimit > 0 ? memoryLimit : device.memoryBytes;
    call({ops, work, times[mesh], device, memory / kWorthOfOrder});
  };
  if (schedule->stages == 1)
    for (const std::vector<Operation *> *ops : {&work.atStart, &work.inEach, &work.atEnd})
      visit(*ops, 0);
  else
    for (auto &[part, ops] : work.rows)
      visit(ops, schedule->meshOf(static_cast<int32_t>(part.first)));
  return success();
}
