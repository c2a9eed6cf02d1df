// SPDX-License-Identifier: Apache-2.0
// The pass autopar-evaluate-step: how long a step of kernels takes, on the event engine. Without
// stages the whole step is walked; with stages each row of the schedule is as long as a walk over
// its kernels says, in parts where something arrives behind its beginning or is sent before its
// end.
#include "HostTraffic.h"
#include "JoinedLaunches.h"
#include "KnownTimes.h"
#include "MeshLinks.h"
#include "ModuleCluster.h"
#include "PartsInOrder.h"
#include "RecordedStep.h"
#include "RowProgram.h"
#include "RowsTogether.h"
#include "StepWork.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/Transforms/TransferRoute.h"

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

/// The compute queue, the collectives, and the activations that go to the host and back of a mesh,
/// as far as a walk has come.
struct Queues {
  double computeUs = 0, collectiveUs = 0, toHostUs = 0, fromHostUs = 0;
  double busyUs = 0; ///< of `computeUs`, in which something runs
  double endUs() const { return std::max({computeUs, collectiveUs, toHostUs, fromHostUs}); }
};

class StepEvaluator {
public:
  StepEvaluator(StepOrder order, const Schedule &schedule, std::vector<Mesh> meshes,
                const Cluster &cluster, Target target,
                function_ref<KernelTime::Known &(size_t)> knownOf)
      : schedule(schedule), meshes(std::move(meshes)), function(order.function),
        work(std::move(order), schedule), joined(function, work), meshLinks(this->meshes, cluster) {
    llvm::append_range(meshOps, function->getParentOfType<ModuleOp>().getOps<MeshOp>());
    for (auto [number, mesh] : llvm::enumerate(this->meshes)) {
      times.emplace_back(cluster, mesh, /*convolves=*/target == Target::Cpu, &knownOf(number));
      const ::autopar::DeviceType &device = cluster.slowestOf(mesh.devices);
      isAlone.push_back(device.communicatesWhileIdle);
      hosts.emplace_back(device.hostLink);
    }
    if (target == Target::Cuda)
      joinLaunches();
    // Rows are timed one by one: nobody knows there what goes from one to the next.
    if (target == Target::Cuda && schedule.stages == 1)
      recorded.emplace();
    memoryBytes = cluster.slowestOf(this->meshes.front().devices).memoryBytes;
  }

  /// What each mesh works in the rows of the step; empty without stages.
  ArrayRef<double> meshUs() const { return rowsUs; }
  /// The most that one of them waits in its rows.
  double rowWaitsUs() const {
    return waitsUs.empty() ? 0 : *std::max_element(waitsUs.begin(), waitsUs.end());
  }

