// SPDX-License-Identifier: Apache-2.0
// Collectives out of messages. A reduction splits the tensor into one part per member: everybody
// sends each part to its owner, the owner adds the contributions in member order and (all-reduce)
// sends the result back. The bytes per rank are those of a ring, the order of additions never
// depends on timing, and staging is bounded because owners work chunk by chunk. Where ranks share
// memory there is none: owners read the contributions of others where they lie.
//
// Receives are posted before sends. Gloo tells a sender that it may begin on the connection that
// the receiver's own bytes take: behind them, the two directions would go one after the other.
#include "Reduce.h"
#include "autopar/Runtime/Communicator.h"

#include <algorithm>
#include <cstring>
#include <map>

namespace autopar::runtime {
namespace {

using artifact::CollectiveKind;

/// Staging for contributions of other ranks, per running reduction.
constexpr int64_t kStagingBytes = int64_t{4} << 20;
constexpr int64_t kMinChunkBytes = int64_t{64} << 10;

/// Message tags: 28 bits say the group or kind, 20 the sequence number in it, 2 the phase, 14 the
/// chunk.
uint64_t makeTag(uint64_t group, uint64_t sequence, uint64_t phase, uint64_t chunk) {
  return (group & 0xfffffff) << 36 | (sequence & 0xfffff) << 16 | (phase & 3) << 14 |
         (chunk & 0x3fff);
}
constexpr uint64_t kPermuteGroup = 0xffffffe, kMessageGroup = 0xfffffff;

uint64_t hashOf(const std::vector<int32_t> &members) {
  uint64_t hash = 1469598103934665603ull; // FNV-1a
  for (int32_t member : members)
    hash = (hash ^ uint64_t(uint32_t(member))) * 1099511628211ull;
  return (hash ^ hash >> 32) % kPermuteGroup;
}

/// An operation under way: a set of posted messages and what follows when they are complete.
class Operation {
public:
  virtual ~Operation() = default;
  /// True when complete.
  virtual Result<bool> advance() = 0;

protected:
  explicit Operation(Transport &transport) : transport(transport) {}
  Transport &transport;

  Status postSend(std::vector<MessageId> &list, int32_t peer, uint64_t tag, const void *data,
                  int64_t bytes) {
    return keep(list, transport.send(peer, tag, data, size_t(bytes)));
  }
  Status postReceive(std::vector<MessageId> &list, int32_t peer, uint64_t tag, void *data,
                     int64_t bytes) {
    return keep(list, transport.receive(peer, tag, data, size_t(bytes)));
  }
  Status postBorrow(std::vector<MessageId> &list, int32_t peer, uint64_t tag, Loan &loan,
                    int64_t bytes) {
    return keep(list, transport.borrow(peer, tag, loan, size_t(bytes)));
  }
  /// Drops the complete ones; true when none is left.
  Result<bool> drain(std::vector<MessageId> &list) {
    while (!list.empty()) {
      auto done = transport.test(list.back());
      if (!done)
        return done.status();
      if (!*done)
        return false;
      list.pop_back();
    }
    return true;
  }

private:
  static Status keep(std::vector<MessageId> &list, Result<MessageId> message) {
    if (message)
      list.push_back(*message);
    return message.status();
  }
};

/// All messages are independent: gather, all-to-all, broadcast, permute, send, receive.
class ExchangeOperation : public Operation {
public:
  explicit ExchangeOperation(Transport &transport) : Operation(transport) {}
  std::vector<MessageId> messages;
  std::vector<uint8_t> copy; ///< of the input, for in-place all-to-all

