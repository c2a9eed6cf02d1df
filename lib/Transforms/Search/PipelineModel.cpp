// SPDX-License-Identifier: Apache-2.0
// See the header. The step is a program of the event engine.
#include "PipelineModel.h"

#include "Cost/MeshLinks.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;
using ::autopar::VirtualTask;

PipelineModel::PipelineModel(const StepOutline &outline, const Schedule &schedule,
                             ArrayRef<::autopar::Mesh> meshes, const ::autopar::Cluster &cluster)
    : outline(outline), cluster(cluster), table(schedule), places(meshes.begin(), meshes.end()) {
  for (int32_t stage = 0; stage < table.stages; ++stage)
    flights.push_back(table.mostInFlight(stage));
}

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
  return stage == Stages::kNone ? 1 : flights[stage];
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

namespace {

std::string nameOf(const PipelineTask &task) {
  constexpr StringLiteral words[] = {"what runs before", "F", "B", "W", "message",
                                     "what runs after"};
  std::string name = words[static_cast<size_t>(task.kind)].str();
  if (task.stage >= 0)
    name += " of stage " + std::to_string(task.stage);
  if (task.target >= 0)
    name += " to stage " + std::to_string(task.target);
  if (task.microBatch >= 0)
    name += ", micro-batch " + std::to_string(task.microBatch);
  return name;
}

/// The tasks of a step, a queue for each mesh and for each link between two.
class StepProgram {
public:
  StepProgram(const StepOutline &outline, const Schedule &table,
              const std::vector<::autopar::Mesh> &places, const ::autopar::Cluster &cluster,
              function_ref<double(Operation *)> timeUs, function_ref<int64_t(Operation *)> bytes)
      : block(outline.getFunction().getBody().front()), stages(outline.stages()),
        microBatches(outline.microBatches()), phases(outline.phases()), table(table),
        meshLinks(places, cluster), timeUs(timeUs), bytes(bytes) {
    program.ports = meshLinks.ports();
    for (int32_t mesh = 0; mesh < table.meshes; ++mesh)
      program.queues.push_back("mesh " + std::to_string(mesh));
  }

  /// Rows of the schedule, what runs once around them.
  void addRows();
  /// Of one micro-batch: each mesh its operations in their order. It waits where one reads what has
  /// not arrived.
  void addInOrder();

  ::autopar::Result<PipelineRun> run() {
    auto times = ::autopar::runVirtualTime(program);
    if (!times)
      return times.status();
    PipelineRun run{program.queues, {}, std::move(meanings), times.take()};
    for (const VirtualTask &task : program.tasks)
      run.queueOf.push_back(task.queues.front());
    return run;
  }

private:
  int32_t addTask(int32_t queue, double us, PipelineTask meaning) {
    meanings.push_back(meaning);
    VirtualTask task;
    task.name = nameOf(meaning);
    task.queues = {queue};
    task.durationUs = us;
    program.tasks.push_back(std::move(task));
    return static_cast<int32_t>(program.tasks.size()) - 1;
  }
  int32_t addMessage(TransferOp transfer, int32_t microBatch);
  void wait(int32_t task, int32_t before) { program.tasks[task].after.push_back(before); }
  void sortOperations();

