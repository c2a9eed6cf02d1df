// SPDX-License-Identifier: Apache-2.0
#include "MeshRows.h"

#include "QueueWalk.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;

namespace {

class PipelineRows {
public:
  PipelineRows(const StepWork &work, const Schedule &schedule, std::vector<KernelTime> &times)
      : work(work), schedule(schedule), times(times) {}

  MeshRows of(int32_t mesh) {
    MeshRows found;
    if (schedule.stages == 1) {
      found.first = found.last = work.inEach;
      return found;
    }
    ArrayRef<ScheduleRow> rows = schedule.rows[mesh];
    // Two that run together are put in an order of their own.
    for (const ScheduleRow &row : rows.take_until([](const auto &row) { return row.withNext; }))
      if (row.microBatch == 0)
        llvm::append_range(found.first, ops(row));
    const ScheduleRow &last = rows.back();
    bool isAlone = rows.size() == 1 || !rows.drop_back().back().withNext;
    if (isAlone && last.microBatch + 1 == schedule.microBatches)
      found.last = ops(last);
    for (int32_t stage = 0; stage < schedule.stages; ++stage) {
      if (stage < mesh)
        found.arrivesUs += us(stage, StagePhase::Forward);
      if (stage < last.stage && last.phase == StagePhase::Backward)
        found.leavesUs += us(stage, StagePhase::Backward);
      for (StagePhase phase : {StagePhase::Forward, StagePhase::Backward, StagePhase::Weight})
        if (ScheduleRow row{stage, 0, phase}; schedule.meshOf(stage) == mesh)
          if (stage != last.stage || phase != last.phase || found.last.empty())
            llvm::append_range(found.others, ops(row));
    }
    return found;
  }

private:
  /// But for what is on no stage, which is made where it is read.
  std::vector<Operation *> ops(const ScheduleRow &row) const {
    std::vector<Operation *> own;
    if (auto found = work.rows.find({row.stage, row.phase}); found != work.rows.end())
      llvm::copy_if(found->second, std::back_inserter(own),
                    [&](Operation *op) { return work.stageOf(op) == row.stage; });
    return own;
  }

  double us(int32_t stage, StagePhase phase) {
    KernelTime &own = times[schedule.meshOf(stage)];
    QueueWalk queues(own);
    for (Operation *op : ops({stage, 0, phase}))
      queues.run(op, work.partsOf(op, own));
    return queues.endUs();
  }

  const StepWork &work;
  const Schedule &schedule;
  std::vector<KernelTime> &times;
};

} // namespace

std::vector<MeshRows> mlir::autopar::meshRows(const StepWork &work, const Schedule &schedule,
                                              std::vector<KernelTime> &times) {
  PipelineRows pipeline(work, schedule, times);
  std::vector<MeshRows> found;
  for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh)
    found.push_back(pipeline.of(mesh));
  return found;
}
