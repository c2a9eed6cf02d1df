// SPDX-License-Identifier: Apache-2.0
// Every communicator of NCCL has a stream of its own. An operation is given to NCCL, which may go
// on with it in the background; once it is on the stream, an event says when it is complete.
#include "NcclCommunicator.h"

#include "../../device/cuda/CudaStreams.h"
#include "NcclTypes.h"

#include <algorithm>
#include <deque>
#include <map>
#include <thread>
#include <utility>

namespace autopar::runtime {

using namespace artifact;

namespace cuda {
namespace {

using Clock = std::chrono::steady_clock;

/// Tag of the messages that carry NCCL's ids.
constexpr int32_t kIdTag = 0x4e43434c;
/// For NCCL to give an operation to a stream while it is captured; the peers are there already.
constexpr auto kEnqueueLimit = std::chrono::seconds(30);

class NcclCommunicator : public Communicator {
public:
  NcclCommunicator(NcclOptions options, CudaStreams &streams, const NcclCalls &calls)
      : host(*options.host), options(std::move(options)), streams(streams), gpu(*streams.onGpu()),
        calls(calls) {}

  ~NcclCommunicator() override {
    if (!gpu.select().isOk())
      return;
    // Graphs hold what the communicators have.
    streams.finish();
    if (!finalize().isOk())
      abortAll();
    for (auto &[use, channel] : channels)
      if (channel.handle)
        calls.destroy(channel.handle);
    if (scratch)
      gpu.calls().memFree(scratch);
  }

  int32_t rank() const override { return host.rank(); }
  int32_t worldSize() const override { return host.worldSize(); }
  std::string whyUncapturable() const override {
    return options.ranksOfProcess == 1
               ? ""
               : "is by NCCL between ranks of one process, whose CUDA graphs may wait for each "
                 "other for ever; start a process per GPU (torchrun, mpirun or srun)";
  }
  void captureAfter(std::span<const Token> tokens) override {
    captureTokens.assign(tokens.begin(), tokens.end());
  }

  /// Creates the communicators of the plan.
  Status connect() {
    AUTOPAR_RETURN_IF_ERROR(gpu.select());
    AUTOPAR_RETURN_IF_ERROR(exchangeIds());
    AUTOPAR_RETURN_IF_ERROR(gpu.select());
    // One after the other: all ranks have the same order of those that they share.
    auto deadline = Clock::now() + options.timeout;
    for (size_t i = 0; i < options.plan.uses.size(); ++i) {
      const NcclUse &use = options.plan.uses[i];
      Channel &channel = channels[use];
      channel.use = use;
      channel.stream = streams.add();
      auto own = std::find(use.members.begin(), use.members.end(), rank()) - use.members.begin();
      NcclConfig config = ncclConfig(use.kind, calls.version);
      NcclResult result =
          calls.init(&channel.handle, int(use.members.size()), *idOf(i), int(own), &config);
      AUTOPAR_RETURN_IF_ERROR(check(result, channel, "ncclCommInitRankConfig"));
      AUTOPAR_RETURN_IF_ERROR(pollUntil(channel, deadline));
    }
    if (options.plan.scratchBytes > 0)
      AUTOPAR_RETURN_IF_ERROR(gpu.check(
          gpu.calls().memAlloc(&scratch, size_t(options.plan.scratchBytes)), "cuMemAlloc"));
    return Status::ok();
  }

  Result<Token> collective(const CollectiveCall &call) override {
    auto found = channels.find({NcclUse::Kind::Group, *call.members, 0});
    if (found == channels.end())
      return Status::internal("NCCL has no communicator for this group");
    return begin({{&found->second, [this, call](Channel &channel, Stream stream) {
                     return run(call, channel, stream);
                   }}});
  }

  Result<Token> permute(const void *input, void *output, int64_t bytes, int32_t sendTo,
                        int32_t receiveFrom) override {
    std::vector<Step> steps;
    if (sendTo >= 0 && sendTo != rank())
      steps.push_back(sendStep(NcclUse::Kind::Moves, sendTo, input, bytes));
    if (receiveFrom >= 0 && receiveFrom != rank())
      steps.push_back(receiveStep(NcclUse::Kind::Moves, receiveFrom, output, bytes));
    else
      steps.push_back(
          {&local, [=, this](Channel &, Stream stream) {
             DriverError error =
                 receiveFrom < 0
                     ? gpu.calls().memsetD8Async(at(output), 0, size_t(bytes), stream)
                     : gpu.calls().memcpyAsync(at(output), at(input), size_t(bytes), stream);
             return bytes == 0 || error == DriverError::Success ? NcclResult::Success
                                                                : NcclResult::UnhandledCudaError;
           }});
    return begin(std::move(steps));
  }
  Result<Token> send(int32_t peer, int32_t tag, const void *data, int64_t bytes) override {
    return begin({sendStep(NcclUse::Kind::Messages, peer, data, bytes, number(rank(), peer, tag))});
  }
  Result<Token> receive(int32_t peer, int32_t tag, void *data, int64_t bytes) override {
    return begin(
        {receiveStep(NcclUse::Kind::Messages, peer, data, bytes, number(peer, rank(), tag))});
  }

