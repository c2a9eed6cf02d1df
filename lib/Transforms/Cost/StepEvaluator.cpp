// SPDX-License-Identifier: Apache-2.0
// The walks over the kernels of a step; rows of a schedule are in StepRows.cpp.
#include "StepEvaluator.h"

#include "autopar/Transforms/EvaluateStep.h"
#include "autopar/Transforms/TransferRoute.h"

using namespace mlir;
using namespace mlir::autopar;

static void setTime(Operation *op, double us) {
  op->setDiscardableAttr(kOpTimeAttribute, Builder(op->getContext()).getF64FloatAttr(us));
}

StepEvaluator::StepEvaluator(StepOrder order, const ::autopar::Schedule &schedule,
                             std::vector<::autopar::Mesh> ownMeshes,
                             const ::autopar::Cluster &cluster, Target target, int64_t memoryLimit,
                             function_ref<KernelTime::Known &(size_t)> knownOf)
    : schedule(schedule), target(target), meshes(std::move(ownMeshes)), function(order.function),
      work(std::move(order), schedule), joined(function, work), meshLinks(meshes, cluster) {
  llvm::append_range(meshOps, function->getParentOfType<ModuleOp>().getOps<MeshOp>());
  for (auto [number, mesh] : llvm::enumerate(meshes)) {
    times.emplace_back(cluster, mesh, /*convolves=*/target == Target::Cpu, &knownOf(number));
    const ::autopar::DeviceType &device = cluster.slowestOf(mesh.devices);
    isAlone.push_back(device.communicatesWhileIdle);
    hosts.emplace_back(device.hostLink);
  }
  if (target == Target::Cuda)
    joinLaunches();
  // Rows are timed one by one, and recorded apart.
  if (target == Target::Cuda && schedule.stages == 1)
    recorded.emplace();
  memoryBytes = memoryLimit > 0 ? memoryLimit : cluster.usableBytes(meshes.front().devices);
}

::autopar::Result<double> StepEvaluator::stepUs() {
  std::vector<Queues> queues(meshes.size());
  planHosts();
  overlapped = OverlappedCollectives::find(work, schedule, times);
  walk(work.atStart, queues);
  if (schedule.stages == 1) {
    auto visitAll = [&](ArrayRef<Operation *> ops) {
      for (Operation *op : ops)
        visit(op, 0, queues.front(), /*isFirst=*/false);
    };
    for (int64_t i = 0, last = work.microBatches.count() - 1; i <= last; ++i) {
      for (Operation *op : work.inEach) {
        if (i == 0)
          visitAll(overlapped.front().beforeFirst(op));
        visit(op, 0, queues.front(), i == 0);
        if (i == last)
          visitAll(overlapped.front().behindLast(op));
      }
      finishParts(queues.front());
    }
  } else {
    AUTOPAR_RETURN_IF_ERROR(runRows(queues));
  }
  walk(updatesLast(work.atEnd), queues);
  for (auto [value, isStored] : work.copiedStates())
    copyState(value, isStored, queues);
  return endOf(queues) - (recorded ? recorded->filledUs(memoryBytes) : 0);
}

/// Meshes hear what guards their state behind all that they compute, and only then change it
/// (autopar-mark-instructions).
std::vector<Operation *> StepEvaluator::updatesLast(ArrayRef<Operation *> ops) const {
  if (schedule.stages == 1 || work.guards.empty())
    return ops.vec();
  std::vector<Operation *> others;
  llvm::SetVector<Operation *> last;
  for (Operation *op : ops) {
    bool readsUpdated = llvm::any_of(
        op->getOperands(), [&](Value operand) { return last.contains(operand.getDefiningOp()); });
    if (readsUpdated || work.inPlace.contains(op))
      last.insert(op);
    else
      others.push_back(op);
  }
  llvm::append_range(others, last);
  return others;
}

