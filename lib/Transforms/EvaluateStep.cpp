// SPDX-License-Identifier: Apache-2.0
// The pass autopar-evaluate-step: how long a step of kernels takes, on the event engine. Without
// stages the whole step is walked; with stages each row of the schedule is one task, as long as a
// walk over its kernels says, and in two parts where something is sent before its end.
#include "KernelTime.h"
#include "OpTime.h"
#include "StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/VirtualTime/EventEngine.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EVALUATESTEPPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Mesh;
using ::autopar::Schedule;
using ::autopar::ScheduleRow;
using ::autopar::StagePhase;

namespace {

/// The compute queue and the collectives of a mesh, as far as a walk has come.
struct Queues {
  double computeUs = 0, collectiveUs = 0;
  double endUs() const { return std::max(computeUs, collectiveUs); }
};

class StepEvaluator {
public:
  StepEvaluator(func::FuncOp function, const Schedule &schedule, std::vector<Mesh> meshes,
                const Cluster &cluster, bool convolves)
      : function(function), block(function.getBody().front()), schedule(schedule),
        meshes(std::move(meshes)), cluster(cluster), microBatches(block), stages(function),
        phases(block) {
    for (const Mesh &mesh : this->meshes) {
      times.emplace_back(cluster, mesh, convolves);
      isAlone.push_back(cluster.slowestOf(mesh.devices).communicatesWhileIdle);
    }
    findFree();
    findUpdates();
    findPlaces();
  }

  ::autopar::Result<double> stepUs() {
    std::vector<Queues> queues(meshes.size());
    walk(atStart, queues);
    if (schedule.stages == 1) {
      for (int64_t i = 0; i < microBatches.count(); ++i)
        for (Operation *op : inEach)
          visit(op, 0, queues.front(), i == 0);
    } else {
      AUTOPAR_RETURN_IF_ERROR(runRows(queues));
    }
    walk(atEnd, queues);
    for (Value value : copied)
      copyState(value, queues);
    return endOf(queues);
  }

private:
  //===-- What costs something --------------------------------------------------------------===//

