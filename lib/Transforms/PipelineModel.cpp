// SPDX-License-Identifier: Apache-2.0
// See the header. The step is a program of the event engine.
#include "PipelineModel.h"

#include "MeshLinks.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;
using ::autopar::VirtualTask;

PipelineModel::PipelineModel(const StepOutline &outline, const Schedule &schedule,
                             ArrayRef<::autopar::Mesh> meshes, const ::autopar::Cluster &cluster)
    : outline(outline), cluster(cluster), table(schedule), places(meshes.begin(), meshes.end()) {}

int32_t PipelineModel::meshOf(Value value) const {
  const Stages &stages = outline.stages();
  int64_t stage = stages.of(value);
  if (stage == Stages::kNone)
    for (Operation *user : value.getUsers())
      if (stage = std::max(stage, stages.of(user)); stage != Stages::kNone)
        break;
  return table.meshOf(std::max<int64_t>(0, stage));
}

int64_t PipelineModel::inFlight(Operation *op) const {
  int64_t stage = outline.stages().of(op);
  return stage == Stages::kNone ? 1 : table.mostInFlight(static_cast<int32_t>(stage));
}

static PipelineTask::Kind kindOf(StagePhase phase) {
  switch (phase) {
  case StagePhase::Forward:
    return PipelineTask::Kind::Forward;
  case StagePhase::Backward:
    return PipelineTask::Kind::Backward;
  case StagePhase::Weight:
    return PipelineTask::Kind::Weight;
  }
  llvm_unreachable("all phases are listed");
}