void StepEvaluator::joinLaunches() {
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

void StepEvaluator::planHosts() {
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

double StepEvaluator::readyUs(Operation *op) const {
  double us = 0;
  for (Value operand : op->getOperands())
    if (auto known = ready.find(operand); known != ready.end())
      us = std::max(us, known->second);
  return us;
}

void StepEvaluator::visit(Operation *op, int32_t mesh, Queues &queues, bool isFirst) {
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
  bool isAdded = isFirst && isa<BinaryOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
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
double StepEvaluator::putInOrder(Value value, double us, Queues &queues) {
  queues.computeUs = std::max(queues.computeUs, ready.lookup(value)) + us;
  queues.busyUs += us;
  return ready[value] = queues.computeUs;
}

void StepEvaluator::finishParts(Queues &queues) {
  late.finish([&](Value value, double us) {
    putInOrder(value, us, queues);
    if (recorded)
      recorded->putInOrder(value, value, us);
  });
}

/// Beside what computes, one after the other.
void StepEvaluator::copyActivation(Operation *op, int32_t mesh, double &queueUs) {
  auto bytes = static_cast<double>(tensorBytes(tensorTypeOf(op->getResult(0))));
  queueUs = std::max(queueUs, readyUs(op)) + hosts[mesh].copyUs(bytes);
  ready[op->getResult(0)] = queueUs;
}

const MeshMessage &StepEvaluator::messageOf(int32_t from, int32_t to, TransferOp transfer) {
  auto [known, isNew] = messages.try_emplace(transfer);
  if (isNew) {
    known->second = newMessage(from, to, transfer);
    setTime(transfer, known->second.us());
  }
  return known->second;
}

MeshMessage StepEvaluator::newMessage(int32_t from, int32_t to, TransferOp transfer) {
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
double StepEvaluator::guardsUs(int32_t mesh) {
  double us = 0;
  for (Value guard : work.guards)
    us = std::max(us, knownUs(guard, mesh));
  return us;
}

double StepEvaluator::knownUs(Value metric, int32_t mesh) {
  auto known = ready.find(metric);
  if (known == ready.end() || !metric.getDefiningOp())
    return 0;
  int32_t own = work.meshOf(metric.getDefiningOp());
  if (own == mesh)
    return known->second;
  return known->second +
         meshLinks.message(own, mesh, static_cast<double>(tensorBytes(tensorTypeOf(metric)))).us();
}

/// What runs once; values go from mesh to mesh as they are made.
void StepEvaluator::walk(ArrayRef<Operation *> ops, std::vector<Queues> &queues) {
  for (Operation *op : ops) {
    if (auto transfer = dyn_cast<TransferOp>(op)) {
      int32_t to = schedule.meshOf(static_cast<int32_t>(transfer.getStage()));
      double us = readyUs(op);
      if (int32_t from = work.senderOf(transfer); from >= 0 && from != to) {
        const MeshMessage &message = messageOf(from, to, transfer);
        early.push_back({transfer, from, us});
        arriving[transfer.getResult()] = {transfer};
        // Both sides have come here, and the messages before it are through. What is received
        // behind the rows is asked for when they are over, whatever waits there.
        double &link = linkUs[{from, to}];
        double here = rowsAreOver ? queues[to].rowsEndUs : queues[to].computeUs;
        double begin = std::max({us, link, here});
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
      if (overlapped[mesh].contains(op))
        continue;
      visit(op, mesh, queues[mesh], false);
      finishParts(queues[mesh]); // others read them on every mesh
    }
  }
}

/// What is read where it lies arrives with what it is read from.
void StepEvaluator::passOn(Operation *op) {
  if (!work.free.contains(op))
    return;
  for (Value operand : op->getOperands())
    if (auto known = arriving.find(operand); known != arriving.end()) {
      SmallVector<Operation *, 1> transfers = known->second;
      for (Value result : op->getResults())
        arriving[result].append(transfers);
    }
}

void StepEvaluator::copyState(Value value, bool isStored, std::vector<Queues> &queues) {
  int32_t mesh = work.meshOf(value.getDefiningOp());
  double &queue = queues[mesh].computeUs;
  queue = std::max(queue, ready.lookup(value)) + times[mesh].copyUs(tensorTypeOf(value));
  if (isStored)
    hosts[mesh].store(tensorBytes(tensorTypeOf(value)), queue);
}

double StepEvaluator::endOf(const std::vector<Queues> &queues) {
  double end = 0;
  for (auto [mesh, own] : llvm::enumerate(queues)) {
    end = std::max({end, own.endUs(), hosts[mesh].endUs()});
    for (Value metric : work.metrics)
      end = std::max(end, knownUs(metric, mesh));
  }
  return end;
}
