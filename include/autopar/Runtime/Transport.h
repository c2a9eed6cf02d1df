// SPDX-License-Identifier: Apache-2.0
// Carries messages between ranks: the small part of a communicator that differs between threads of
// one process, Gloo and MPI. Collectives are built on it once (MessageCommunicator), so that every
// launcher adds the same numbers in the same order.
#pragma once

#include "autopar/Base/Status.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace autopar::runtime {

class Rendezvous;

/// A posted message. Valid until test() answers true or an error.
using MessageId = uint64_t;

/// Bytes of a sender, read where they lie. Its message is complete when the loan is dropped.
struct Loan {
  const void *data = nullptr;
  std::shared_ptr<void> hold;
};

/// One rank's end. All calls of one object come from one thread at a time, except abort(), which
/// any thread may call. Nothing blocks except wait().
class Transport {
public:
  virtual ~Transport() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t worldSize() const = 0;

  /// Posts a message. The bytes must stay valid and unchanged until test() answers true. Messages
  /// of one (sender, receiver, tag) arrive in order. Sizes of both sides must be equal.
  virtual Result<MessageId> send(int32_t peer, uint64_t tag, const void *data, size_t bytes) = 0;
  virtual Result<MessageId> receive(int32_t peer, uint64_t tag, void *data, size_t bytes) = 0;

  /// Whether ranks share memory, so that messages may be borrowed instead of received.
  virtual bool lends() const { return false; }
  /// A receive that copies nothing: `loan`, which must stay where it is until then, is filled when
  /// test() answers true. Only where lends() is true.
  virtual Result<MessageId> borrow(int32_t peer, uint64_t tag, Loan &loan, size_t bytes) {
    return Status::internal("rank " + std::to_string(rank()) + " cannot borrow from rank " +
                            std::to_string(peer));
  }

  /// True when the message is complete; its id is then forgotten. PeerLost names the rank that is
  /// gone.
  virtual Result<bool> test(MessageId message) = 0;

  /// Returns when something may have changed, at the latest after `limit`.
  virtual void wait(std::chrono::microseconds limit) = 0;

  /// Ok, or PeerLost where this is known without a message that fails.
  virtual Status check() { return Status::ok(); }

  /// Makes every later call of every rank fail with PeerLost: this rank failed for `reason`.
  virtual void abort(const Status &reason) = 0;
  /// Whom abort() tells too, where the ranks met without one; not owned, outlives the transport.
  virtual void setRendezvous(Rendezvous &rendezvous) { (void)rendezvous; }
  /// How many messages were handed over between all ranks; nothing where that is not known.
  virtual std::optional<uint64_t> handedOver() { return std::nullopt; }
};

/// What a transport plugin (libautopar_gloo.so, libautopar_mpi.so) needs to join its world.
/// Key-value access goes through the rendezvous; plugins that bring their own launcher ignore it.
struct TransportOptions {
  int32_t rank = 0;
  int32_t worldSize = 1;
  Rendezvous *rendezvous = nullptr; ///< not owned, outlives the transport
  std::string host;                 ///< address this rank is reached at, empty = the host name's
  std::chrono::milliseconds timeout{60000};
  /// A peer that acknowledges no bytes for this long is lost.
  std::chrono::milliseconds hangTimeout{10000};
};

/// Symbol `autoparCreateTransport` of a plugin. Returns null and fills `status` on failure.
using CreateTransportFunction = Transport *(*)(const TransportOptions *options, Status *status);

/// Opens `libautopar_<name>.so` beside the running program or library (../lib, same folder,
/// AUTOPAR_PLUGIN_PATH) and creates its transport. NoDevice says what was looked for.
Result<std::unique_ptr<Transport>> loadTransport(const std::string &name,
                                                 const TransportOptions &options);

} // namespace autopar::runtime