  Result<bool> test(Token token) override {
    AUTOPAR_RETURN_IF_ERROR(gpu.select());
    AUTOPAR_RETURN_IF_ERROR(advance());
    auto found = operations.find(token);
    if (found == operations.end())
      return Status::internal("the communicator knows no token " + std::to_string(token));
    Operation &operation = found->second;
    if (operation.left > 0)
      return false;
    while (!operation.ends.empty()) {
      auto done = streams.test(operation.ends.back());
      if (!done || !*done)
        return done;
      operation.ends.pop_back();
    }
    operations.erase(found);
    return true;
  }

  void wait(std::chrono::microseconds) override { std::this_thread::yield(); }

  Status check() override {
    AUTOPAR_RETURN_IF_ERROR(host.check());
    for (auto &[use, channel] : channels) {
      auto state = poll(channel);
      if (!state)
        return state.status();
    }
    return Status::ok();
  }

  void abort(const Status &reason) override {
    host.abort(reason);
    if (!gpu.select().isOk())
      return;
    // NCCL waits until no graph has an operation of the communicator.
    streams.dropGraphs();
    abortAll();
  }

private:
  struct Channel {
    NcclUse use;
    NcclHandle handle = nullptr;
    size_t stream = 0;
    std::deque<std::pair<Token, size_t>> waiting; ///< operation and step, in their order
    bool isEnqueuing = false;                     ///< NCCL is busy with the first of them
  };
  struct Step {
    Channel *channel;
    std::function<NcclResult(Channel &, Stream)> call;
  };
  struct Operation {
    std::vector<Step> steps;
    size_t left = 0;         ///< steps that are not on their stream
    std::vector<Token> ends; ///< of the device
    std::vector<Token> after;
  };

  Communicator &host;
  NcclOptions options;
  CudaStreams &streams;
  Gpu &gpu;
  const NcclCalls &calls;
  std::map<NcclUse, Channel> channels;
  Channel local{{}, nullptr, size_t(Queue::Communication), {}, false}; ///< what NCCL is not asked
  std::map<Token, Operation> operations;
  Token last = 0;
  std::vector<Token> captureTokens;
  DevicePointer scratch = 0;

  static DevicePointer at(const void *address) { return DevicePointer(uintptr_t(address)); }