  Status send(int32_t peer, uint64_t tag, const void *data, int64_t bytes) {
    return postSend(messages, peer, tag, data, bytes);
  }
  Status receive(int32_t peer, uint64_t tag, void *data, int64_t bytes) {
    return postReceive(messages, peer, tag, data, bytes);
  }
  Result<bool> advance() override { return drain(messages); }
};

/// All-reduce and reduce-scatter.
class ReduceOperation : public Operation {
public:
  ReduceOperation(Transport &transport, const CollectiveCall &call, uint64_t sequence)
      : Operation(transport), call(call), members(*call.members), group(hashOf(members)),
        sequence(sequence), size(byteSize(call.dtype)), n(int64_t(members.size())) {
    position = std::find(members.begin(), members.end(), transport.rank()) - members.begin();
    chunk = std::max<int64_t>(partEnd(0) - partBegin(0), 1);
    loans.resize(size_t(n));
    if (transport.lends())
      return;
    int64_t room = std::max(kMinChunkBytes, kStagingBytes / std::max<int64_t>(n - 1, 1));
    chunk = std::clamp<int64_t>(room / size, 1, chunk);
    staging = std::make_unique_for_overwrite<uint8_t[]>(size_t(chunk * size * (n - 1)));
  }

  Status start() {
    AUTOPAR_RETURN_IF_ERROR(receiveContributions());
    for (int64_t step = 1; step < n; ++step) {
      int64_t owner = (position + step) % n;
      for (int64_t c = 0, begin = partBegin(owner); begin < partEnd(owner); ++c, begin += chunk)
        AUTOPAR_RETURN_IF_ERROR(postSend(sends, members[size_t(owner)],
                                         makeTag(group, sequence, 0, uint64_t(c)), in(begin),
                                         chunkSize(owner, begin) * size));
    }
    return Status::ok();
  }

  Result<bool> advance() override {
    while (next < partEnd(position)) {
      auto arrived = drain(contributions);
      if (!arrived || !*arrived)
        return arrived;
      if (Status status = reduceChunk(); !status.isOk())
        return status;
    }
    auto sent = drain(sends);
    if (!sent || !*sent)
      return sent;
    if (call.kind == CollectiveKind::AllReduce && !isCollecting) {
      isCollecting = true;
      if (Status status = receiveResults(); !status.isOk())
        return status;
      if (Status status = sendResults(); !status.isOk())
        return status;
    }
    auto collected = drain(results);
    if (!collected || !*collected)
      return collected;
    return drain(resultSends);
  }

private:
  CollectiveCall call;
  const std::vector<int32_t> &members;
  uint64_t group, sequence;
  int64_t size, n, position = 0;
  int64_t chunk = 1;
  int64_t next = 0; ///< first element of the own chunk under way; set by receiveContributions
  uint64_t chunkIndex = 0;
  bool isCollecting = false;
  std::unique_ptr<uint8_t[]> staging; ///< null where contributions are borrowed
  std::vector<Loan> loans;            ///< per member: what is read now
  std::vector<MessageId> sends, contributions, resultSends, results;

  // Part 0 is never smaller than another, so its size bounds the chunk on every rank alike.
  int64_t partBegin(int64_t p) const { return p * (call.count / n) + std::min(p, call.count % n); }
  int64_t partEnd(int64_t p) const { return partBegin(p + 1); }
  int64_t chunkSize(int64_t p, int64_t begin) const { return std::min(chunk, partEnd(p) - begin); }
  const uint8_t *in(int64_t element) const {
    return static_cast<const uint8_t *>(call.input) + element * size;
  }
  uint8_t *out(int64_t element) const {
    int64_t origin = call.kind == CollectiveKind::ReduceScatter ? partBegin(position) : 0;
    return static_cast<uint8_t *>(call.output) + (element - origin) * size;
  }

  Status receiveContributions() {
    if (chunkIndex == 0)
      next = partBegin(position);
    if (next >= partEnd(position))
      return Status::ok();
    uint8_t *slot = staging.get();
    for (int64_t p = 0; p < n; ++p) {
      if (p == position)
        continue;
      uint64_t tag = makeTag(group, sequence, 0, chunkIndex);
      int64_t bytes = chunkSize(position, next) * size;
      if (!staging) {
        AUTOPAR_RETURN_IF_ERROR(
            postBorrow(contributions, members[size_t(p)], tag, loans[size_t(p)], bytes));
        continue;
      }
      loans[size_t(p)].data = slot;
      AUTOPAR_RETURN_IF_ERROR(postReceive(contributions, members[size_t(p)], tag, slot, bytes));
      slot += chunk * size;
    }
    return Status::ok();
  }

