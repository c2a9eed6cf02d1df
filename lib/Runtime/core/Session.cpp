// SPDX-License-Identifier: Apache-2.0
// Opens an artifact and runs its ranks: those of this process on worker threads, the others through
// a transport.
#include "SessionState.h"

#include "autopar/Artifact/Verify.h"
#include "autopar/Runtime/CudaDevice.h"
#include "autopar/Runtime/KernelLibrary.h"
#include "autopar/Runtime/Rendezvous.h"

#include <algorithm>
#include <cstring>
#include <sched.h>
#include <thread>

namespace autopar::runtime {

using namespace artifact;

namespace {

constexpr int32_t kMaxWorkersPerCore = 16;
constexpr auto kWaitLimit = std::chrono::microseconds(200);
constexpr auto kVerdictInterval = std::chrono::milliseconds(100);

int32_t coreCount() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0)
    return 1;
  return std::max(1, CPU_COUNT(&set));
}

/// Where a rank is, for what it says of others.
std::string placeOf(const LocalRank &rank) {
  std::string device = rank.device ? rank.device->text() : "";
  return "rank " + std::to_string(rank.rank) + (device.empty() ? "" : " on " + device) +
         (rank.executor ? ", in " + rank.executor->lastInstruction() : "");
}

} // namespace

std::string describe(const std::vector<TensorSpec> &tensors) {
  std::string text;
  for (const TensorSpec &tensor : tensors) {
    text +=
        (text.empty() ? "" : ", ") + tensor.name + ": " + std::string(name(tensor.dtype)) + " [";
    std::vector<int64_t> least = leastShape(tensor), steps = stepShape(tensor);
    for (size_t d = 0; d < tensor.shape.size(); ++d) {
      text += d ? "," : "";
      if (least[d] < tensor.shape[d])
        text += std::to_string(least[d]) + "..";
      text += std::to_string(tensor.shape[d]);
      if (steps[d] > 1)
        text += ":" + std::to_string(steps[d]);
    }
    text += "]";
  }
  return text.empty() ? "none" : text;
}

// ---- Opening
// -------------------------------------------------------------------------------------

Result<std::unique_ptr<Session>> Session::open(const std::string &path, SessionOptions options) {
  auto reader = Reader::open(path);
  if (!reader)
    return reader.status();
  return open(reader.take(), std::move(options));
}

Result<std::unique_ptr<Session>> Session::open(Reader reader, SessionOptions options) {
  auto state = std::make_shared<State>(std::move(reader), std::move(options));
  if (const Session *beside = state->options.beside)
    std::tie(state->beside, state->turn) = std::tie(beside->state, beside->state->turn);
  if (Status status = state->open(); !status.isOk())
    return status;
  std::unique_ptr<Session> session(new Session(std::move(state)));
  session->shareSkippedSteps();
  return session;
}

/// With a session beside this one that has the same state.
void Session::shareSkippedSteps() {
  const Session *beside = state->options.beside;
  auto isShared = [&](const TensorSpec &own) { return sharesState(own.name); };
  if (beside && !states().empty() && std::all_of(states().begin(), states().end(), isShared))
    state->skippedSteps = beside->state->skippedSteps;
}

Status Session::State::open() {
  AUTOPAR_RETURN_IF_ERROR(checkTarget(reader.target()).at(reader.path()));
  isDistributed = options.transport != nullptr;
  if (isDistributed && options.transport->worldSize() != reader.worldSize())
    return Status::mismatch(
        reader.path() + " was compiled for " + std::to_string(reader.worldSize()) +
        " ranks, this job has " + std::to_string(options.transport->worldSize()) +
        "; start as many ranks as it was compiled for, or compile with --ranks " +
        std::to_string(options.transport->worldSize()));
  int32_t sharing = !isDistributed          ? reader.worldSize()
                    : options.ranksHere > 0 ? options.ranksHere
                                            : reader.worldSize();
  threads = options.threads > 0 ? options.threads : std::max(1, coreCount() / sharing);
  parameters = std::make_unique<ParameterStore>(reader, options.initializer);
  for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass)
    programs.emplace_back(reader.program(rankClass));
  createRanks();
  AUTOPAR_RETURN_IF_ERROR(checkBeside());
  takeTurn();
  AUTOPAR_RETURN_IF_ERROR(loadKernels());
  AUTOPAR_RETURN_IF_ERROR(collectPorts());
  findEvaluated();
  loadKernelsEarly();
  workers = std::make_unique<RankWorkers>(std::min(int32_t(ranks.size()), mostWorkers()));
  AUTOPAR_RETURN_IF_ERROR(drive(
      [this](LocalRank &rank) {
        AUTOPAR_RETURN_IF_ERROR(agree(rank));
        AUTOPAR_RETURN_IF_ERROR(createDevice(rank).at("rank " + std::to_string(rank.rank)));
        AUTOPAR_RETURN_IF_ERROR(prepareDevice(rank).at("rank " + std::to_string(rank.rank)));
        rank.executor->record(options.record);
        capture(rank);
        rank.executor->startLoad();
        return Status::ok();
      },
      [](LocalRank &) { return Status::ok(); }));
  parameters->releaseFiles();
  return Status::ok();
}

