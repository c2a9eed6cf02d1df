// SPDX-License-Identifier: Apache-2.0
// The resumable executor: per queue in order, across queues by the instructions' dependencies.
#include "autopar/Runtime/Executor.h"

#include "CapturedStep.h"
#include "Communication.h"
#include "autopar/Artifact/Verify.h"

namespace autopar::runtime {

using namespace artifact;

namespace {

/// Communication first: it should be under way before this thread computes.
constexpr Queue kServiceOrder[] = {Queue::Receive, Queue::Send, Queue::Communication, Queue::CopyIn,
                                   Queue::CopyOut, Queue::Host, Queue::Compute};

} // namespace

SharedProgram::SharedProgram(const Program &program) : program(program) {
  std::vector<TimetableRow> rows;
  for (size_t i = 0; i < program.entries.size(); ++i)
    if (program.entries[i].name == "load")
      rows.push_back({int32_t(i), 0});
  loading = orderOf(std::move(rows));
  stepping = orderOf(program.timetable);
}

SharedProgram::Order SharedProgram::orderOf(std::vector<TimetableRow> rows) const {
  Order order;
  order.rows = std::move(rows);
  std::vector<int32_t> lastRuns(program.entries.size(), -1); // where the latest row of each begins
  for (size_t row = 0; row < order.rows.size(); ++row) {
    const Entry &entry = program.entries[size_t(order.rows[row].entry)];
    int32_t begin = int32_t(order.places.size());
    for (size_t i = 0; i < entry.instructions.size(); ++i) {
      const Instruction &instruction = entry.instructions[i];
      order.queues[size_t(instruction.queue)].push_back(int32_t(order.places.size()));
      order.places.push_back({int32_t(row), int32_t(i)});
      for (int32_t earlier : instruction.after)
        order.after.push_back({begin + earlier, entry.instructions[size_t(earlier)].queue});
      for (const Await &earlier : instruction.awaits)
        if (int32_t last = lastRuns[size_t(earlier.entry)]; last >= 0)
          order.after.push_back(
              {last + earlier.instruction, program.entries[size_t(earlier.entry)]
                                               .instructions[size_t(earlier.instruction)]
                                               .queue});
      order.afterEnd.push_back(int32_t(order.after.size()));
    }
    lastRuns[size_t(order.rows[row].entry)] = begin;
  }
  for (Queue queue : kServiceOrder)
    if (!order.queues[size_t(queue)].empty())
      order.service.push_back(queue);
  return order;
}

std::string SharedProgram::describe(const Order &order, int32_t index) const {
  const TimetableRow &row = rowAt(order, index);
  return program.entries[size_t(row.entry)].name + "[" +
         std::to_string(order.places[size_t(index)].instruction) + "] " +
         instructionAt(order, index).idIn(row.slot);
}

Executor::Executor(const SharedProgram &shared, const RankTable &table, int32_t rank,
                   Device &device, Communicator &communicator, ParameterSource &parameters,
                   const Clock &clock)
    : shared(shared), program(shared.program), table(table), rank(rank), device(device),
      communicator(communicator), parameters(parameters), clock(clock), running(&shared.load()) {}

Executor::~Executor() = default;

Status Executor::captureSteps() {
  AUTOPAR_RETURN_IF_ERROR(CapturedStep::check(program, device, communicator));
  captured = std::make_unique<CapturedStep>(shared, device,
                                            [this](const Instruction &instruction, int32_t slot,
                                                   std::span<const Token> after) -> Result<Token> {
                                              if (!isCommunication(instruction.payload))
                                                return device.issue(instruction, slot, after);
                                              communicator.captureAfter(after);
                                              return communicate(instruction.payload, slot, table,
                                                                 device, communicator);
                                            });
  return Status::ok();
}

void Executor::leaveOut(std::vector<bool> instructions, const BufferPlaces &places) {
  leftOutOfLoad = std::move(instructions);
  for (const Port &port : program.ports)
    isHeldElsewhere.push_back(port.buffer >= 0 && places.isHeldElsewhere(port.buffer));
}

void Executor::startLoad(bool keeps) {
  keepsState = keeps;
  isReplaying = false;
  running = &shared.load();
  step = -1;
  kind = StepKind::Whole;
  hasBegun = false;
  mustReadParameters = true;
}

void Executor::startStep(int64_t number, StepKind wanted, int64_t skipped) {
  running = &shared.step();
  step = number;
  kind = wanted;
  guardsHold.reset();
  hasBegun = false;
  writeControl(ControlWord::Step, number);
  writeControl(ControlWord::SkippedSteps, skipped);
  writeControl(ControlWord::Evaluation, kind == StepKind::Evaluation);
  isReplaying = captured && !isRecording && failure.isOk() && captured->start(kind);
  search = NonFiniteSearch();
  if (kind == StepKind::Inspection && failure.isOk())
    failure = search.visitBefore(program, device);
}

void Executor::writeControl(ControlWord word, int64_t value) {
  if (program.controlBuffer >= 0 && failure.isOk())
    failure = device.write(program.controlBuffer, int64_t(word) * 8, &value, 8)
                  .at("rank " + std::to_string(rank) + ", before step " + std::to_string(step));
}

Status Executor::readParameters() {
  if (program.rankValuesBuffer >= 0)
    AUTOPAR_RETURN_IF_ERROR(device.write(program.rankValuesBuffer, 0, table.rankValues.data(),
                                         int64_t(table.rankValues.size()) * 8));
  for (size_t i = 0; i < program.ports.size(); ++i) {
    const Port &port = program.ports[i];
    bool isStored = port.role == Role::Parameter || (port.role == Role::State && !keepsState);
    bool isElsewhere = !isHeldElsewhere.empty() && isHeldElsewhere[i];
    if (!isStored || port.buffer < 0 || isElsewhere)
      continue;
    AUTOPAR_RETURN_IF_ERROR(readParameter(port, table.ports[i], port.buffer, 0));
  }
  return Status::ok();
}

void Executor::begin() {
  for (size_t queue = 0; queue < kQueueCount; ++queue)
    queues[queue] = {&running->queues[queue]};
  issued.clear();
  hasEnded.assign(running->places.size(), 0);
  isAhead.assign(hasEnded.size(), 0);
  tokens.assign(hasEnded.size(), 0);
  remaining = hasEnded.size();
  hasBegun = true;
}

Progress Executor::advance() {
  if (!failure.isOk())
    return Progress::Error;
  if (mustReadParameters) {
    mustReadParameters = false;
    if (Status status = readParameters(); !status.isOk())
      return fail(status);
  }
  if (isReplaying)
    return replay();
  if (!hasBegun)
    begin();
  // Only what completes lets others start; what is left out completes while queues are looked at.
  for (bool looks = true; remaining > 0;) {
    bool moved = completeIssued(), ended = false;
    for (size_t i = 0; (moved || looks || ended) && i < running->service.size(); ++i)
      ended |= start(running->service[i]);
    if (!failure.isOk())
      return fail(failure);
    if (!moved && !looks && !ended)
      return Progress::Pending;
    looks = ended;
  }
  return Progress::Done;
}

Progress Executor::replay() {
  auto done = captured->advance([this]() -> Result<bool> {
    guardsHold = areGuardsFinite();
    return failure.isOk() ? Result<bool>(*guardsHold) : Result<bool>(failure);
  });
  if (done)
    return *done ? Progress::Done : Progress::Pending;
  failure = done.status().at("rank " + std::to_string(rank) + ", step " + std::to_string(step));
  return Progress::Error;
}

bool Executor::completeIssued() {
  bool moved = false, isPending[kQueueCount] = {};
  size_t kept = 0;
  for (size_t i = 0; i < issued.size(); ++i) {
    Issued instruction = issued[i];
    bool &waits = isPending[size_t(instruction.queue)];
    // What runs in order ends in order.
    bool isDoneNow = false;
    if (failure.isOk() && (!waits || endsInAnyOrder(instruction.queue))) {
      auto done = isDone(instruction);
      if (!done)
        failure = done.status();
      isDoneNow = done && *done;
    }
    if (!isDoneNow) {
      waits = true;
      issued[kept++] = instruction;
      continue;
    }
    if (kind == StepKind::Inspection)
      failure = search.visit(program, at(instruction.index), instruction.index,
                             shared.rowAt(*running, instruction.index).slot, device);
    complete(instruction);
    moved = true;
  }
  issued.resize(kept);
  return moved;
}

bool Executor::isSatisfied(const SharedProgram::Order::Wait &earlier, bool runsAhead) const {
  return isComplete(earlier) || (runsAhead && isAhead[size_t(earlier.index)]);
}

bool Executor::canRunAhead(const Instruction &instruction) const {
  // One by one, results can be looked at, and it can be seen when each of them ran.
  if (!device.ordersInstructions() || kind == StepKind::Inspection || isRecording)
    return false;
  const Payload &payload = instruction.payload;
  bool isDevices = !isCommunication(payload) && !std::holds_alternative<Read>(payload);
  if (kind == StepKind::Evaluation)
    return isDevices && instruction.evaluated;
  // The host has to know the guards before the first that commits.
  return isDevices && (!instruction.commits || guardsHold.value_or(false));
}

bool Executor::start(Queue name) {
  QueueState &queue = queues[size_t(name)];
  bool ended = false;
  while (queue.next < queue.order->size() && failure.isOk()) {
    int32_t index = (*queue.order)[queue.next];
    const Instruction &instruction = at(index);
    bool runsAhead = !isLeftOut(index) && canRunAhead(instruction);
    if (!endsInAnyOrder(name) && queue.issued > (runsAhead ? queue.ahead : 0))
      break;
    // What was complete stays complete, so each of them is looked at once.
    if (queue.awaited < 0)
      queue.awaited = int32_t(running->afterBegin(index));
    for (; queue.awaited < running->afterEnd[size_t(index)]; ++queue.awaited)
      if (!isSatisfied(running->after[size_t(queue.awaited)], runsAhead))
        return ended;
    ++queue.next;
    queue.awaited = -1;
    if (!isActive(index)) {
      markComplete(name, index);
      ended = true;
      continue;
    }
    lastOrder = running;
    lastIndex = index;
    Issued next{index, name, false, runsAhead, 0, recorded.size()};
    if (isRecording) {
      const TimetableRow &row = shared.rowAt(*running, index);
      recorded.push_back({row.entry, running->places[size_t(index)].instruction, row.slot, step,
                          clock.nowNs(), 0});
    }
    auto token = issue(instruction, index, next.isCommunication);
    if (!token) {
      failure = token.status();
      break;
    }
    next.token = *token;
    if (runsAhead) {
      isAhead[size_t(index)] = 1;
      tokens[size_t(index)] = *token;
      ++queue.ahead;
    }
    issued.push_back(next);
    ++queue.issued;
    if (name == Queue::Receive)
      ended |= completeLatest();
  }
  return ended;
}

bool Executor::completeLatest() {
  Issued latest = issued.back();
  auto done = kind == StepKind::Inspection ? Result<bool>(false) : isDone(latest);
  if (!done)
    failure = done.status();
  if (!done || !*done)
    return false;
  issued.pop_back();
  complete(latest);
  return true;
}

Result<bool> Executor::isDone(const Issued &instruction) {
  auto done = instruction.isCommunication ? communicator.test(instruction.token)
              : instruction.token == 0    ? Result<bool>(true)
                                          : device.test(instruction.token);
  if (done)
    return done;
  // The device tells of a failure when it is asked about the first that it has not ended.
  std::string latest = lastInstruction();
  lastIndex = instruction.index;
  if (!instruction.isAhead)
    return done;
  return Status(done.status().code(),
                "this one or one issued behind it, up to " + latest +
                    " (--profile runs them one by one): " + done.status().message());
}

/// Ranks of one program may have different numbers of peers.
static bool isForNobody(const Instruction &instruction, const RankTable &table) {
  auto *send = std::get_if<Send>(&instruction.payload);
  return send && table.peers[size_t(send->peer)] == kNobody;
}

bool Executor::isLeftOut(int32_t index) const {
  return running == &shared.load() && !leftOutOfLoad.empty() &&
         leftOutOfLoad[size_t(running->places[size_t(index)].instruction)];
}

bool Executor::isActive(int32_t index) {
  const Instruction &instruction = at(index);
  if (isForNobody(instruction, table) || isLeftOut(index))
    return false;
  if (kind == StepKind::Evaluation)
    return instruction.evaluated;
  if (!instruction.commits)
    return true;
  if (kind == StepKind::Inspection)
    return false;
  // It waited for the guards.
  if (!guardsHold)
    guardsHold = areGuardsFinite();
  return *guardsHold;
}

bool Executor::areGuardsFinite() {
  for (const Port &port : program.ports)
    if (port.guards) {
      uint64_t value = 0;
      failure = device.read(port.buffer, 0, &value, byteSize(port.dtype));
      if (!failure.isOk() || !isFinite(port.dtype, &value))
        return false;
    }
  return true;
}

void Executor::record(bool enabled) {
  isRecording = enabled;
  device.timeInstructions(enabled);
}

void Executor::complete(const Issued &instruction) {
  if (isRecording) {
    ExecutionEvent &event = recorded[instruction.event];
    event.endNs = clock.nowNs();
    bool isOfDevice = !instruction.isCommunication && instruction.token != 0;
    if (auto duration = isOfDevice ? device.lastDurationNs() : std::nullopt)
      event.beginNs = event.endNs - *duration;
  }
  QueueState &queue = queues[size_t(instruction.queue)];
  --queue.issued;
  queue.ahead -= instruction.isAhead;
  markComplete(instruction.queue, instruction.index);
}

void Executor::markComplete(Queue queue, int32_t index) {
  if (endsInAnyOrder(queue))
    hasEnded[size_t(index)] = 1;
  else
    queues[size_t(queue)].complete = index;
  --remaining;
}

/// The rank's part of a parameter, into memory that only the device reaches where it is such.
Status Executor::readParameter(const Port &port, const PortShard &shard, int32_t buffer,
                               int32_t slot) {
  if (!parameters.holdsBytes())
    return Status::ok();
  const Buffer &local = program.buffers[size_t(buffer)];
  if (device.hostAddress(buffer))
    return parameters.read(port, shard, device.address(buffer, slot), local.shape);
  std::vector<uint8_t> bytes(size_t(checkedBytes(local.shape, port.dtype).value_or(0)));
  AUTOPAR_RETURN_IF_ERROR(parameters.read(port, shard, bytes.data(), local.shape));
  return device.write(buffer, slot * local.slotStride, bytes.data(), int64_t(bytes.size()));
}

bool Executor::awaitsDevice() const {
  if (isReplaying)
    return true;
  for (const Issued &instruction : issued)
    if (!instruction.isCommunication && instruction.token != 0)
      return true;
  return false;
}

Result<Token> Executor::issue(const Instruction &instruction, int32_t index, bool &communicates) {
  int32_t slot = shared.rowAt(*running, index).slot;
  communicates = isCommunication(instruction.payload);
  if (communicates)
    return communicate(instruction.payload, slot, table, device, communicator);
  if (auto *p = std::get_if<Read>(&instruction.payload)) {
    AUTOPAR_RETURN_IF_ERROR(
        readParameter(program.ports[size_t(p->port)], table.ports[size_t(p->port)], p->dst, slot));
    return Token{0};
  }
  awaitedTokens.clear();
  for (size_t i = running->afterBegin(index); i < size_t(running->afterEnd[size_t(index)]); ++i) {
    const SharedProgram::Order::Wait &earlier = running->after[i];
    if (!isComplete(earlier) && tokens[size_t(earlier.index)] != 0)
      awaitedTokens.push_back(tokens[size_t(earlier.index)]);
  }
  return device.issue(instruction, slot, awaitedTokens);
}

std::string Executor::lastInstruction() const {
  if (isReplaying)
    return captured->unfinished();
  return lastOrder ? shared.describe(*lastOrder, lastIndex) : "nothing yet";
}

Progress Executor::fail(const Status &status) {
  std::string where = "rank " + std::to_string(rank);
  if (hasBegun)
    where += (step < 0 ? std::string(", loading") : ", step " + std::to_string(step)) + ", " +
             lastInstruction();
  failure = status.at(where);
  return Progress::Error;
}

} // namespace autopar::runtime
