// SPDX-License-Identifier: Apache-2.0
// The pass autopar-evaluate-step: leaves in the module how long its step takes.
#include "KnownTimes.h"
#include "ModuleCluster.h"
#include "StepEvaluator.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EVALUATESTEPPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Mesh;
using ::autopar::Schedule;

namespace {

struct EvaluateStepPass : mlir::autopar::impl::EvaluateStepPassBase<EvaluateStepPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    bool isKnown = !cluster.empty() || !getOperation().getOps<ClusterOp>().empty();
    if (!isKnown || !function || function.isExternal() || !function.getBody().hasOneBlock())
      return;
    if (failed(evaluate(function)))
      signalPassFailure();
  }

private:
  std::vector<Mesh> meshesOf(int64_t devices) {
    std::vector<Mesh> meshes;
    for (MeshOp op : getOperation().getOps<MeshOp>())
      meshes.push_back(costMeshOf(op));
    if (meshes.empty() && devices > 0)
      meshes.push_back(Mesh::over("mesh", {{"x", 1}}));
    return meshes;
  }

  LogicalResult evaluate(func::FuncOp function) {
    ::autopar::Result<Cluster> loaded = clusterOf(function->getParentOfType<ModuleOp>(), cluster);
    if (!loaded)
      return function.emitOpError() << loaded.status().message();
    StepOrder order(function);
    ::autopar::Result<Schedule> schedule = order.schedule();
    if (!schedule)
      return function.emitOpError() << schedule.status().message();
    for (MeshOp op : getOperation().getOps<MeshOp>())
      if (op.rankCount() > loaded->deviceCount())
        return function.emitOpError()
               << "mesh '" << op.getSymName() << "': " << op.rankCount()
               << " ranks are more than the " << loaded->deviceCount() << " devices of the cluster";
    std::vector<Mesh> meshes = meshesOf(loaded->deviceCount());
    if (static_cast<int32_t>(meshes.size()) != schedule->meshes)
      return function.emitOpError() << "has stages on " << schedule->meshes
                                    << " meshes, but the module declares " << meshes.size();
    for (const Mesh &mesh : meshes)
      if (::autopar::Status status = mesh.verify(*loaded); !status.isOk())
        return function.emitOpError() << status.message();
    auto &known = getAnalysis<KnownTimes>();
    auto knownOf = [&](size_t mesh) -> KernelTime::Known & {
      return known.of(cluster, target, mesh);
    };
    StepEvaluator evaluator(std::move(order), *schedule, std::move(meshes), *loaded, target,
                            memoryLimit, knownOf);
    ::autopar::Result<double> us = evaluator.stepUs();
    if (!us)
      return function.emitOpError() << us.status().message();
    Builder builder(&getContext());
    getOperation()->setAttr(kStepTimeAttribute, builder.getF64FloatAttr(*us));
    if (!evaluator.meshUs().empty())
      getOperation()->setAttr(kMeshTimesAttribute,
                              builder.getDenseF64ArrayAttr(evaluator.meshUs()));
    if (double waits = evaluator.rowWaitsUs(); waits > 0)
      getOperation()->setAttr(kRowWaitsAttribute, builder.getF64FloatAttr(waits));
    return success();
  }
};

} // namespace