  Block &block;
  const Stages &stages;
  const MicroBatches &microBatches;
  const StagePhases &phases;
  const Schedule &table;
  MeshLinks meshLinks;
  function_ref<double(Operation *)> timeUs;
  function_ref<int64_t(Operation *)> bytes;
  ::autopar::VirtualProgram program;
  std::vector<PipelineTask> meanings;                   ///< of the tasks
  std::map<std::pair<int32_t, int32_t>, int32_t> links; ///< queues, by the meshes that they join
  struct Link {
    int32_t queue;
    MeshMessage message;
  };
  DenseMap<Operation *, Link> messages;         ///< by transfer: of a micro-batch, all alike
  using Part = std::pair<int32_t, StagePhase>;  ///< of a stage
  std::map<Part, double> rowUs;                 ///< of a micro-batch
  std::map<Part, SmallVector<TransferOp>> sent; ///< in every micro-batch
  std::vector<double> beforeUs, afterUs;        ///< per mesh
  SmallVector<TransferOp> sentBefore, sentAfter;
};

int32_t StepProgram::addMessage(TransferOp transfer, int32_t microBatch) {
  auto from = static_cast<int32_t>(stages.of(transfer.getInput())),
       to = static_cast<int32_t>(transfer.getStage());
  int32_t mesh = table.meshOf(from), target = table.meshOf(to);
  auto [known, isNew] = messages.try_emplace(transfer);
  if (isNew) {
    auto [queue, isFirst] = links.try_emplace({mesh, target}, program.queues.size());
    if (isFirst)
      program.queues.push_back("from " + std::to_string(mesh) + " to " + std::to_string(target));
    known->second.queue = queue->second;
    if (mesh != target)
      known->second.message = meshLinks.message(mesh, target, static_cast<double>(bytes(transfer)));
  }
  int32_t task =
      addTask(known->second.queue, 0, {PipelineTask::Kind::Message, from, microBatch, to});
  if (mesh != target)
    known->second.message.take(program.tasks[task]);
  return task;
}

void StepProgram::sortOperations() {
  beforeUs.assign(table.meshes, 0);
  afterUs.assign(table.meshes, 0);
  for (Operation &op : block.without_terminator()) {
    MicroBatchPhase phase = microBatches.phaseOf(&op);
    if (auto transfer = dyn_cast<TransferOp>(op)) {
      int64_t from = stages.senderOf(transfer);
      if (from == Stages::kNone)
        continue;
      if (phase == MicroBatchPhase::Each)
        sent[{from, phases.of(transfer.getInput().getDefiningOp())}].push_back(transfer);
      else if (table.meshOf(from) != table.meshOf(transfer.getStage()))
        (phase == MicroBatchPhase::Before ? sentBefore : sentAfter).push_back(transfer);
      continue;
    }
    int64_t stage = stages.of(&op);
    if (stage == Stages::kNone)
      continue;
    if (phase == MicroBatchPhase::Each)
      rowUs[{stage, phases.of(&op)}] += timeUs(&op) / static_cast<double>(microBatches.count());
    else
      (phase == MicroBatchPhase::Before ? beforeUs : afterUs)[table.meshOf(stage)] += timeUs(&op);
  }
}

void StepProgram::addRows() {
  sortOperations();
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh)
    addTask(mesh, beforeUs[mesh], {PipelineTask::Kind::Before});
  constexpr int32_t kNone = -1;
  ::autopar::PerRow<int32_t> tasks(table, kNone);
  // A mesh runs its rows one after the other, so of a stage's the first and the last are waited
  // for.
  std::vector<int32_t> firstOf(table.stages, kNone), lastOf(table.stages, kNone);
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh)
    for (const ScheduleRow &row : table.rows[mesh]) {
      int32_t task = addTask(mesh, rowUs[{row.stage, row.phase}],
                             {kindOf(row.phase), row.stage, row.microBatch});
      tasks[row] = lastOf[row.stage] = task;
      if (firstOf[row.stage] == kNone)
        firstOf[row.stage] = task;
    }
  // Messages of a link in the order in which they are made.
  for (TransferOp transfer : sentBefore) {
    int32_t message = addMessage(transfer, -1);
    wait(message, table.meshOf(stages.of(transfer.getInput())));
    wait(firstOf[transfer.getStage()], message);
  }
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh)
    for (const ScheduleRow &row : table.rows[mesh])
      for (TransferOp transfer : sent[{row.stage, row.phase}]) {
        int32_t message = addMessage(transfer, row.microBatch);
        wait(message, tasks[row]);
        for (Operation *user : transfer->getUsers())
          if (int32_t reader = tasks[{static_cast<int32_t>(transfer.getStage()), row.microBatch,
                                      phases.of(user)}];
              reader != kNone)
            wait(reader, message);
      }
  std::vector<std::vector<int32_t>> lastMessages(table.meshes);
  for (TransferOp transfer : sentAfter) {
    int32_t message = addMessage(transfer, -1);
    wait(message, lastOf[stages.of(transfer.getInput())]);
    lastMessages[table.meshOf(transfer.getStage())].push_back(message);
  }
  // Norms and updates need every gradient.
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh) {
    int32_t task = addTask(mesh, afterUs[mesh], {PipelineTask::Kind::After});
    program.tasks[task].after = lastMessages[mesh];
    for (int32_t last : lastOf)
      wait(task, last);
  }
}

void StepProgram::addInOrder() {
  constexpr int32_t none = -1;
  std::vector<int32_t> current(table.meshes, none), last(table.meshes, none); // tasks
  DenseMap<Value, SmallVector<int32_t, 1>> arriving; // the messages that bring a value
  DenseSet<std::pair<int32_t, int32_t>> arrived;     // messages that a mesh has waited for
  for (Operation &op : block.without_terminator()) {
    SmallVector<int32_t, 1> messages;
    for (Value operand : op.getOperands())
      llvm::append_range(messages, arriving.lookup(operand));
    int64_t stage = stages.of(&op);
    auto transfer = dyn_cast<TransferOp>(op);
    int64_t from = transfer ? stages.senderOf(transfer) : Stages::kNone;
    if (from != Stages::kNone && table.meshOf(from) != table.meshOf(stage)) {
      int32_t message = addMessage(transfer, 0), &task = current[table.meshOf(from)];
      if (int32_t before = last[table.meshOf(from)]; before != none)
        wait(message, before);
      for (int32_t other : messages)
        wait(message, other);
      messages = {message};
      task = none; // what the mesh does next, the message does not wait for
    }
    double us = transfer || stage == Stages::kNone ? 0 : timeUs(&op);
    if (us == 0) { // read where it lies
      for (Value result : op.getResults())
        arriving[result] = messages;
      continue;
    }
    int32_t mesh = table.meshOf(stage), &task = current[mesh];
    llvm::erase_if(messages, [&](int32_t message) {
      return !arrived.insert({mesh, message}).second;
    });
    PipelineTask meaning{kindOf(phases.of(&op)), static_cast<int32_t>(stage), 0};
    if (auto phase = op.getAttrOfType<StringAttr>("autopar.phase"); phase && phase == "update")
      meaning = {PipelineTask::Kind::After};
    if (task == none || !messages.empty() || meanings[task].kind != meaning.kind ||
        meanings[task].stage != meaning.stage)
      task = last[mesh] = addTask(mesh, 0, meaning);
    for (int32_t message : messages)
      wait(task, message);
    program.tasks[task].durationUs += us;
  }
}

} // namespace

::autopar::Result<PipelineRun> PipelineModel::run(function_ref<double(Operation *)> timeUs,
                                                  function_ref<int64_t(Operation *)> bytes) const {
  StepProgram program(outline, table, places, cluster, timeUs, bytes);
  if (outline.microBatches().count() > 1)
    program.addRows();
  else
    program.addInOrder();
  return program.run();
}
