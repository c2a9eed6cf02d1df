// SPDX-License-Identifier: Apache-2.0
// The pass autopar-schedule: what runs once per micro-batch is written out in the order of
// the schedule, for every mesh that stages take turns on a function of its own. Groups are cloned
// whole, so that every micro-batch runs the same kernels, whatever the schedule.
#include "MeshWriter.h"

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
    if (failed(source.phases.verifyDirection(source.stages, source.microBatches)) ||
        failed(source.findRoutes(*schedule)))
      return failure();
    for (int32_t mesh = 0; mesh < schedule->meshes; ++mesh)
      MeshWriter(source, *schedule, mesh).write();
    function.erase();
    return success();
  }
};

} // namespace