::autopar::Result<PipelineRun> PipelineModel::run(function_ref<double(Operation *)> timeUs,
                                                  function_ref<int64_t(Operation *)> bytes) const {
  const Stages &stages = outline.stages();
  const MicroBatches &microBatches = outline.microBatches();
  const StagePhases &phases = outline.phases();
  Block &block = outline.getFunction().getBody().front();
  int32_t meshCount = table.meshes;
  using Row = std::tuple<int32_t, int32_t, StagePhase>; // stage, micro-batch, phase
  std::map<std::pair<int32_t, StagePhase>, double> rowUs;
  std::map<std::pair<int32_t, StagePhase>, SmallVector<TransferOp>> sent;
  std::vector<double> beforeUs(meshCount, 0), afterUs(meshCount, 0);
  SmallVector<TransferOp> sentBefore, sentAfter;
  for (Operation &op : block.without_terminator()) {
    int64_t stage = stages.of(&op);
    if (auto transfer = dyn_cast<TransferOp>(op)) {
      Operation *producer = transfer.getInput().getDefiningOp();
      int64_t from = stages.senderOf(transfer);
      if (from == Stages::kNone)
        continue;
      MicroBatchPhase phase = microBatches.phaseOf(&op);
      if (phase == MicroBatchPhase::Each)
        sent[{from, phases.of(producer)}].push_back(transfer);
      else if (table.meshOf(from) != table.meshOf(transfer.getStage()))
        (phase == MicroBatchPhase::Before ? sentBefore : sentAfter).push_back(transfer);
      continue;
    }
    if (stage == Stages::kNone)
      continue;
    if (microBatches.phaseOf(&op) == MicroBatchPhase::Each)
      rowUs[{stage, phases.of(&op)}] += timeUs(&op) / static_cast<double>(microBatches.count());
    else
      (microBatches.phaseOf(&op) == MicroBatchPhase::Before ? beforeUs
                                                            : afterUs)[table.meshOf(stage)] +=
          timeUs(&op);
  }
  ::autopar::VirtualProgram program;
  std::vector<PipelineTask> meanings;
  MeshLinks meshLinks(places, cluster);
  program.ports = meshLinks.ports();
  for (int32_t mesh = 0; mesh < meshCount; ++mesh)
    program.queues.push_back("mesh " + std::to_string(mesh));
  std::map<std::pair<int32_t, int32_t>, int32_t> links;
  auto linkOf = [&](int32_t from, int32_t to) {
    auto [it, isNew] = links.try_emplace({from, to}, program.queues.size());
    if (isNew)
      program.queues.push_back("from " + std::to_string(from) + " to " + std::to_string(to));
    return it->second;
  };
  auto addTask = [&](int32_t queue, double us, PipelineTask meaning) {
    meanings.push_back(meaning);
    VirtualTask task;
    task.queues = {queue};
    task.durationUs = us;
    program.tasks.push_back(std::move(task));
    return static_cast<int32_t>(program.tasks.size()) - 1;
  };
  for (int32_t mesh = 0; mesh < meshCount; ++mesh)
    addTask(mesh, beforeUs[mesh], {PipelineTask::Kind::Before});
  std::map<Row, int32_t> tasks;
  for (int32_t mesh = 0; mesh < meshCount; ++mesh)
    for (const ScheduleRow &row : table.rows[mesh])
      tasks[{row.stage, row.microBatch, row.phase}] = addTask(
          mesh, rowUs[{row.stage, row.phase}], {kindOf(row.phase), row.stage, row.microBatch});
  auto addMessage = [&](TransferOp transfer, int32_t microBatch) {
    auto from = static_cast<int32_t>(stages.of(transfer.getInput())),
         to = static_cast<int32_t>(transfer.getStage());
    int32_t mesh = table.meshOf(from), target = table.meshOf(to);
    int32_t task =
        addTask(linkOf(mesh, target), 0, {PipelineTask::Kind::Message, from, microBatch, to});
    if (mesh != target)
      meshLinks.message(mesh, target, static_cast<double>(bytes(transfer)))
          .take(program.tasks[task]);
    return task;
  };
  // Messages of a link in the order in which they are made.
  for (TransferOp transfer : sentBefore) {
    int32_t message = addMessage(transfer, -1);
    program.tasks[message].after.push_back(table.meshOf(stages.of(transfer.getInput())));
    for (auto &[row, task] : tasks)
      if (std::get<0>(row) == static_cast<int32_t>(transfer.getStage()))
        program.tasks[task].after.push_back(message);
  }
  for (int32_t mesh = 0; mesh < meshCount; ++mesh)
    for (const ScheduleRow &row : table.rows[mesh])
      for (TransferOp transfer : sent[{row.stage, row.phase}]) {
        int32_t message = addMessage(transfer, row.microBatch);
        program.tasks[message].after.push_back(tasks.at({row.stage, row.microBatch, row.phase}));
        for (Operation *user : transfer->getUsers())
          if (auto reader = tasks.find(
                  {static_cast<int32_t>(transfer.getStage()), row.microBatch, phases.of(user)});
              reader != tasks.end())
            program.tasks[reader->second].after.push_back(message);
      }
  std::vector<std::vector<int32_t>> lastMessages(meshCount);
  for (TransferOp transfer : sentAfter) {
    int32_t message = addMessage(transfer, -1);
    for (auto &[row, task] : tasks)
      if (std::get<0>(row) == stages.of(transfer.getInput()))
        program.tasks[message].after.push_back(task);
    lastMessages[table.meshOf(transfer.getStage())].push_back(message);
  }
  // Norms and updates need every gradient.
  for (int32_t mesh = 0; mesh < meshCount; ++mesh) {
    int32_t task = addTask(mesh, afterUs[mesh], {PipelineTask::Kind::After});
    program.tasks[task].after = lastMessages[mesh];
    for (auto &[row, rowTask] : tasks)
      program.tasks[task].after.push_back(rowTask);
  }
  auto times = ::autopar::runVirtualTime(program);
  if (!times)
    return times.status();
  PipelineRun run{program.queues, {}, std::move(meanings), times.take()};
  for (const VirtualTask &task : program.tasks)
    run.queueOf.push_back(task.queues.front());
  return run;
}