  /// What is read where it lies, made when parameters are read, or a word that a rank knows.
  void findFree() {
    DenseSet<Value> atLoad;
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), "autopar.origin") &&
          !function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
        atLoad.insert(argument);
    for (Operation &op : block.without_terminator()) {
      bool isKnown = op.hasTrait<OpTrait::ConstantLike>();
      if (!isKnown && op.getNumOperands() && isMemoryEffectFree(&op) && !callsLibrary(&op) &&
          !isa<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp, TransferOp>(op))
        isKnown =
            llvm::all_of(op.getOperands(), [&](Value operand) { return atLoad.contains(operand); });
      if (isKnown)
        atLoad.insert_range(op.getResults());
      if (isKnown || isView(&op) ||
          isa<FenceOp, CarriedOp, CarryOp, MicroBatchOp, MicroBatchIndexOp, ShardIndexOp, HoldOp>(
              op))
        free.insert(&op);
    }
  }

  static bool callsLibrary(Operation *op) {
    return op
        ->walk([](Operation *inner) {
          return isLibraryContraction(inner) ? WalkResult::interrupt() : WalkResult::advance();
        })
        .wasInterrupted();
  }

  static bool feedsLibrary(Operation *op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) {
      return isa<ReshapeOp, TransposeOp, SliceOp>(user) ? feedsLibrary(user) : callsLibrary(user);
    });
  }

  static bool isView(Operation *op) {
    if (isa<ReshapeOp, TransposeOp>(op))
      return true;
    if (isa<SliceOp>(op))
      return feedsLibrary(op);
    auto group = dyn_cast<GroupOp>(op);
    return group &&
           llvm::all_of(group.getBody().front().without_terminator(),
                        llvm::IsaPred<ReshapeOp, TransposeOp, SliceOp>) &&
           feedsLibrary(op);
  }

  /// State is written once it is known that no metric forbids it.
  void findUpdates() {
    llvm::StringMap<bool> donated;
    auto nameOf = [](DictionaryAttr attributes) {
      auto name = attributes ? attributes.getAs<StringAttr>("autopar.name") : StringAttr();
      return name ? name.getValue() : StringRef();
    };
    for (BlockArgument argument : function.getArguments())
      if (function.getArgAttr(argument.getArgNumber(), "autopar.donated"))
        donated[nameOf(function.getArgAttrDict(argument.getArgNumber()))] = true;
    for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
      unsigned number = operand.getOperandNumber();
      if (donated.contains(nameOf(function.getResultAttrDict(number)))) {
        updates.insert(operand.get().getDefiningOp());
        if (comesFromCollective(operand.get()))
          copied.push_back(operand.get());
      }
      if (function.getResultAttr(number, "autopar.guard"))
        guards.push_back(operand.get());
      if (function.getResultAttr(number, "autopar.metric"))
        metrics.push_back(operand.get());
    }
  }

  /// What a collective writes becomes state by a copy.
  static bool comesFromCollective(Value value) {
    while (isa_and_nonnull<ReshapeOp, TransposeOp>(value.getDefiningOp()))
      value = value.getDefiningOp()->getOperand(0);
    return isa_and_nonnull<AllReduceOp, AllGatherOp, ReduceScatterOp, AllToAllOp>(
        value.getDefiningOp());
  }

  //===-- Where and when --------------------------------------------------------------------===//

  bool isEach(Operation *op) const {
    return microBatches.phaseOf(op) == MicroBatchPhase::Each && !MicroBatches::joins(op);
  }

  int32_t meshOf(Operation *op) const {
    return schedule.meshOf(std::max<int64_t>(0, stages.of(op)));
  }

  /// What is on no stage is made on every mesh that reads it.
  void findPlaces() {
    DenseSet<Operation *> beforeAll;
    for (Operation &op : llvm::reverse(block.without_terminator())) {
      llvm::SmallBitVector on(meshes.size());
      if (stages.of(&op) != Stages::kNone || meshes.size() == 1) {
        on.set(meshOf(&op));
      } else {
        for (Operation *user : op.getUsers())
          if (auto it = places.find(user); it != places.end() && !isa<TransferOp>(user))
            on |= it->second;
      }
      places[&op] = on;
      if (microBatches.phaseOf(&op) == MicroBatchPhase::Before &&
          llvm::any_of(op.getUsers(),
                       [&](Operation *user) { return isEach(user) || beforeAll.contains(user); }))
        beforeAll.insert(&op);
    }
    for (Operation &op : block.without_terminator()) {
      if (isEach(&op)) {
        inEach.push_back(&op);
        if (!isa<TransferOp>(op))
          for (unsigned mesh : places[&op].set_bits())
            rows[{rowStage(&op, mesh), phases.of(&op)}].push_back(&op);
        else if (Operation *producer = op.getOperand(0).getDefiningOp();
                 producer && stages.of(producer) != Stages::kNone)
          sent[{stages.of(producer), phases.of(producer)}].push_back(cast<TransferOp>(op));
      } else {
        (beforeAll.contains(&op) ? atStart : atEnd).push_back(&op);
      }
    }
  }

  /// A mesh that has several stages makes what is on none for the first of them.
  int64_t rowStage(Operation *op, unsigned mesh) const {
    return stages.of(op) == Stages::kNone ? mesh : stages.of(op);
  }

  //===-- Walks -----------------------------------------------------------------------------===//

  double readyUs(Operation *op) const {
    double us = 0;
    for (Value operand : op->getOperands())
      if (auto known = ready.find(operand); known != ready.end())
        us = std::max(us, known->second);
    return us;
  }

  void visit(Operation *op, int32_t mesh, Queues &queues, bool isFirst) {
    double start = readyUs(op);
    if (updates.contains(op))
      start = std::max(start, guardsUs(mesh));
    double end = start;
    // The first part of a sum is not added to anything.
    bool isAdded =
        isFirst && isa<BinaryOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
          return operand.getDefiningOp<CarriedOp>() != nullptr;
        });
    if (!free.contains(op) && !isAdded) {
      KernelTime::Parts parts = times[mesh].of(op, isFirst);
      double &collectives = isAlone[mesh] ? queues.computeUs : queues.collectiveUs;
      auto run = [&](double &queue, double us) {
        if (us > 0)
          end = queue = std::max(queue, end) + us;
      };
      run(queues.computeUs, parts.beforeUs);
      // It writes where kernels before it have read: bytes are reused.
      if (parts.collectiveUs > 0)
        end = std::max(end, queues.computeUs);
      run(collectives, parts.collectiveUs);
      run(queues.computeUs, parts.afterUs);
    }
    for (Value result : op->getResults())
      ready[result] = end;
  }

  double messageUs(int32_t from, int32_t to, Type type) const {
    auto tensor = cast<RankedTensorType>(type);
    // The few send to several each.
    double share = std::max(1.0, static_cast<double>(meshes[to].deviceCount()) /
                                     static_cast<double>(meshes[from].deviceCount()));
    int64_t near = meshes[from].devices.front(), far = meshes[to].devices.front();
    return ::autopar::collectiveTimeUs(
        ::autopar::CollectiveKind::Permute, share * static_cast<double>(bytesOf(tensor)),
        ::autopar::meshGroup(cluster,
                             std::vector<int64_t>{std::min(near, far), std::max(near, far)}));
  }

  /// When a mesh knows what its updates wait for.
  double guardsUs(int32_t mesh) const {
    double us = 0;
    for (Value guard : guards)
      us = std::max(us, knownUs(guard, mesh));
    return us;
  }
  double knownUs(Value metric, int32_t mesh) const {
    auto known = ready.find(metric);
    if (known == ready.end() || !metric.getDefiningOp())
      return 0;
    int32_t own = meshOf(metric.getDefiningOp());
    return known->second + (own == mesh ? 0 : messageUs(own, mesh, metric.getType()));
  }

  /// What runs once; values go from mesh to mesh as they are made.
  void walk(ArrayRef<Operation *> ops, std::vector<Queues> &queues) {
    for (Operation *op : ops) {
      if (auto transfer = dyn_cast<TransferOp>(op)) {
        int32_t to = schedule.meshOf(static_cast<int32_t>(transfer.getStage()));
        Operation *producer = transfer.getInput().getDefiningOp();
        double us = readyUs(op);
        if (producer && meshOf(producer) != to) {
          // Both sides have come here, and the messages before it are through.
          double &link = linkUs[{meshOf(producer), to}];
          us = link = std::max({us, link, queues[to].computeUs}) +
                      messageUs(meshOf(producer), to, transfer.getType());
          if (isAlone[to])
            queues[to].computeUs = us;
        }
        ready[transfer.getResult()] = us;
        continue;
      }
      for (unsigned mesh : places[op].set_bits())
        visit(op, mesh, queues[mesh], false);
    }
  }

  void copyState(Value value, std::vector<Queues> &queues) {
    int32_t mesh = meshOf(value.getDefiningOp());
    double &queue = queues[mesh].computeUs;
    queue = std::max(queue, ready.lookup(value)) + times[mesh].copyUs(tensorTypeOf(value));
  }

  double endOf(const std::vector<Queues> &queues) const {
    double end = 0;
    for (auto [mesh, own] : llvm::enumerate(queues)) {
      end = std::max(end, own.endUs());
      for (Value metric : metrics)
        end = std::max(end, knownUs(metric, mesh));
    }
    return end;
  }

  //===-- Rows of a schedule ----------------------------------------------------------------===//

  /// A row by itself: how long it takes, and when it has made all that it sends.
  struct RowTime {
    double us = 0, sentUs = 0;
  };

  RowTime timeOf(const ScheduleRow &row) {
    bool isFirst = row.microBatch == 0;
    auto [known, isNew] = rowTimes.try_emplace({row.stage, row.phase, isFirst});
    if (!isNew)
      return known->second;
    RowTime &time = known->second;
    ready.clear();
    Queues queues;
    int32_t mesh = schedule.meshOf(row.stage);
    for (Operation *op : rows[{row.stage, row.phase}])
      visit(op, mesh, queues, isFirst);
    time.us = queues.endUs();
    for (TransferOp transfer : sent[{row.stage, row.phase}])
      time.sentUs = std::max(time.sentUs, ready.lookup(transfer.getInput()));
    time.sentUs = std::min(time.sentUs, time.us);
    return time;
  }

  ::autopar::Status runRows(std::vector<Queues> &queues) {
    ::autopar::VirtualProgram program;
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
      program.queues.push_back("mesh " + std::to_string(mesh));
    std::map<std::pair<int32_t, int32_t>, int32_t> links;
    auto addTask = [&](int32_t queue, double us) {
      ::autopar::VirtualTask task;
      task.queues = {queue};
      task.durationUs = us;
      program.tasks.push_back(std::move(task));
      return static_cast<int32_t>(program.tasks.size()) - 1;
    };
    using Row = std::tuple<int32_t, int32_t, StagePhase>; // stage, micro-batch, phase
    struct RowTasks {
      int32_t begin, sends; ///< the task that begins it, and the one behind which it sends
    };
    std::map<Row, RowTasks> tasks;
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh) {
      addTask(mesh, queues[mesh].endUs());
      for (const ScheduleRow &row : schedule.rows[mesh]) {
        RowTime time = timeOf(row);
        int32_t begin = addTask(mesh, time.sentUs);
        tasks[{row.stage, row.microBatch, row.phase}] = {begin, begin};
        if (time.us > time.sentUs)
          addTask(mesh, time.us - time.sentUs);
      }
    }
    // Messages of a link in the order in which they are made.
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh)
      for (const ScheduleRow &row : schedule.rows[mesh])
        for (TransferOp transfer : sent[{row.stage, row.phase}]) {
          auto stage = static_cast<int32_t>(transfer.getStage());
          int32_t target = schedule.meshOf(stage);
          double us = target == static_cast<int32_t>(mesh)
                          ? 0
                          : messageUs(mesh, target, transfer.getType());
          std::set<int32_t> readers;
          for (Operation *user : transfer->getUsers())
            if (auto reader = tasks.find({stage, row.microBatch, phases.of(user)});
                reader != tasks.end())
              readers.insert(reader->second.begin);
          auto [link, isNew] =
              links.try_emplace({mesh, target}, static_cast<int32_t>(program.queues.size()));
          if (isNew) {
            program.queues.push_back("from " + std::to_string(mesh) + " to " +
                                     std::to_string(target));
            if (double before = linkUs[{mesh, target}]; before > 0)
              addTask(link->second, before);
          }
          int32_t message = addTask(link->second, isAlone[target] ? 0 : us);
          program.tasks[message].after.push_back(
              tasks.at({row.stage, row.microBatch, row.phase}).sends);
          for (int32_t reader : readers)
            program.tasks[reader].after.push_back(message);
          // What computes also takes what arrives.
          if (isAlone[target] && !readers.empty())
            program.tasks[*readers.begin()].durationUs += us;
        }
    auto run = ::autopar::runVirtualTime(program);
    if (!run)
      return run.status();
    ready.clear();
    for (size_t mesh = 0; mesh < meshes.size(); ++mesh) {
      double end = run->tasks[run->timelines[mesh].back()].endUs;
      queues[mesh] = {end, end};
    }
    linkUs.clear();
    return ::autopar::Status::ok();
  }

  func::FuncOp function;
  Block &block;
  const Schedule &schedule;
  std::vector<Mesh> meshes;
  const Cluster &cluster;
  MicroBatches microBatches;
  Stages stages;
  StagePhases phases;
  std::vector<KernelTime> times; ///< per mesh
  std::vector<char> isAlone;     ///< per mesh: its devices communicate while they do not compute
  DenseSet<Operation *> free, updates;
  SmallVector<Value> guards, metrics, copied;
  DenseMap<Operation *, llvm::SmallBitVector> places; ///< the meshes on which an operation runs
  std::vector<Operation *> atStart, inEach, atEnd;
  std::map<std::pair<int64_t, StagePhase>, std::vector<Operation *>> rows;
  std::map<std::pair<int64_t, StagePhase>, SmallVector<TransferOp>> sent;
  std::map<std::tuple<int32_t, StagePhase, bool>, RowTime> rowTimes;
  std::map<std::pair<int32_t, int32_t>, double>
      linkUs;                    ///< from mesh to mesh: until when it is busy
  DenseMap<Value, double> ready; ///< microseconds after the walk's begin
};