  Status reduceChunk() {
    std::vector<const void *> sources;
    for (int64_t p = 0; p < n; ++p)
      sources.push_back(p == position ? in(next) : loans[size_t(p)].data);
    int64_t count = chunkSize(position, next);
    reduceInOrder(out(next), sources, count, call.dtype, call.reduction);
    for (Loan &loan : loans)
      loan = {};
    next += chunk;
    ++chunkIndex;
    return receiveContributions();
  }

  Status sendResults() {
    for (int64_t c = 0, begin = partBegin(position); begin < partEnd(position); ++c, begin += chunk)
      for (int64_t step = 1; step < n; ++step)
        AUTOPAR_RETURN_IF_ERROR(postSend(resultSends, members[size_t((position + step) % n)],
                                         makeTag(group, sequence, 1, uint64_t(c)), out(begin),
                                         chunkSize(position, begin) * size));
    return Status::ok();
  }

  /// Posted only after the own sends are complete: in place, results overwrite what was sent.
  Status receiveResults() {
    for (int64_t step = 1; step < n; ++step) {
      int64_t owner = (position + n - step) % n;
      for (int64_t c = 0, begin = partBegin(owner); begin < partEnd(owner); ++c, begin += chunk)
        AUTOPAR_RETURN_IF_ERROR(postReceive(results, members[size_t(owner)],
                                            makeTag(group, sequence, 1, uint64_t(c)), out(begin),
                                            chunkSize(owner, begin) * size));
    }
    return Status::ok();
  }
};

class MessageCommunicator : public Communicator {
public:
  explicit MessageCommunicator(std::unique_ptr<Transport> transport)
      : transport(std::move(transport)) {}

  int32_t rank() const override { return transport->rank(); }
  int32_t worldSize() const override { return transport->worldSize(); }

  Result<Token> collective(const CollectiveCall &call) override {
    uint64_t sequence = sequences[*call.members]++;
    if (call.members->size() > 1 && call.count > 0 &&
        (call.kind == CollectiveKind::AllReduce || call.kind == CollectiveKind::ReduceScatter)) {
      auto &operation = keep(std::make_unique<ReduceOperation>(*transport, call, sequence));
      AUTOPAR_RETURN_IF_ERROR(operation.start());
      return lastToken;
    }
    auto &operation = keep(std::make_unique<ExchangeOperation>(*transport));
    AUTOPAR_RETURN_IF_ERROR(startExchange(operation, call, sequence));
    return lastToken;
  }

  Result<Token> permute(const void *input, void *output, int64_t bytes, int32_t sendTo,
                        int32_t receiveFrom) override {
    uint64_t tag = makeTag(kPermuteGroup, permuteSequence++, 0, 0);
    auto &operation = keep(std::make_unique<ExchangeOperation>(*transport));
    if (sendTo == rank() && receiveFrom == rank()) {
      std::memmove(output, input, size_t(bytes));
      return lastToken;
    }
    if (receiveFrom >= 0)
      AUTOPAR_RETURN_IF_ERROR(operation.receive(receiveFrom, tag, output, bytes));
    else
      std::memset(output, 0, size_t(bytes));
    if (sendTo >= 0)
      AUTOPAR_RETURN_IF_ERROR(operation.send(sendTo, tag, input, bytes));
    return lastToken;
  }

