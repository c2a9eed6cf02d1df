// SPDX-License-Identifier: Apache-2.0
// The pass autopar-schedule: what runs once per micro-batch is written out in the order of
// the schedule, for every mesh that stages take turns on a function of its own. Groups are cloned
// whole, so that every micro-batch runs the same kernels, whatever the schedule.
#include "MeshWriter.h"

#include "Cost/ModuleCluster.h"
#include "autopar/Interfaces/FewMicroBatches.h"
#include "autopar/Interfaces/RunSideBySide.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SCHEDULEPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;

namespace {

struct SchedulePass : mlir::autopar::impl::SchedulePassBase<SchedulePass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return;
    if (failed(write(function)))
      signalPassFailure();
  }

private:
  LogicalResult write(func::FuncOp function) {
    StagedFunction source(function);
    if (failed(source.stages.verify()) || failed(verifyCarries(source)))
      return failure();
    if (source.numbers.empty() && source.stages.count() == 1 && source.microBatches.count() == 1)
      return success(); // nothing to write apart
    ::autopar::Result<Schedule> schedule = scheduleOf(function);
    if (!schedule)
      return function.emitOpError() << schedule.status().message();
    if (few) {
      int32_t all = schedule->microBatches;
      schedule = ::autopar::withFewMicroBatches(*schedule);
      if (schedule->microBatches < all)
        getOperation()->setAttr(kFewMicroBatchesAttribute, UnitAttr::get(&getContext()));
    }
    if (failed(source.phases.verifyDirection(source.stages, source.microBatches)) ||
        failed(source.findRoutes(*schedule)))
      return failure();
    FailureOr<std::unique_ptr<Pairs>> pairs = pairsOf(function, *schedule);
    if (failed(pairs))
      return failure();
    std::vector<std::unique_ptr<MeshWriter>> writers;
    for (int32_t mesh = 0; mesh < schedule->meshes; ++mesh)
      writers.push_back(std::make_unique<MeshWriter>(source, *schedule, mesh));
    runSideBySide(getContext(), writers.size(),
                  [&](size_t i) { writers[i]->write(*pairs ? &(*pairs)->together[i] : nullptr); });
    function.erase();
    return success();
  }

  /// What puts rows that run together in order, per mesh.
  struct Pairs {
    ::autopar::Cluster cluster;
    std::vector<::autopar::Mesh> meshes;
    StepWork work;
    std::vector<KernelTime> times;
    std::vector<RowsTogether> together;
  };

  /// Null where no rows run together, or nobody knows on which devices.
  FailureOr<std::unique_ptr<Pairs>> pairsOf(func::FuncOp function, const Schedule &schedule) {
    bool areThere = llvm::any_of(schedule.rows, [](const auto &rows) {
      return llvm::any_of(rows, [](const ::autopar::ScheduleRow &row) { return row.withNext; });
    });
    if (!areThere || (cluster.empty() && getOperation().getOps<ClusterOp>().empty()))
      return std::unique_ptr<Pairs>();
    ::autopar::Result<::autopar::Cluster> loaded = clusterOf(getOperation(), cluster);
    if (!loaded)
      return function.emitOpError() << loaded.status().message();
    std::unique_ptr<Pairs> pairs(
        new Pairs{loaded.take(), {}, StepWork(function, schedule), {}, {}});
    for (MeshOp op : getOperation().getOps<MeshOp>())
      pairs->meshes.push_back(costMeshOf(op));
    if (static_cast<int32_t>(pairs->meshes.size()) != schedule.meshes)
      return std::unique_ptr<Pairs>(); // said by who evaluates or lowers it
    for (const ::autopar::Mesh &mesh : pairs->meshes)
      pairs->times.emplace_back(pairs->cluster, mesh, /*convolves=*/target == Target::Cpu);
    for (KernelTime &times : pairs->times)
      pairs->together.emplace_back(pairs->work, times);
    return pairs;
  }

  /// What a micro-batch finds, the one before has handed on: one operation, of that type and on the
  /// stage that reads it.
  static LogicalResult verifyCarries(const StagedFunction &source) {
    Block &block = source.function.getBody().front();
    DenseMap<int64_t, CarryOp> carries;
    for (auto carry : block.getOps<CarryOp>())
      if (auto [it, isNew] = carries.try_emplace(carry.getNumber(), carry); !isNew) {
        InFlightDiagnostic error = carry.emitOpError()
                                   << "hands on number " << carry.getNumber() << " again";
        error.attachNote(it->second.getLoc()) << "the first one is here";
        return failure();
      }
    for (auto carried : block.getOps<CarriedOp>()) {
      CarryOp carry = carries.lookup(carried.getNumber());
      if (!carry || carry.getType() != carried.getType())
        return carried.emitOpError() << "expected one autopar.carry of number "
                                     << carried.getNumber() << " and type " << carried.getType();
      for (Operation *user : carried->getUsers())
        if (source.stages.of(user) != source.stages.of(carry.getOperation()))
          return carried.emitOpError()
                 << "is read on stage " << source.stages.of(user) << ", but handed on by stage "
                 << source.stages.of(carry.getOperation());
    }
    return success();
  }
};

} // namespace