/// Where every core gets as many ranks, ranks take turns on it; otherwise each has a thread of its
/// own, and the system divides the cores among them. A thread that waits for its GPU needs none.
int32_t Session::State::mostWorkers() const {
  if (options.workers > 0)
    return options.workers;
  int32_t atOnce = std::max(1, coreCount() / threads);
  bool areEven = int32_t(ranks.size()) % atOnce == 0;
  return areEven && !reader.target().isCuda() ? atOnce : coreCount() * kMaxWorkersPerCore;
}

Status Session::State::createDevice(LocalRank &rank) {
  int32_t rankClass = reader.rank(rank.rank).rankClass;
  if (!reader.target().isCuda()) {
    rank.device = createCpuDevice(kernels[size_t(rankClass)], threads);
    return Status::ok();
  }
  CudaOptions cuda;
  cuda.libraries = options.cudaLibraries;
  cuda.localRank = isDistributed && options.localRank >= 0 ? options.localRank : rank.rank;
  cuda.target = reader.target();
  cuda.ptx = reader.ptx(rankClass);
  cuda.cubin = reader.cubin(rankClass);
  auto device = createCudaDevice(cuda);
  if (!device)
    return device.status();
  rank.device = device.take();
  return Status::ok();
}

void Session::State::capture(LocalRank &rank) {
  if (!rank.device->capture())
    return;
  Status status = options.record ? Status::badInput("the time of each instruction is asked for")
                  : !options.captures ? Status::badInput("this is asked for")
                                      : rank.executor->captureSteps();
  rank.captures = status.isOk();
  rank.whyUncaptured = status.message();
}

/// What the programs of all ranks take and give, by name. Stages have ports of their own; where
/// several programs have one, they agree about it.
Status Session::State::collectPorts() {
  if (options.initializer)
    AUTOPAR_RETURN_IF_ERROR(options.initializer->check(reader.ports()));
  for (int32_t rankClass = 0; rankClass < reader.classCount(); ++rankClass) {
    const Program &program = reader.program(rankClass);
    for (const Port &port : program.ports) {
      std::vector<TensorSpec> *list = port.role == Role::Input   ? &inputs
                                      : port.role == Role::State ? &states
                                      : port.role == Role::Output || port.role == Role::Metric
                                          ? &outputs
                                          : nullptr;
      if (!list || !port.missing.empty())
        continue;
      TensorSpec spec{port.name,          port.dtype,
                      port.callerShape(), checkedBytes(port.shape, port.dtype).value_or(0),
                      port.limits,        port.varying};
      auto known = std::find_if(list->begin(), list->end(),
                                [&](auto &other) { return other.name == spec.name; });
      if (known == list->end())
        list->push_back(spec);
      else if (known->dtype != spec.dtype || known->shape != spec.shape)
        return {StatusCode::BadInput, reader.path() + ": programs disagree about '" + spec.name +
                                          "': " + describe({*known, spec})};
    }
  }
  return Status::ok();
}

void Session::State::createRanks() {
  std::vector<std::unique_ptr<Transport>> transports;
  if (isDistributed)
    transports.push_back(std::move(options.transport));
  else
    transports = createInProcessTransports(reader.worldSize());
  for (auto &transport : transports) {
    LocalRank rank;
    rank.rank = transport->rank();
    rank.communicator = createMessageCommunicator(std::move(transport));
    ranks.push_back(std::move(rank));
  }
}

Status Session::State::loadKernels() {
  kernels.resize(size_t(reader.classCount()));
  for (const LocalRank &rank : ranks) {
    int32_t rankClass = reader.rank(rank.rank).rankClass;
    const Program &program = reader.program(rankClass);
    if (kernels[size_t(rankClass)] || program.kernels.empty() || reader.target().isCuda())
      continue;
    Digest digest;
    for (const SectionInfo &section : reader.sections())
      if (section.name == "KERNELS" && section.rankClass == rankClass)
        digest = section.digest;
    auto library = KernelLibrary::load(reader.kernels(rankClass), digest, program.kernels);
    if (!library)
      return library.status().at(reader.path());
    kernels[size_t(rankClass)] = library.take();
  }
  return Status::ok();
}

