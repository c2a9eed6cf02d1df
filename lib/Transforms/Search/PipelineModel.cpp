// SPDX-License-Identifier: Apache-2.0
// See the header. The step is a program of the event engine.
#include "PipelineModel.h"

#include "Cost/RowProgram.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Schedule;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;

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

std::vector<char> isAloneOf(ArrayRef<::autopar::Mesh> places, const ::autopar::Cluster &cluster) {
  std::vector<char> isAlone;
  for (const ::autopar::Mesh &mesh : places)
    isAlone.push_back(cluster.slowestOf(mesh.devices).communicatesWhileIdle);
  return isAlone;
}

/// The tasks of a step, a queue for each mesh and for each link between two.
class StepProgram {
public:
  StepProgram(const StepOutline &outline, const Schedule &table,
              const std::vector<::autopar::Mesh> &places, const ::autopar::Cluster &cluster,
              function_ref<double(Operation *)> timeUs, function_ref<int64_t(Operation *)> bytes)
      : block(outline.getFunction().getBody().front()), stages(outline.stages()),
        microBatches(outline.microBatches()), phases(outline.phases()), table(table),
        meshLinks(places, cluster), timeUs(timeUs), bytes(bytes),
        isAlone(isAloneOf(places, cluster)), rows(isAlone, meshLinks.ports()) {}

  /// Rows of the schedule, what runs once around them.
  void addRows();
  /// Of one micro-batch: each mesh its operations in their order. It waits where one reads what has
  /// not arrived.
  void addInOrder();

  ::autopar::Result<PipelineRun> run();

private:
  /// A message on its way.
  struct Arrival {
    int32_t task; ///< at whose end all of it is there
    const MeshMessage *message;
  };
  int32_t addTask(int32_t queue, double us, PipelineTask meaning) {
    meanings.push_back(meaning);
    return rows.addTask(queue, us, nameOf(meaning));
  }
  Arrival send(TransferOp transfer, int32_t microBatch, ArrayRef<int32_t> after);
  void receive(int32_t task, const Arrival &arrival, int32_t mesh, bool isFirst) {
    rows.receive(task, arrival.task, mesh, *arrival.message, isFirst);
  }
  void wait(int32_t task, int32_t before) { rows.program.tasks[task].after.push_back(before); }
  void sortOperations();

  Block &block;
  const Stages &stages;
  const MicroBatches &microBatches;
  const StagePhases &phases;
  const Schedule &table;
  MeshLinks meshLinks;
  function_ref<double(Operation *)> timeUs;
  function_ref<int64_t(Operation *)> bytes;
  std::vector<char> isAlone; ///< per mesh: its devices move bytes of a node while idle only
  RowProgram rows;
  std::vector<PipelineTask> meanings;           ///< of the tasks
  std::vector<int32_t> latencies;               ///< tasks
  std::map<Operation *, MeshMessage> messages;  ///< by transfer: of a micro-batch, all alike
  using Part = std::pair<int32_t, StagePhase>;  ///< of a stage
  std::map<Part, double> rowUs;                 ///< of a micro-batch
  std::map<Part, SmallVector<TransferOp>> sent; ///< in every micro-batch
  std::vector<double> beforeUs, afterUs;        ///< per mesh
  SmallVector<TransferOp> sentBefore, sentAfter;
};