  Result<Token> send(int32_t peer, int32_t tag, const void *data, int64_t bytes) override {
    auto &operation = keep(std::make_unique<ExchangeOperation>(*transport));
    AUTOPAR_RETURN_IF_ERROR(operation.send(peer, messageTag(tag), data, bytes));
    return lastToken;
  }
  Result<Token> receive(int32_t peer, int32_t tag, void *data, int64_t bytes) override {
    auto &operation = keep(std::make_unique<ExchangeOperation>(*transport));
    AUTOPAR_RETURN_IF_ERROR(operation.receive(peer, messageTag(tag), data, bytes));
    return lastToken;
  }

  Result<bool> test(Token token) override {
    auto found = operations.find(token);
    if (found == operations.end())
      return Status::internal("unknown communication token");
    auto done = found->second->advance();
    if (done && *done)
      operations.erase(found);
    return done;
  }

  void wait(std::chrono::microseconds limit) override { transport->wait(limit); }
  Status check() override { return transport->check(); }
  void abort(const Status &reason) override { transport->abort(reason); }
  std::optional<uint64_t> handedOver() override { return transport->handedOver(); }

private:
  /// What failed stays here too: its messages may still be under way into its memory.
  std::map<Token, std::unique_ptr<Operation>> operations;
  std::map<std::vector<int32_t>, uint64_t> sequences;
  uint64_t permuteSequence = 0;
  Token lastToken = 0;
  /// Last, so that it goes first: after that nobody writes into the memory of operations.
  std::unique_ptr<Transport> transport;

  static uint64_t messageTag(int32_t tag) { return kMessageGroup << 36 | uint64_t(uint32_t(tag)); }

  /// Owns an operation under the next token, which becomes lastToken.
  template <typename Kind>
  Kind &keep(std::unique_ptr<Kind> operation) {
    Kind &kept = *operation;
    operations.emplace(++lastToken, std::move(operation));
    return kept;
  }

  Status startExchange(ExchangeOperation &operation, const CollectiveCall &call,
                       uint64_t sequence) {
    const std::vector<int32_t> &members = *call.members;
    int64_t n = int64_t(members.size());
    int64_t me = std::find(members.begin(), members.end(), rank()) - members.begin();
    int64_t bytes = call.count * byteSize(call.dtype);
    auto *in = static_cast<const uint8_t *>(call.input);
    auto *out = static_cast<uint8_t *>(call.output);
    uint64_t tag = makeTag(hashOf(members), sequence, 0, 0);
    if (bytes == 0)
      return Status::ok();
    if (call.kind == CollectiveKind::Broadcast) {
      if (me != 0)
        return operation.receive(members[0], tag, out, bytes);
      if (in != out)
        std::memmove(out, in, size_t(bytes));
      for (int64_t p = 1; p < n; ++p)
        AUTOPAR_RETURN_IF_ERROR(operation.send(members[size_t(p)], tag, in, bytes));
      return Status::ok();
    }
    bool isGather = call.kind == CollectiveKind::AllGather;
    bool isToAll = call.kind == CollectiveKind::AllToAll;
    if (isToAll && in == out) {
      operation.copy.assign(in, in + bytes);
      in = operation.copy.data();
    }
    int64_t part = isToAll ? bytes / n : bytes;
    int64_t sent = isToAll ? part : 0, received = isGather || isToAll ? part : 0;
    // What remains besides are reductions over a group of one: a copy.
    if (out + me * received != in + me * sent)
      std::memmove(out + me * received, in + me * sent, size_t(part));
    for (int64_t step = 1; step < n; ++step) {
      int64_t from = (me + n - step) % n;
      AUTOPAR_RETURN_IF_ERROR(
          operation.receive(members[size_t(from)], tag, out + from * received, part));
    }
    for (int64_t step = 1; step < n; ++step) {
      int64_t to = (me + step) % n;
      AUTOPAR_RETURN_IF_ERROR(operation.send(members[size_t(to)], tag, in + to * sent, part));
    }
    return Status::ok();
  }
};

} // namespace

std::unique_ptr<Communicator> createMessageCommunicator(std::unique_ptr<Transport> transport) {
  return std::make_unique<MessageCommunicator>(std::move(transport));
}

} // namespace autopar::runtime