/// All ranks must hold the same artifact. In process they do.
Status Session::State::agree(LocalRank &rank) {
  if (!isDistributed)
    return Status::ok();
  const auto &own = reader.digest().bytes;
  auto gathered = gatherFromAll(rank, {own.begin(), own.end()});
  if (!gathered)
    return gathered.status();
  std::vector<Digest> digests(static_cast<size_t>(reader.worldSize()));
  std::memcpy(digests.data(), gathered->data(), gathered->size());
  for (size_t i = 0; i < digests.size(); ++i)
    if (digests[i] != digests[0])
      return Status::mismatch("ranks have different artifacts: rank 0 has " + digests[0].hex() +
                              ", rank " + std::to_string(i) + " has " + digests[i].hex() +
                              "; give all ranks the same compiled.bin");
  return Status::ok();
}

// ---- Driving
// -------------------------------------------------------------------------------------

Status Session::State::checkVerdict(std::chrono::steady_clock::time_point &last) {
  auto now = std::chrono::steady_clock::now();
  if (!options.verdict || now - last < kVerdictInterval)
    return Status::ok();
  last = now;
  return options.verdict();
}

/// The same, and whatever the rank's own communicator knows of the others.
Status Session::State::checkOthers(LocalRank &rank, std::chrono::steady_clock::time_point &last) {
  auto before = last;
  AUTOPAR_RETURN_IF_ERROR(checkVerdict(last));
  auto now = std::chrono::steady_clock::now();
  if (last == before && now - last < kVerdictInterval)
    return Status::ok();
  last = now;
  return rank.communicatorOfSteps().check().at(placeOf(rank));
}

Status Session::State::explain(LocalRank &rank, const Status &status) {
  return options.verdict ? explainLoss(status, [&] { return options.verdict().at(placeOf(rank)); })
                         : status;
}

Status Session::State::waitFor(LocalRank &rank, Token token) {
  auto last = std::chrono::steady_clock::now();
  while (true) {
    auto done = rank.communicator->test(token);
    if (!done)
      return explain(rank, done.status());
    if (*done)
      return Status::ok();
    AUTOPAR_RETURN_IF_ERROR(checkVerdict(last));
    rank.communicator->wait(kWaitLimit);
  }
}

Status Session::State::sendBytes(LocalRank &rank, int32_t to, int32_t tag,
                                 std::vector<uint8_t> bytes) {
  const std::vector<uint8_t> &kept = messages.emplace_back(std::move(bytes));
  auto token = rank.communicator->send(to, tag, kept.data(), int64_t(kept.size()));
  if (!token)
    return token.status();
  AUTOPAR_RETURN_IF_ERROR(waitFor(rank, *token));
  messages.pop_back();
  return Status::ok();
}

Result<std::vector<uint8_t>> Session::State::receiveBytes(LocalRank &rank, int32_t from,
                                                          int32_t tag, size_t count) {
  std::vector<uint8_t> &kept = messages.emplace_back(count);
  auto token = rank.communicator->receive(from, tag, kept.data(), int64_t(count));
  if (!token)
    return token.status();
  AUTOPAR_RETURN_IF_ERROR(waitFor(rank, *token));
  std::vector<uint8_t> bytes = std::move(kept);
  messages.pop_back();
  return bytes;
}

void Session::State::fail(LocalRank &rank, const Status &status) {
  rank.status = explain(rank, status);
  rank.communicatorOfSteps().abort(rank.status);
}