struct EvaluateStepPass : mlir::autopar::impl::EvaluateStepPassBase<EvaluateStepPass> {
  using Base::Base;

  void runOnOperation() override {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return;
    if (failed(evaluate(function)))
      signalPassFailure();
  }

private:
  std::vector<Mesh> meshesOf(int64_t devices) {
    std::vector<Mesh> meshes;
    for (MeshOp op : getOperation().getOps<MeshOp>()) {
      std::vector<::autopar::MeshAxis> axes;
      for (auto [name, size] : llvm::zip_equal(op.getAxes(), op.getSizes()))
        axes.push_back({cast<StringAttr>(name).str(), size});
      meshes.push_back(Mesh::over(op.getSymName().str(), axes));
      if (auto own = op.getDevices())
        meshes.back().devices.assign(own->begin(), own->end());
    }
    if (meshes.empty() && devices > 0)
      meshes.push_back(Mesh::over("mesh", {{"x", 1}}));
    return meshes;
  }

  LogicalResult evaluate(func::FuncOp function) {
    ::autopar::Result<Cluster> loaded = Cluster::load(cluster);
    if (!loaded)
      return function.emitOpError() << "cluster: " << loaded.status().message();
    ::autopar::Result<Schedule> schedule = scheduleOf(function);
    if (!schedule)
      return function.emitOpError() << schedule.status().message();
    std::vector<Mesh> meshes = meshesOf(loaded->deviceCount());
    if (static_cast<int32_t>(meshes.size()) != schedule->meshes)
      return function.emitOpError() << "has stages on " << schedule->meshes
                                    << " meshes, but the module declares " << meshes.size();
    for (const Mesh &mesh : meshes)
      if (::autopar::Status status = mesh.verify(*loaded); !status.isOk())
        return function.emitOpError() << status.message();
    ::autopar::Result<double> us =
        StepEvaluator(function, *schedule, std::move(meshes), *loaded, target == "cpu").stepUs();
    if (!us)
      return function.emitOpError() << us.status().message();
    getOperation()->setAttr(kStepTimeAttribute, Builder(&getContext()).getF64FloatAttr(*us));
    return success();
  }
};

} // namespace
