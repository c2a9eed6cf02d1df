// SPDX-License-Identifier: Apache-2.0
// Operations as small state machines: out, across, in.
#include "StagedCommunicator.h"

#include <functional>
#include <map>
#include <thread>

namespace autopar::runtime {
namespace {

using artifact::CollectiveKind;

class StagedCommunicator : public Communicator {
public:
  StagedCommunicator(Communicator &inner, Device &device)
      : inner(inner), device(device), memory(*device.staging()) {}

  int32_t rank() const override { return inner.rank(); }
  int32_t worldSize() const override { return inner.worldSize(); }

  Result<Token> collective(const CollectiveCall &call) override {
    int64_t members = int64_t(call.members->size()), bytes = call.count * byteSize(call.dtype);
    int64_t result = call.kind == CollectiveKind::AllGather       ? bytes * members
                     : call.kind == CollectiveKind::ReduceScatter ? bytes / members
                                                                  : bytes;
    Operation operation;
    operation.across = [this, call](void *input, void *output) {
      CollectiveCall host = call;
      host.input = input;
      host.output = output;
      return inner.collective(host);
    };
    return begin(std::move(operation), call.input, bytes, call.output, result);
  }
  Result<Token> permute(const void *input, void *output, int64_t bytes, int32_t sendTo,
                        int32_t receiveFrom) override {
    Operation operation;
    operation.across = [=, this](void *hostInput, void *hostOutput) {
      return inner.permute(hostInput, hostOutput, bytes, sendTo, receiveFrom);
    };
    return begin(std::move(operation), input, bytes, output, bytes);
  }
  Result<Token> send(int32_t peer, int32_t tag, const void *data, int64_t bytes) override {
    Operation operation;
    operation.across = [=, this](void *input, void *) {
      return inner.send(peer, tag, input, bytes);
    };
    return begin(std::move(operation), data, bytes, nullptr, 0);
  }
  Result<Token> receive(int32_t peer, int32_t tag, void *data, int64_t bytes) override {
    Operation operation;
    operation.across = [=, this](void *, void *output) {
      return inner.receive(peer, tag, output, bytes);
    };
    return begin(std::move(operation), nullptr, 0, data, bytes);
  }

  Result<bool> test(Token token) override {
    AUTOPAR_RETURN_IF_ERROR(advance());
    auto found = operations.find(token);
    if (found == operations.end())
      return Status::internal("the communicator knows no token " + std::to_string(token));
    Operation &operation = found->second;
    if (operation.phase != Phase::Done)
      return false;
    giveBack(operation.input);
    giveBack(operation.output);
    operations.erase(found);
    return true;
  }

  void wait(std::chrono::microseconds limit) override {
    for (const auto &[token, operation] : operations)
      if (operation.phase == Phase::Out || operation.phase == Phase::In)
        return std::this_thread::yield();
    inner.wait(limit);
  }
  Status check() override { return inner.check(); }
  void abort(const Status &reason) override { inner.abort(reason); }

private:
  enum class Phase { Out, Across, In, Done };
  struct Piece {
    void *data = nullptr;
    int64_t bytes = 0;
  };
  struct Operation {
    std::function<Result<Token>(void *, void *)> across;
    Piece input, output;
    void *result = nullptr;
    int64_t resultBytes = 0;
    Phase phase = Phase::Out;
    Token token = 0; ///< of the device or of `inner`, as the phase says; 0 = nothing to wait for
  };
  Communicator &inner;
  Device &device;
  Staging &memory;
  std::map<Token, Operation> operations;
  std::multimap<int64_t, void *> unused; ///< staging memory by size
  Token last = 0;

  /// Kept for the next operation of this size: a step allocates nothing but the first time.
  Result<Piece> take(int64_t bytes) {
    if (bytes == 0)
      return Piece{};
    if (auto found = unused.find(bytes); found != unused.end()) {
      Piece piece{found->second, bytes};
      unused.erase(found);
      return piece;
    }
    auto data = memory.allocate(bytes);
    if (!data)
      return data.status();
    return Piece{*data, bytes};
  }
  void giveBack(Piece &piece) {
    if (piece.data)
      unused.emplace(piece.bytes, piece.data);
  }

  Result<Token> begin(Operation operation, const void *input, int64_t inputBytes, void *result,
                      int64_t resultBytes) {
    auto in = take(inputBytes), out = take(resultBytes);
    if (!in || !out)
      return in ? out.status() : in.status();
    operation.input = *in;
    operation.output = *out;
    operation.result = result;
    operation.resultBytes = resultBytes;
    if (inputBytes > 0) {
      auto token = memory.toHost(operation.input.data, input, inputBytes);
      if (!token)
        return token.status();
      operation.token = *token;
    }
    operations.emplace(++last, std::move(operation));
    return last;
  }

  /// Operations go across in the order in which they were started, as all members of a group do it.
  Status advance() {
    bool mayGoAcross = true;
    for (auto &[token, operation] : operations) {
      if (operation.phase == Phase::Out) {
        if (!mayGoAcross)
          continue;
        auto copied = operation.token == 0 ? Result<bool>(true) : device.test(operation.token);
        if (!copied)
          return copied.status();
        mayGoAcross = *copied;
        if (!*copied)
          continue;
        auto started = operation.across(operation.input.data, operation.output.data);
        if (!started)
          return started.status();
        operation.token = *started;
        operation.phase = Phase::Across;
      }
      if (operation.phase == Phase::Across) {
        auto done = inner.test(operation.token);
        if (!done)
          return done.status();
        if (!*done)
          continue;
        operation.phase = Phase::Done;
        if (operation.resultBytes > 0) {
          auto copying =
              memory.toDevice(operation.result, operation.output.data, operation.resultBytes);
          if (!copying)
            return copying.status();
          operation.token = *copying;
          operation.phase = Phase::In;
        }
      }
      if (operation.phase == Phase::In) {
        auto copied = device.test(operation.token);
        if (!copied)
          return copied.status();
        if (*copied)
          operation.phase = Phase::Done;
      }
    }
    return Status::ok();
  }
};

} // namespace

std::unique_ptr<Communicator> createStagedCommunicator(Communicator &inner, Device &device) {
  return std::make_unique<StagedCommunicator>(inner, device);
}

} // namespace autopar::runtime