  ::autopar::Result<double> stepUs() {
    std::vector<Queues> queues(meshes.size());
    planHosts();
    walk(work.atStart, queues);
    if (schedule.stages == 1) {
      for (int64_t i = 0; i < work.microBatches.count(); ++i) {
        for (Operation *op : work.inEach)
          visit(op, 0, queues.front(), i == 0);
        finishParts(queues.front());
      }
    } else {
      AUTOPAR_RETURN_IF_ERROR(runRows(queues));
    }
    walk(work.atEnd, queues);
    for (auto [value, isStored] : work.copiedStates())
      copyState(value, isStored, queues);
    return endOf(queues) - (recorded ? recorded->filledUs(memoryBytes) : 0);
  }

private:
  void joinLaunches() {
    for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh)
      for (const std::vector<Operation *> *part : {&work.atStart, &work.atEnd})
        joined.find(llvm::filter_to_vector(*part, [&](Operation *op) {
          return work.places.lookup(op).size() && work.places[op].test(mesh);
        }));
    if (schedule.stages == 1)
      joined.find(work.inEach);
    for (auto &[part, ops] : work.rows)
      if (schedule.stages > 1)
        joined.find(ops);
  }

  void planHosts() {
    auto isUpdate = [&](Operation *op) { return work.updates.contains(op); };
    for (auto [mesh, host] : llvm::enumerate(hosts)) {
      std::vector<Operation *> ops;
      for (const std::vector<Operation *> *part : {&work.atStart, &work.inEach, &work.atEnd})
        llvm::copy_if(*part, std::back_inserter(ops), [&](Operation *op) {
          auto place = work.places.find(op);
          return place != work.places.end() && place->second.test(mesh);
        });
      host.plan(ops, isUpdate);
    }
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
    if (isa<StoreOnHostOp, FetchFromHostOp>(op))
      return copyActivation(op, mesh, isa<StoreOnHostOp>(op) ? queues.toHostUs : queues.fromHostUs);
    if (work.free.contains(op))
      late.passOn(op);
    else
      late.read(op, [&](Value operand, Value value, double us) {
        ready[operand] = putInOrder(value, us, queues);
        if (recorded)
          recorded->putInOrder(operand, value, us);
      });
    double start = readyUs(op);
    if (work.updates.contains(op))
      start = std::max(start, guardsUs(mesh));
    if (!work.free.contains(op))
      start = std::max(start, hosts[mesh].fetch(op, queues.computeUs));
    double end = start;
    // The first part of a sum is not added to anything.
    bool isAdded =
        isFirst && isa<BinaryOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
          return operand.getDefiningOp<CarriedOp>() != nullptr;
        });
    if (!work.free.contains(op) && !isAdded) {
      KernelTime::Parts parts = times[mesh].of(op, isFirst);
      if (!isFirst || !op->getDiscardableAttr(kOpTimeAttribute))
        setTime(op, parts.collectiveUs > 0 ? parts.collectiveUs : parts.sum());
      if (joined.contains(op))
        parts.beforeUs -= times[mesh].launchUs();
      double &collectives =
          isAlone[mesh] && !parts.spansNodes ? queues.computeUs : queues.collectiveUs;
      auto run = [&](double &queue, double us) {
        if (us > 0)
          end = queue = std::max(queue, end) + us;
        if (&queue == &queues.computeUs)
          queues.busyUs += us;
      };
      run(queues.computeUs, parts.beforeUs);
      // It writes where kernels before it have read: bytes are reused.
      if (parts.collectiveUs > 0)
        end = std::max(end, queues.computeUs);
      run(collectives, parts.collectiveUs);
      bool isBeside = &collectives != &queues.computeUs && parts.collectiveUs > 0;
      if (isBeside)
        queues.computeUs += parts.lossUs;
      if (isBeside && parts.afterUs > 0)
        late.wait(op->getResult(0), std::exchange(parts.afterUs, 0));
      run(queues.computeUs, parts.afterUs);
      hosts[mesh].store(op, end);
      if (recorded)
        recorded->add(op, parts, &collectives == &queues.computeUs, work.updates.contains(op));
    } else if (recorded) {
      recorded->pass(op);
    }
    for (Value result : op->getResults())
      ready[result] = end;
  }

  /// Runs the kernel that puts a collective's parts in order; returns its end.
  double putInOrder(Value value, double us, Queues &queues) {
    queues.computeUs = std::max(queues.computeUs, ready.lookup(value)) + us;
    queues.busyUs += us;
    return ready[value] = queues.computeUs;
  }
  void finishParts(Queues &queues) {
    late.finish([&](Value value, double us) {
      putInOrder(value, us, queues);
      if (recorded)
        recorded->putInOrder(value, value, us);
    });
  }

  static void setTime(Operation *op, double us) {
    op->setDiscardableAttr(kOpTimeAttribute, Builder(op->getContext()).getF64FloatAttr(us));
  }

  /// Beside what computes, one after the other.
  void copyActivation(Operation *op, int32_t mesh, double &queueUs) {
    auto bytes = static_cast<double>(tensorBytes(tensorTypeOf(op->getResult(0))));
    queueUs = std::max(queueUs, readyUs(op)) + hosts[mesh].copyUs(bytes);
    ready[op->getResult(0)] = queueUs;
  }

  const MeshMessage &messageOf(int32_t from, int32_t to, TransferOp transfer) {
    auto [known, isNew] = messages.try_emplace(transfer);
    if (isNew) {
      known->second = newMessage(from, to, transfer);
      setTime(transfer, known->second.us());
    }
    return known->second;
  }

  MeshMessage newMessage(int32_t from, int32_t to, TransferOp transfer) {
    auto bytes = static_cast<double>(tensorBytes(transfer.getType()));
    if (!transfer.getFrom())
      return meshLinks.message(from, to, bytes, 1, 1);
    // What was partitioned has a route.
    TransferRoute route = *transferRoute(transfer, meshOps[from], meshOps[to]);
    auto receives = static_cast<double>(route.receives.size());
    int64_t sends = 1; // at most, of a rank
    for (int64_t rank = 0; rank < meshes[from].deviceCount(); ++rank)
      sends = std::max<int64_t>(sends, llvm::count_if(route.sends, [&](const auto &message) {
                                  return message.peers[rank] >= 0;
                                }));
    return meshLinks.message(from, to, bytes / receives, static_cast<double>(sends), receives);
  }

  /// When a mesh knows what its updates wait for.
  double guardsUs(int32_t mesh) {
    double us = 0;
    for (Value guard : work.guards)
      us = std::max(us, knownUs(guard, mesh));
    return us;
  }
  double knownUs(Value metric, int32_t mesh) {
    auto known = ready.find(metric);
    if (known == ready.end() || !metric.getDefiningOp())
      return 0;
    int32_t own = work.meshOf(metric.getDefiningOp());
    if (own == mesh)
      return known->second;
    return known->second +
           meshLinks.message(own, mesh, static_cast<double>(tensorBytes(tensorTypeOf(metric))))
               .us();
  }

  /// What runs once; values go from mesh to mesh as they are made.
  void walk(ArrayRef<Operation *> ops, std::vector<Queues> &queues) {
    for (Operation *op : ops) {
      if (auto transfer = dyn_cast<TransferOp>(op)) {
        int32_t to = schedule.meshOf(static_cast<int32_t>(transfer.getStage()));
        double us = readyUs(op);
        if (int32_t from = work.senderOf(transfer); from >= 0 && from != to) {
          const MeshMessage &message = messageOf(from, to, transfer);
          early.push_back({transfer, from, us});
          arriving[transfer.getResult()] = {transfer};
          // Both sides have come here, and the messages before it are through.
          double &link = linkUs[{from, to}];
          double begin = std::max({us, link, queues[to].computeUs});
          us = begin + message.us();
          link = begin + message.bytesUs();
          if (isAlone[to] && !message.spansNodes)
            link = queues[to].computeUs = us;
          for (int32_t mesh : {from, to}) // those before the rows go on beside them
            if (isAlone[mesh] && rowsAreOver)
              queues[mesh].computeUs += message.lossUs(mesh == to);
        }
        ready[transfer.getResult()] = us;
        continue;
      }
      passOn(op);
      for (unsigned mesh : work.places[op].set_bits()) {
        visit(op, mesh, queues[mesh], false);
        finishParts(queues[mesh]); // others read them on every mesh
      }
    }
  }

  /// What is read where it lies arrives with what it is read from.
  void passOn(Operation *op) {
    if (!work.free.contains(op))
      return;
    for (Value operand : op->getOperands())
      if (auto known = arriving.find(operand); known != arriving.end()) {
        SmallVector<Operation *, 1> transfers = known->second;
        for (Value result : op->getResults())
          arriving[result].append(transfers);
      }
  }

  void copyState(Value value, bool isStored, std::vector<Queues> &queues) {
    int32_t mesh = work.meshOf(value.getDefiningOp());
    double &queue = queues[mesh].computeUs;
    queue = std::max(queue, ready.lookup(value)) + times[mesh].copyUs(tensorTypeOf(value));
    if (isStored)
      hosts[mesh].store(tensorBytes(tensorTypeOf(value)), queue);
  }

  double endOf(const std::vector<Queues> &queues) {
    double end = 0;
    for (auto [mesh, own] : llvm::enumerate(queues)) {
      end = std::max({end, own.endUs(), hosts[mesh].endUs()});
      for (Value metric : work.metrics)
        end = std::max(end, knownUs(metric, mesh));
    }
    return end;
  }

  //===-- Rows of a schedule ----------------------------------------------------------------===//

  /// A row by itself, or two together: how long that takes, and what they read or have made that is
  /// sent, by time.
  struct RowTime {
    struct Mark {
      double us;
      Operation *transfer;
      size_t row; ///< 0, or 1 of the second of two
      bool isSent;
      size_t number = 0; ///< in the order of the program
    };
    double us = 0, waitUs = 0; ///< the second: no kernel runs
    SmallVector<Mark> marks;
  };

  const RowTime &timeOf(ArrayRef<ScheduleRow> together) {
    SmallVector<RowKey, 2> key;
    for (const ScheduleRow &row : together)
      key.push_back({row.stage, row.phase, row.microBatch == 0});
    auto [known, isNew] = rowTimes.try_emplace(std::move(key));
    if (isNew)
      known->second = newTimeOf(together);
    return known->second;
  }

  std::vector<RowsTogether::Place> orderOf(ArrayRef<ScheduleRow> together, int32_t mesh) {
    auto opsOf = [&](const ScheduleRow &row) -> ArrayRef<Operation *> {
      return work.rows[{row.stage, row.phase}];
    };
    if (together.size() == 2)
      return RowsTogether(work, times[mesh]).order(opsOf(together[0]), opsOf(together[1])).vec();
    std::vector<RowsTogether::Place> order;
    for (Operation *op : opsOf(together.front()))
      order.emplace_back(op, 0);
    return order;
  }

  RowTime newTimeOf(ArrayRef<ScheduleRow> together) {
    RowTime time;
    // What one row makes is not what the other reads: they are of different micro-batches.
    struct Values {
      DenseMap<Value, double> ready;
      PartsInOrder late;
      DenseSet<Operation *> read;
    };
    Values values[2];
    size_t current = 0;
    auto turnTo = [&](size_t row) {
      if (row == current)
        return;
      std::swap(ready, values[current].ready);
      std::swap(late, values[current].late);
      current = row;
      std::swap(ready, values[current].ready);
      std::swap(late, values[current].late);
    };
    ready.clear();
    Queues queues;
    int32_t mesh = schedule.meshOf(together.front().stage);
    for (auto [op, row] : orderOf(together, mesh)) {
      turnTo(row);
      passOn(op);
      if (!work.free.contains(op))
        for (Value operand : op->getOperands())
          for (Operation *transfer : arriving.lookup(operand))
            if (values[row].read.insert(transfer).second)
              time.marks.push_back(
                  {std::max(queues.computeUs, readyUs(op)), transfer, row, /*isSent=*/false});
      visit(op, mesh, queues, together[row].microBatch == 0);
    }
    for (auto [row, one] : llvm::enumerate(together)) {
      turnTo(row);
      finishParts(queues);
    }
    time.us = queues.endUs();
    time.waitUs = time.us - queues.busyUs;
    for (auto [row, one] : llvm::enumerate(together)) {
      turnTo(row);
      for (TransferOp transfer : work.sent[{one.stage, one.phase}])
        if (schedule.meshOf(static_cast<int32_t>(transfer.getStage())) != mesh)
          time.marks.push_back({std::min(time.us, ready.lookup(transfer.getInput())), transfer, row,
                                /*isSent=*/true});
    }
    for (auto [number, mark] : llvm::enumerate(time.marks))
      mark.number = number;
    llvm::sort(time.marks, [](const RowTime::Mark &a, const RowTime::Mark &b) {
      return std::make_tuple(a.us, a.isSent, a.number) < std::make_tuple(b.us, b.isSent, b.number);
    });
    return time;
  }

  ::autopar::Status runRows(std::vector<Queues> &queues) {
    for (auto &[part, transfers] : work.sent)
      for (TransferOp transfer : transfers)
        if (schedule.meshOf(part.first) !=
            schedule.meshOf(static_cast<int32_t>(transfer.getStage())))
          arriving[transfer.getResult()] = {transfer};
    RowProgram rows(isAlone, meshLinks.ports());
    waitsUs.assign(meshes.size(), 0);
    for (const Early &one : early) {
      int32_t after = one.atUs > 0 ? rows.addTask(rows.addQueue("before a message"), one.atUs,
                                                  "before a message")
                                   : -1;
      rows.messages.push_back({{one.transfer, RowProgram::kOnce}, one.from, after});
    }
    for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
      rows.addTask(mesh, queues[mesh].endUs(), "what runs before");
      ArrayRef<ScheduleRow> left = schedule.rows[mesh];
      while (!left.empty()) {
        size_t count = left.front().withNext ? 2 : 1;
        addRows(rows, mesh, left.take_front(count));
        left = left.drop_front(count);
      }
    }
    for (const RowProgram::Message &sent : rows.messages) {
      auto transfer = cast<TransferOp>(sent.sent.first);
      int32_t to = schedule.meshOf(static_cast<int32_t>(transfer.getStage()));
      rows.carry(sent, to, messageOf(sent.from, to, transfer), getOpId(transfer));
    }
    auto run = ::autopar::runVirtualTime(rows.program);
    if (!run)
      return run.status();
    rowsUs.assign(meshes.size(), 0);
    for (const ::autopar::VirtualTask &task : rows.program.tasks)
      if (int32_t queue = task.queues.front(); queue < schedule.meshes)
        rowsUs[queue] += task.durationUs;
    ready.clear();
    for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
      double end = run->tasks[run->timelines[mesh].back()].endUs;
      queues[mesh] = {end, end};
    }
    linkUs.clear();
    early.clear();
    rowsAreOver = true;
    return ::autopar::Status::ok();
  }

  /// A row, or two together, is cut into tasks where it reads what arrives or has made what is
  /// sent.
  void addRows(RowProgram &rows, int32_t mesh, ArrayRef<ScheduleRow> together) {
    const RowTime &time = timeOf(together);
    waitsUs[mesh] += time.waitUs;
    std::string name;
    for (const ScheduleRow &row : together)
      name += (name.empty() ? "" : " with ") + std::string(::autopar::name(row.phase)) +
              " of stage " + std::to_string(row.stage) + ", micro-batch " +
              std::to_string(row.microBatch);
    int32_t task = rows.addTask(mesh, 0, name);
    double us = 0;
    bool isOver = false; ///< something is sent at the task's end
    auto reach = [&](double next) {
      if (std::exchange(isOver, false))
        task = rows.addTask(mesh, 0, name);
      rows.program.tasks[task].durationUs += next - us;
      us = next;
    };
    for (const RowTime::Mark &mark : time.marks) {
      bool isOnce =
          llvm::any_of(early, [&](const Early &one) { return one.transfer == mark.transfer; });
      int32_t microBatch = together[mark.row].microBatch;
      if (isOnce && microBatch > 0)
        continue; // there since the first
      RowProgram::Sent sent{mark.transfer, isOnce ? RowProgram::kOnce : microBatch};
      reach(mark.us);
      if (mark.isSent) {
        rows.messages.push_back({sent, mesh, task});
        isOver = true;
        continue;
      }
      if (rows.program.tasks[task].durationUs > 0)
        task = rows.addTask(mesh, 0, name);
      rows.read(sent, task);
    }
    reach(time.us);
  }

  const Schedule &schedule;
  std::vector<Mesh> meshes;
  func::FuncOp function;
  StepWork work;
  JoinedLaunches joined;
  MeshLinks meshLinks;
  DenseMap<Operation *, MeshMessage> messages;
  SmallVector<MeshOp> meshOps;    ///< of the module
  std::vector<KernelTime> times;  ///< per mesh
  std::vector<HostTraffic> hosts; ///< per mesh
  std::vector<char> isAlone;      ///< per mesh: its devices move bytes of a node while idle only
  /// Sent once, before the rows.
  struct Early {
    TransferOp transfer;
    int32_t from;
    double atUs;
  };
  std::vector<Early> early;
  DenseMap<Value, SmallVector<Operation *, 1>> arriving; ///< the transfers that bring a value
  using RowKey = std::tuple<int32_t, StagePhase, bool>;  ///< stage, and whether micro-batch 0
  std::map<SmallVector<RowKey, 2>, RowTime> rowTimes;
  std::map<std::pair<int32_t, int32_t>, double>
      linkUs;                    ///< from mesh to mesh: until when it is busy
  DenseMap<Value, double> ready; ///< microseconds after the walk's begin
  PartsInOrder late;             ///< what collectives have left to others
  std::vector<double> rowsUs;    ///< per mesh
  std::vector<double> waitsUs;   ///< the same: rows in which no kernel runs
  bool rowsAreOver = false;
  std::optional<RecordedStep> recorded;
  int64_t memoryBytes = 0; ///< of the first mesh's smallest device
};

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
                            knownOf);
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