/// One worker's share of a drive: a rank until it waits, then the next.
void Session::State::takeTurns(RankTurns &turns, StuckRanks &stuck, int32_t worker,
                               const std::function<Status(LocalRank &)> &begin,
                               const std::function<Status(LocalRank &)> &end) {
  auto last = std::chrono::steady_clock::now();
  bool isDeviceBusy = false;
  int32_t tried = 0; // ranks in a row that wait
  for (RankTurns::Turn turn = turns.first(worker); turn.rank != RankTurns::kNone;) {
    LocalRank &rank = ranks[size_t(turn.rank)];
    std::optional<uint64_t> handedOver = rank.communicatorOfSteps().handedOver();
    stuck.runs(turn.rank);
    Status status;
    Progress progress = Progress::Error;
    try {
      status = turn.hasBegun ? Status::ok() : begin(rank);
      if (status.isOk()) {
        progress = rank.executor ? rank.executor->advance() : Progress::Done;
        status = progress == Progress::Error  ? rank.executor->status()
                 : progress == Progress::Done ? end(rank)
                                              : checkOthers(rank, last);
      }
    } catch (const std::exception &error) { // such as memory that ran out: others must not wait
      progress = Progress::Error;
      status = Status::internal(error.what()).at(placeOf(rank));
    }
    if (progress == Progress::Pending && status.isOk()) {
      bool awaitsDevice = rank.executor->awaitsDevice();
      isDeviceBusy |= awaitsDevice;
      stuck.waits(turn.rank, awaitsDevice ? std::nullopt : handedOver);
      if (!isDeviceBusy && stuck.all(rank.communicatorOfSteps().handedOver()))
        status = Status::badInput("all ranks wait for each other forever; compile the model again")
                     .at(placeOf(rank));
    }
    if (!status.isOk())
      fail(rank, status);
    if (progress != Progress::Pending || !status.isOk()) {
      stuck.ends(turn.rank);
      turn = turns.nextAfterEnd();
      tried = 0;
      continue;
    }
    turn.hasBegun = true;
    if (++tried > turns.waiting()) {
      if (isDeviceBusy)
        std::this_thread::yield();
      else
        rank.communicatorOfSteps().wait(kWaitLimit);
      tried = 0;
      isDeviceBusy = false;
    }
    turn = turns.next(turn);
  }
}

Status Session::State::drive(const std::function<Status(LocalRank &)> &begin,
                             const std::function<Status(LocalRank &)> &end) {
  if (hasFailed)
    return Status::internal("this session failed before; open a new one");
  for (LocalRank &rank : ranks)
    rank.status = Status::ok();
  RankTurns turns(int32_t(ranks.size()), workers->count());
  StuckRanks stuck(ranks.size());
  workers->run([&](int32_t worker) { takeTurns(turns, stuck, worker, begin, end); });
  // The cause is more telling than the ranks that only lost a peer.
  const Status *first = nullptr;
  for (const LocalRank &rank : ranks) {
    if (rank.status.isOk())
      continue;
    if (!first ||
        (first->code() == StatusCode::PeerLost && rank.status.code() != StatusCode::PeerLost))
      first = &rank.status;
  }
  hasFailed = first != nullptr;
  return first ? *first : Status::ok();
}

// ---- Facts
// -----------------------------------------------------------------------------------------

Session::Session(std::shared_ptr<State> state) : state(std::move(state)) {}
Session::~Session() = default;
/// NCCL's communicators end together.
Session::State::~State() {
  if (*turn == this)
    *turn = nullptr;
  std::vector<std::thread> threads;
  for (LocalRank &rank : ranks)
    if (rank.forDevice)
      threads.emplace_back([&rank] {
        rank.executor.reset();
        rank.forDevice.reset();
      });
  for (std::thread &thread : threads)
    thread.join();
}
std::string Session::communication() const { return state->ranks.front().communication; }
const Reader &Session::reader() const { return state->reader; }
const std::vector<TensorSpec> &Session::inputs() const { return state->inputs; }
const std::vector<TensorSpec> &Session::outputs() const { return state->outputs; }
int32_t Session::threads() const { return state->threads; }
bool Session::captures() const { return state->ranks.front().captures; }
std::string Session::whyUncaptured() const {
  for (const LocalRank &rank : state->ranks)
    if (!rank.whyUncaptured.empty())
      return rank.whyUncaptured;
  return "";
}
std::vector<std::string> Session::initializerRemarks() const {
  const std::optional<Initializer> &initializer = state->options.initializer;
  return initializer ? initializer->remarks(state->reader.ports()) : std::vector<std::string>();
}
std::pair<int32_t, int32_t> Session::process() const {
  if (!state->isDistributed)
    return {0, 1};
  return {state->ranks.front().rank, state->reader.worldSize()};
}
bool Session::hasOutputs() const { return !state->isDistributed || state->ranks.front().rank == 0; }

std::vector<RankMemory> Session::memory() const {
  std::vector<RankMemory> result;
  for (const LocalRank &rank : state->ranks) {
    RankMemory memory;
    memory.rank = rank.rank;
    const Program &program = state->reader.programOfRank(rank.rank);
    std::copy_n(rank.arenaBytes.begin(), kSpaceCount, memory.arenaBytes);
    for (auto [buffer, address] : rank.elsewhere)
      memory.sharedBytes += program.buffers[size_t(buffer)].bytes;
    memory.unplannedBytes = rank.device ? rank.device->unplannedBytes() : 0;
    result.push_back(memory);
  }
  return result;
}

} // namespace autopar::runtime