  std::string text(const Channel &channel) const {
    std::string members;
    for (int32_t member : channel.use.members)
      members += (members.empty()                            ? ""
                  : channel.use.kind == NcclUse::Kind::Group ? ", "
                                                             : " to ") +
                 std::to_string(member);
    return gpu.text() + ", NCCL between ranks " + members;
  }
  Status check(NcclResult result, const Channel &channel, const std::string &what) const {
    if (result == NcclResult::Success || result == NcclResult::InProgress)
      return Status::ok();
    std::string more = channel.handle ? calls.lastError(channel.handle) : "";
    StatusCode code =
        result == NcclResult::RemoteError ? StatusCode::PeerLost : StatusCode::Internal;
    return Status(code, text(channel) + ": " + what + ": " + calls.errorText(result) +
                            (more.empty() ? "" : " (" + more + ")"));
  }
  /// Each makes its own kernels end and then waits for all that runs on the GPU, so all at once.
  void abortAll() {
    std::vector<std::thread> threads;
    for (auto &[use, channel] : channels)
      if (channel.handle)
        threads.emplace_back(calls.abort, std::exchange(channel.handle, nullptr));
    for (std::thread &thread : threads)
      thread.join();
  }
  /// Returns when all members have done with all communicators; not Ok where some never will.
  Status finalize() {
    for (auto &[use, channel] : channels)
      if (channel.handle)
        AUTOPAR_RETURN_IF_ERROR(check(calls.finalize(channel.handle), channel, "ncclCommFinalize"));
    auto deadline = Clock::now() + options.timeout;
    for (auto &[use, channel] : channels)
      if (channel.handle)
        AUTOPAR_RETURN_IF_ERROR(pollUntil(channel, deadline));
    return Status::ok();
  }
  /// Whether NCCL has nothing to do for it in the background.
  Result<bool> poll(Channel &channel) const {
    if (!channel.handle)
      return Status::peerLost(text(channel) + " was given up");
    NcclResult state = NcclResult::Success;
    AUTOPAR_RETURN_IF_ERROR(
        check(calls.asyncError(channel.handle, &state), channel, "ncclCommGetAsyncError"));
    AUTOPAR_RETURN_IF_ERROR(check(state, channel, "an operation failed"));
    return state == NcclResult::Success;
  }
  Status pollUntil(Channel &channel, Clock::time_point deadline) const {
    while (true) {
      auto ready = poll(channel);
      if (!ready)
        return ready.status();
      if (*ready)
        return Status::ok();
      AUTOPAR_RETURN_IF_ERROR(options.verdict());
      AUTOPAR_RETURN_IF_ERROR(host.check());
      if (Clock::now() > deadline)
        return Status::peerLost(text(channel) + ": not all ranks came in time");
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  NcclUniqueId *idOf(size_t use) {
    return reinterpret_cast<NcclUniqueId *>(options.ids->data()) + use;
  }
  Status exchangeIds() {
    std::vector<Token> tokens;
    options.ids->resize(options.plan.uses.size() * sizeof(NcclUniqueId));
    // All know their uses in the same order, so messages between two ranks match.
    for (size_t i = 0; i < options.plan.uses.size(); ++i) {
      const NcclUse &use = options.plan.uses[i];
      NcclUniqueId *id = idOf(i);
      if (use.members.front() != rank()) {
        auto token = host.receive(use.members.front(), kIdTag, id, sizeof(*id));
        if (!token)
          return token.status();
        tokens.push_back(*token);
        continue;
      }
      if (NcclResult result = calls.getUniqueId(id); result != NcclResult::Success)
        return Status::internal(gpu.text() + ": ncclGetUniqueId: " + calls.errorText(result));
      for (size_t m = 1; m < use.members.size(); ++m) {
        auto token = host.send(use.members[m], kIdTag, id, sizeof(*id));
        if (!token)
          return token.status();
        tokens.push_back(*token);
      }
    }
    auto deadline = Clock::now() + options.timeout;
    for (Token token : tokens)
      while (true) {
        auto done = host.test(token);
        if (!done)
          return done.status();
        if (*done)
          break;
        AUTOPAR_RETURN_IF_ERROR(options.verdict());
        if (Clock::now() > deadline)
          return Status::peerLost("not all ranks came in time to meet by NCCL");
        host.wait(std::chrono::microseconds(200));
      }
    return Status::ok();
  }

  NcclResult run(const CollectiveCall &call, Channel &channel, Stream stream) {
    size_t count = size_t(call.count), members = call.members->size();
    size_t size = size_t(byteSize(call.dtype));
    int type = ncclType(call.dtype).value_or(kNcclU8);
    int reduction = ncclReduction(call.reduction, call.dtype);
    switch (call.kind) {
    case CollectiveKind::AllReduce:
      return calls.allReduce(call.input, call.output, count, type, reduction, channel.handle,
                             stream);
    case CollectiveKind::ReduceScatter:
      return calls.reduceScatter(call.input, call.output, count / members, type, reduction,
                                 channel.handle, stream);
    case CollectiveKind::AllGather:
      return calls.allGather(call.input, call.output, count * size, kNcclU8, channel.handle,
                             stream);
    case CollectiveKind::Broadcast:
      return calls.broadcast(call.input, call.output, count * size, kNcclU8, 0, channel.handle,
                             stream);
    case CollectiveKind::AllToAll:
      return exchange(call, count / members * size, channel, stream);
    }
    return NcclResult::InvalidArgument;
  }
  NcclResult exchange(const CollectiveCall &call, size_t part, Channel &channel, Stream stream) {
    DevicePointer input = at(call.input);
    size_t members = call.members->size();
    if (part == 0)
      return NcclResult::Success;
    if (call.input == call.output) {
      if (gpu.calls().memcpyAsync(scratch, input, part * members, stream) != DriverError::Success)
        return NcclResult::UnhandledCudaError;
      input = scratch;
    }
    NcclResult result = calls.groupStart();
    auto keep = [&](NcclResult next) { result = result == NcclResult::Success ? next : result; };
    for (size_t m = 0; m < members; ++m) {
      keep(calls.send(reinterpret_cast<const void *>(uintptr_t(input + m * part)), part, kNcclU8,
                      int(m), channel.handle, stream));
      keep(calls.receive(static_cast<uint8_t *>(call.output) + m * part, part, kNcclU8, int(m),
                         channel.handle, stream));
    }
    NcclResult ended = calls.groupEnd();
    return result == NcclResult::Success || result == NcclResult::InProgress ? ended : result;
  }

  /// Of the communicator that carries a message; -1: none does.
  int32_t number(int32_t from, int32_t to, int32_t tag) const {
    auto found = options.plan.numbers.find({from, to, tag});
    return found == options.plan.numbers.end() ? -1 : found->second;
  }
  Step sendStep(NcclUse::Kind kind, int32_t peer, const void *data, int64_t bytes,
                int32_t number = 0) {
    return {channelOf({kind, {rank(), peer}, number}), [=, this](Channel &channel, Stream stream) {
              return calls.send(data, size_t(bytes), kNcclU8, 1, channel.handle, stream);
            }};
  }
  Step receiveStep(NcclUse::Kind kind, int32_t peer, void *data, int64_t bytes,
                   int32_t number = 0) {
    return {channelOf({kind, {peer, rank()}, number}), [=, this](Channel &channel, Stream stream) {
              return calls.receive(data, size_t(bytes), kNcclU8, 0, channel.handle, stream);
            }};
  }
  Channel *channelOf(const NcclUse &use) {
    auto found = channels.find(use);
    return found == channels.end() ? nullptr : &found->second;
  }

  /// Outside of a capture the token is of this communicator, in one the device's.
  Result<Token> begin(std::vector<Step> steps) {
    AUTOPAR_RETURN_IF_ERROR(gpu.select());
    Token own = ++last;
    Operation &operation = operations[own];
    operation.steps = std::move(steps);
    operation.left = operation.steps.size();
    if (streams.isCapturing())
      operation.after = std::exchange(captureTokens, {});
    for (size_t i = 0; i < operation.steps.size(); ++i) {
      if (!operation.steps[i].channel)
        return Status::internal("NCCL has no communicator for this message");
      operation.steps[i].channel->waiting.push_back({own, i});
    }
    AUTOPAR_RETURN_IF_ERROR(advance());
    return streams.isCapturing() ? capture(own) : Result<Token>(own);
  }

  Result<Token> capture(Token own) {
    auto deadline = Clock::now() + kEnqueueLimit;
    while (operations.at(own).left > 0) {
      if (Clock::now() > deadline)
        return Status::internal(gpu.text() + ": NCCL does not give an operation to its stream");
      AUTOPAR_RETURN_IF_ERROR(advance());
    }
    std::vector<Token> ends = std::move(operations.at(own).ends);
    operations.erase(own);
    if (ends.size() == 1)
      return ends.front();
    auto stream = streams.behind(Queue::Communication, ends);
    return stream ? streams.record(*stream) : Result<Token>(stream.status());
  }

  Status advance() {
    for (auto &[use, channel] : channels)
      AUTOPAR_RETURN_IF_ERROR(advance(channel));
    return advance(local);
  }
  Status advance(Channel &channel) {
    while (!channel.waiting.empty()) {
      auto [token, index] = channel.waiting.front();
      Operation &operation = operations.at(token);
      if (!channel.isEnqueuing) {
        auto stream = streams.behind(channel.stream, operation.after);
        if (!stream)
          return stream.status();
        if (&channel != &local && !channel.handle)
          return Status::peerLost(text(channel) + " was given up");
        AUTOPAR_RETURN_IF_ERROR(check(operation.steps[index].call(channel, *stream), channel,
                                      "an operation was refused"));
        channel.isEnqueuing = true;
      }
      if (&channel != &local) {
        auto ready = poll(channel);
        if (!ready)
          return ready.status();
        if (!*ready)
          return Status::ok();
      }
      auto stream = streams.behind(channel.stream, {});
      if (!stream)
        return stream.status();
      auto end = streams.record(*stream);
      if (!end)
        return end.status();
      operation.ends.push_back(*end);
      --operation.left;
      channel.isEnqueuing = false;
      channel.waiting.pop_front();
    }
    return Status::ok();
  }
};

} // namespace
} // namespace cuda

Result<std::unique_ptr<Communicator>> createNcclCommunicator(NcclOptions options) {
  cuda::CudaStreams *streams = options.device->cudaStreams();
  if (!streams)
    return Status::mismatch("NCCL moves bytes between CUDA devices only");
  auto calls = streams->onGpu()->all().nccl();
  if (!calls)
    return calls.status();
  if (!options.verdict)
    options.verdict = [] { return Status::ok(); };
  auto made = std::make_unique<cuda::NcclCommunicator>(std::move(options), *streams, **calls);
  if (Status status = made->connect(); !status.isOk()) {
    made->abort(status);
    return status;
  }
  return std::unique_ptr<Communicator>(std::move(made));
}

} // namespace autopar::runtime