StepProgram::Arrival StepProgram::send(TransferOp transfer, int32_t microBatch,
                                       ArrayRef<int32_t> after) {
  auto from = static_cast<int32_t>(stages.of(transfer.getInput())),
       to = static_cast<int32_t>(transfer.getStage());
  int32_t mesh = table.meshOf(from), target = table.meshOf(to);
  auto [known, isNew] = messages.try_emplace(transfer);
  if (isNew)
    known->second = meshLinks.message(mesh, target, static_cast<double>(bytes(transfer)));
  PipelineTask meaning{PipelineTask::Kind::Message, from, microBatch, to};
  auto first = static_cast<int32_t>(meanings.size());
  int32_t arrival = rows.send(mesh, target, known->second, after, nameOf(meaning));
  meanings.resize(arrival + 1, meaning);
  if (arrival != first)
    latencies.push_back(arrival);
  return {arrival, &known->second};
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
    Arrival arrival = send(transfer, -1, table.meshOf(stages.of(transfer.getInput())));
    receive(firstOf[transfer.getStage()], arrival, table.meshOf(transfer.getStage()),
            /*isFirst=*/true);
  }
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh)
    for (const ScheduleRow &row : table.rows[mesh])
      for (TransferOp transfer : sent[{row.stage, row.phase}]) {
        auto stage = static_cast<int32_t>(transfer.getStage());
        if (table.meshOf(stage) == mesh)
          continue;                // it is there
        std::set<int32_t> readers; // a mesh runs its rows in the order of their tasks
        for (Operation *user : transfer->getUsers())
          if (int32_t reader = tasks[{stage, row.microBatch, phases.of(user)}]; reader != kNone)
            readers.insert(reader);
        Arrival arrival = send(transfer, row.microBatch, tasks[row]);
        for (int32_t reader : readers)
          receive(reader, arrival, table.meshOf(stage), reader == *readers.begin());
      }
  std::vector<std::vector<Arrival>> lastMessages(table.meshes);
  for (TransferOp transfer : sentAfter)
    lastMessages[table.meshOf(transfer.getStage())].push_back(
        send(transfer, -1, lastOf[stages.of(transfer.getInput())]));
  // Norms and updates need every gradient.
  for (int32_t mesh = 0; mesh < table.meshes; ++mesh) {
    int32_t task = addTask(mesh, afterUs[mesh], {PipelineTask::Kind::After});
    for (const Arrival &arrival : lastMessages[mesh])
      receive(task, arrival, mesh, /*isFirst=*/true);
    for (int32_t last : lastOf)
      wait(task, last);
  }
}

void StepProgram::addInOrder() {
  constexpr int32_t none = -1;
  std::vector<int32_t> current(table.meshes, none), last(table.meshes, none); // tasks
  using Arrivals = SmallVector<Arrival, 1>;
  DenseMap<Value, Arrivals> arriving;            // the messages that bring a value
  DenseSet<std::pair<int32_t, int32_t>> arrived; // messages that a mesh has waited for
  for (Operation &op : block.without_terminator()) {
    Arrivals messages;
    for (Value operand : op.getOperands())
      llvm::append_range(messages, arriving.lookup(operand));
    int64_t stage = stages.of(&op);
    auto transfer = dyn_cast<TransferOp>(op);
    int64_t from = transfer ? stages.senderOf(transfer) : Stages::kNone;
    if (from != Stages::kNone && table.meshOf(from) != table.meshOf(stage)) {
      SmallVector<int32_t> before;
      if (int32_t own = last[table.meshOf(from)]; own != none)
        before.push_back(own);
      for (const Arrival &other : messages)
        before.push_back(other.task);
      messages = {send(transfer, 0, before)};
      current[table.meshOf(from)] = none; // what the mesh does next, the message does not wait for
    }
    double us = transfer || stage == Stages::kNone ? 0 : timeUs(&op);
    if (us == 0) { // read where it lies
      for (Value result : op.getResults())
        arriving[result] = messages;
      continue;
    }
    int32_t mesh = table.meshOf(stage), &task = current[mesh];
    llvm::erase_if(messages, [&](const Arrival &message) {
      return !arrived.insert({mesh, message.task}).second;
    });
    PipelineTask meaning{kindOf(phases.of(&op)), static_cast<int32_t>(stage), 0};
    if (auto phase = op.getAttrOfType<StringAttr>("autopar.phase"); phase && phase == "update")
      meaning = {PipelineTask::Kind::After};
    if (task == none || !messages.empty() || meanings[task].kind != meaning.kind ||
        meanings[task].stage != meaning.stage)
      task = last[mesh] = addTask(mesh, 0, meaning);
    for (const Arrival &message : messages)
      receive(task, message, mesh, /*isFirst=*/true);
    rows.program.tasks[task].durationUs += us;
  }
}

::autopar::Result<PipelineRun> StepProgram::run() {
  auto times = ::autopar::runVirtualTime(rows.program);
  if (!times)
    return times.status();
  PipelineRun run{{}, {}, std::move(meanings), times.take()};
  // Each latency has a queue to itself, of which nobody wants to know.
  std::vector<int32_t> numbers(rows.program.queues.size(), 0);
  for (int32_t task : latencies)
    numbers[rows.program.tasks[task].queues.front()] = -1;
  for (auto [queue, number] : llvm::enumerate(numbers))
    if (number == 0) {
      number = static_cast<int32_t>(run.queues.size());
      run.queues.push_back(rows.program.queues[queue]);
    }
  for (const ::autopar::VirtualTask &task : rows.program.tasks)
    run.queueOf.push_back(numbers[task.queues.front()]);
  return run;
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
