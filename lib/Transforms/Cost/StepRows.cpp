// SPDX-License-Identifier: Apache-2.0
// The rows of a schedule, on the event engine: a row is timed by a walk of its own, once for all
// micro-batches that are alike.
#include "StepEvaluator.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::ScheduleRow;

double StepEvaluator::rowWaitsUs() const {
  return waitsUs.empty() ? 0 : *std::max_element(waitsUs.begin(), waitsUs.end());
}

bool StepEvaluator::endsWithSums(const ScheduleRow &row) const {
  int32_t mesh = schedule.meshOf(row.stage);
  return overlapped[mesh].isAnyBehindLast() && row == schedule.rows[mesh].back();
}

const StepEvaluator::RowTime &StepEvaluator::timeOf(ArrayRef<ScheduleRow> together) {
  SmallVector<RowKey, 2> key;
  for (const ScheduleRow &row : together)
    key.push_back({row.stage, row.phase, row.microBatch == 0, endsWithSums(row)});
  auto [known, isNew] = rowTimes.try_emplace(std::move(key));
  if (isNew)
    known->second = newTimeOf(together);
  return known->second;
}

std::vector<RowsTogether::Place> StepEvaluator::orderOf(ArrayRef<ScheduleRow> together,
                                                        int32_t mesh) {
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

StepEvaluator::RowTime StepEvaluator::newTimeOf(ArrayRef<ScheduleRow> together) {
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
    if (recorded)
      recorded->turnTo(together[row].microBatch);
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
  if (together.front() == schedule.rows[mesh].front()) {
    queues.collectiveUs = begun[mesh].us;
    ready = begun[mesh].ready;
  }
  bool isLast = endsWithSums(together.back());
  double ownUs = 0; // until when a row itself goes on
  auto sent = [&](size_t row) -> ArrayRef<TransferOp> {
    return work.sent[{together[row].stage, together[row].phase}];
  };
  auto isForOthers = [&](TransferOp transfer) {
    return schedule.meshOf(static_cast<int32_t>(transfer.getStage())) != mesh;
  };
  for (auto [op, row] : orderOf(together, mesh)) {
    turnTo(row);
    if (together[row].microBatch == 0)
      for (Operation *gather : overlapped[mesh].beforeFirst(op))
        visit(gather, mesh, queues, /*isFirst=*/false);
    passOn(op);
    if (!work.free.contains(op))
      for (Value operand : op->getOperands())
        for (Operation *transfer : arriving.lookup(operand))
          if (values[row].read.insert(transfer).second)
            time.marks.push_back(
                {std::max(queues.computeUs, readyUs(op)), transfer, row, /*isSent=*/false});
    visit(op, mesh, queues, together[row].microBatch == 0);
    for (Value result : op->getResults())
      ownUs = std::max(ownUs, ready.lookup(result));
    if (recorded)
      for (TransferOp transfer : sent(row))
        if (isForOthers(transfer) && transfer.getInput().getDefiningOp() == op)
          recorded->send(transfer.getInput());
    if (isLast)
      for (Operation *sum : overlapped[mesh].behindLast(op)) {
        visit(sum, mesh, queues, /*isFirst=*/false);
        Value result = sum->getResult(0);
        time.behind.push_back({sum, ready.lookup(result), late.take(result)});
      }
  }
  for (auto [row, one] : llvm::enumerate(together)) {
    turnTo(row);
    finishParts(queues);
  }
  time.us = isLast ? std::max({ownUs, queues.computeUs, queues.toHostUs, queues.fromHostUs})
                   : queues.endUs();
  for (RowTime::Behind &sum : time.behind)
    sum.us -= time.us;
  time.waitUs = time.us - queues.busyUs;
  for (auto [row, one] : llvm::enumerate(together)) {
    turnTo(row);
    for (TransferOp transfer : sent(row))
      if (isForOthers(transfer))
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

/// How many rows of a mesh are recorded that stand for all: those half way, where all kinds take
/// turns.
static constexpr size_t kMostRecorded = 16;

/// Which part of its rows a mesh saves where kernels fill the waits of others, of any row.
double StepEvaluator::savedShare(int32_t mesh) {
  if (target != Target::Cuda)
    return 0;
  HostTraffic host = hosts[mesh];
  recorded.emplace();
  double us = 0;
  ArrayRef<ScheduleRow> rows = schedule.rows[mesh];
  size_t most = std::min(rows.size(), kMostRecorded), first = (rows.size() - most) / 2;
  if (first > 0 && rows[first - 1].withNext)
    --first;
  for (size_t row = first, count = 1; row < first + most; row += count) {
    count = rows[row].withNext ? 2 : 1;
    us += newTimeOf(rows.slice(row, count)).us;
  }
  double savedUs = recorded->filledUs(memoryBytes);
  recorded.reset();
  hosts[mesh] = std::move(host);
  return us > 0 ? std::min(savedUs / us, 1.0) : 0;
}

::autopar::Status StepEvaluator::runRows(std::vector<Queues> &queues) {
  for (auto &[part, transfers] : work.sent)
    for (TransferOp transfer : transfers)
      if (schedule.meshOf(part.first) != schedule.meshOf(static_cast<int32_t>(transfer.getStage())))
        arriving[transfer.getResult()] = {transfer};
  goOnInRows(queues);
  RowProgram rows(isAlone, meshLinks.ports());
  waitsUs.assign(meshes.size(), 0);
  for (const Early &one : early) {
    int32_t after =
        one.atUs > 0 ? rows.addTask(rows.addQueue("before a message"), one.atUs, "before a message")
                     : -1;
    rows.messages.push_back({{one.transfer, RowProgram::kOnce}, one.from, after});
  }
  for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
    rows.addTask(mesh, queues[mesh].computeUs, "what runs before");
    ArrayRef<ScheduleRow> left = schedule.rows[mesh];
    double share = 1 - savedShare(mesh);
    while (!left.empty()) {
      size_t count = left.front().withNext ? 2 : 1;
      addRows(rows, mesh, left.take_front(count), share);
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
    queues[mesh].rowsEndUs = end;
    goOnBehindRows(mesh, queues[mesh]);
  }
  linkUs.clear();
  early.clear();
  rowsAreOver = true;
  return ::autopar::Status::ok();
}

/// What the first row of a mesh waits for where it reads it.
void StepEvaluator::goOnInRows(const std::vector<Queues> &queues) {
  begun.assign(meshes.size(), Begun());
  for (auto [mesh, own] : llvm::enumerate(begun)) {
    double beginUs = std::max(queues[mesh].computeUs, overlapped[mesh].arrivesUs());
    own.us = std::max(0.0, queues[mesh].collectiveUs - beginUs);
    for (auto [value, us] : ready) {
      Operation *op = value.getDefiningOp();
      bool isMadeHere = op && work.places.lookup(op).test(mesh) && !arriving.contains(value);
      if (isMadeHere && us > beginUs)
        own.ready[value] = us - beginUs;
    }
  }
}

/// Sums that have begun beside the last row.
void StepEvaluator::goOnBehindRows(int32_t mesh, Queues &queues) {
  ScheduleRow last = schedule.rows[mesh].back();
  if (!endsWithSums(last))
    return;
  for (auto [sum, us, orderUs] : timeOf(last).behind) {
    ready[sum->getResult(0)] = queues.computeUs + us;
    queues.collectiveUs = std::max(queues.collectiveUs, queues.computeUs + us);
    if (orderUs > 0)
      late.wait(sum->getResult(0), orderUs);
  }
}

/// A row, or two together, is cut into tasks where it reads what arrives or has made what is
/// sent. `share`: of its time that it takes.
void StepEvaluator::addRows(RowProgram &rows, int32_t mesh, ArrayRef<ScheduleRow> together,
                            double share) {
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
    rows.program.tasks[task].durationUs += share * (next - us);
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
