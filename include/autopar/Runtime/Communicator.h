// SPDX-License-Identifier: Apache-2.0
// Collectives and messages of one rank, as operations that are started and then polled.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Transport.h"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace autopar::runtime {

/// Completion of an issued operation, unique within its communicator or device.
using Token = uint64_t;

/// Arguments of a collective, as artifact::Collective defines them, with addresses.
struct CollectiveCall {
  artifact::CollectiveKind kind = artifact::CollectiveKind::AllReduce;
  artifact::Reduction reduction = artifact::Reduction::Sum;
  DataType dtype = DataType::F32;
  int64_t count = 0; ///< elements of the input on each rank
  const void *input = nullptr;
  void *output = nullptr;
  const std::vector<int32_t> *members = nullptr; ///< world ranks; outlives the operation
};

/// One rank's communicator. Operations are started in the same order by all members of a group;
/// none of the calls but wait() blocks. Reductions run in member order and so give the same bits
/// anywhere, but for those of NCCL, which has an order of its own.
class Communicator {
public:
  virtual ~Communicator() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t worldSize() const = 0;

  virtual Result<Token> collective(const CollectiveCall &call) = 0;
  /// Sends `bytes` of input to `sendTo` and receives as many from `receiveFrom`; -1 = nobody, and
  /// nobody to receive from fills the output with zeros.
  virtual Result<Token> permute(const void *input, void *output, int64_t bytes, int32_t sendTo,
                                int32_t receiveFrom) = 0;
  virtual Result<Token> send(int32_t peer, int32_t tag, const void *data, int64_t bytes) = 0;
  virtual Result<Token> receive(int32_t peer, int32_t tag, void *data, int64_t bytes) = 0;

  /// Advances the operation; true when complete, after which the token is forgotten.
  virtual Result<bool> test(Token token) = 0;
  /// Returns when something may have changed, at the latest after `limit`.
  virtual void wait(std::chrono::microseconds limit) = 0;
  /// Ok, or why the job ends; asked now and then while a rank waits.
  virtual Status check() { return Status::ok(); }
  /// Why Device::capture() of the rank's device cannot record its operations too ("goes ...");
  /// empty where it can. captureAfter() then says what the next one comes after, tokens of the
  /// device, and its own token is the device's.
  virtual std::string whyUncapturable() const { return "goes through memory of the host"; }
  virtual void captureAfter(std::span<const Token> tokens) { (void)tokens; }
  /// Ends the job for all ranks: this one failed for `reason`.
  virtual void abort(const Status &reason) = 0;
  /// As of a transport.
  virtual std::optional<uint64_t> handedOver() { return std::nullopt; }
};

/// Collectives over any transport. The transport is owned.
std::unique_ptr<Communicator> createMessageCommunicator(std::unique_ptr<Transport> transport);

/// Transports of `worldSize` ranks in this process, one per rank. They share state and may be
/// destroyed in any order.
std::vector<std::unique_ptr<Transport>> createInProcessTransports(int32_t worldSize);

} // namespace autopar::runtime
