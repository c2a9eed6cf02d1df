// SPDX-License-Identifier: Apache-2.0
// The pass autopar-evaluate-step: how long a step of kernels takes, on the event engine. Without
// stages the whole step is walked; with stages each row of the schedule is one task, as long as a
// walk over its kernels says, and in two parts where something is sent before its end.
#include "KernelTime.h"
#include "OpTime.h"
#include "StepWork.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/VirtualTime/EventEngine.h"

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
      : schedule(schedule), meshes(std::move(meshes)), cluster(cluster), work(function, schedule) {
    for (const Mesh &mesh : this->meshes) {
      times.emplace_back(cluster, mesh, convolves);
      isAlone.push_back(cluster.slowestOf(mesh.devices).communicatesWhileIdle);
    }
  }

  ::autopar::Result<double> stepUs() {
    std::vector<Queues> queues(meshes.size());
    walk(work.atStart, queues);
    if (schedule.stages == 1) {
      for (int64_t i = 0; i < work.microBatches.count(); ++i)
        for (Operation *op : work.inEach)
          visit(op, 0, queues.front(), i == 0);
    } else {
      AUTOPAR_RETURN_IF_ERROR(runRows(queues));
    }
    walk(work.atEnd, queues);
    for (Value value : work.copied)
      copyState(value, queues);
    return endOf(queues);
  }

private:
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
    if (work.updates.contains(op))
      start = std::max(start, guardsUs(mesh));
    double end = start;
    // The first part of a sum is not added to anything.
    bool isAdded =
        isFirst && isa<BinaryOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
          return operand.getDefiningOp<CarriedOp>() != nullptr;
        });
    if (!work.free.contains(op) && !isAdded) {
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
    for (Value guard : work.guards)
      us = std::max(us, knownUs(guard, mesh));
    return us;
  }
  double knownUs(Value metric, int32_t mesh) const {
    auto known = ready.find(metric);
    if (known == ready.end() || !metric.getDefiningOp())
      return 0;
    int32_t own = work.meshOf(metric.getDefiningOp());
    return known->second + (own == mesh ? 0 : messageUs(own, mesh, metric.getType()));
  }

  /// What runs once; values go from mesh to mesh as they are made.
  void walk(ArrayRef<Operation *> ops, std::vector<Queues> &queues) {
    for (Operation *op : ops) {
      if (auto transfer = dyn_cast<TransferOp>(op)) {
        int32_t to = schedule.meshOf(static_cast<int32_t>(transfer.getStage()));
        Operation *producer = transfer.getInput().getDefiningOp();
        double us = readyUs(op);
        if (producer && work.meshOf(producer) != to) {
          // Both sides have come here, and the messages before it are through.
          double &link = linkUs[{work.meshOf(producer), to}];
          us = link = std::max({us, link, queues[to].computeUs}) +
                      messageUs(work.meshOf(producer), to, transfer.getType());
          if (isAlone[to])
            queues[to].computeUs = us;
        }
        ready[transfer.getResult()] = us;
        continue;
      }
      for (unsigned mesh : work.places[op].set_bits())
        visit(op, mesh, queues[mesh], false);
    }
  }

  void copyState(Value value, std::vector<Queues> &queues) {
    int32_t mesh = work.meshOf(value.getDefiningOp());
    double &queue = queues[mesh].computeUs;
    queue = std::max(queue, ready.lookup(value)) + times[mesh].copyUs(tensorTypeOf(value));
  }

  double endOf(const std::vector<Queues> &queues) const {
    double end = 0;
    for (auto [mesh, own] : llvm::enumerate(queues)) {
      end = std::max(end, own.endUs());
      for (Value metric : work.metrics)
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
    for (Operation *op : work.rows[{row.stage, row.phase}])
      visit(op, mesh, queues, isFirst);
    time.us = queues.endUs();
    for (TransferOp transfer : work.sent[{row.stage, row.phase}])
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
        for (TransferOp transfer : work.sent[{row.stage, row.phase}]) {
          auto stage = static_cast<int32_t>(transfer.getStage());
          int32_t target = schedule.meshOf(stage);
          double us = target == static_cast<int32_t>(mesh)
                          ? 0
                          : messageUs(mesh, target, transfer.getType());
          std::set<int32_t> readers;
          for (Operation *user : transfer->getUsers())
            if (auto reader = tasks.find({stage, row.microBatch, work.phases.of(user)});
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

  const Schedule &schedule;
  std::vector<Mesh> meshes;
  const Cluster &cluster;
  StepWork work;
  std::vector<KernelTime> times; ///< per mesh
  std::vector<char> isAlone;     ///< per mesh: its devices communicate while they do not compute
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
