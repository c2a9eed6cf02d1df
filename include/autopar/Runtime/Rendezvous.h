// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job find each other and learn of each other's death: a small key-value store
// with heartbeats. Carries no tensors.
#pragma once

#include "autopar/Base/Status.h"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autopar::runtime {

struct RendezvousOptions {
  int32_t rank = 0;
  int32_t worldSize = 1;
  /// How long to wait for ranks that have not arrived.
  std::chrono::milliseconds arrivalTimeout{60000};
  /// A rank without a heartbeat for this long is stuck (stopped process, lost network).
  std::chrono::milliseconds hangTimeout{10000};
};

/// One rank's view. Thread-safe.
class Rendezvous {
public:
  virtual ~Rendezvous() = default;

  virtual int32_t rank() const = 0;
  virtual int32_t worldSize() const = 0;

  /// Publishes a value; keys are written once.
  virtual Status put(const std::string &key, const std::string &value) = 0;
  /// Waits for a value. PeerLost when a rank dies meanwhile or nobody wrote it in time.
  virtual Result<std::string> get(const std::string &key, std::chrono::milliseconds timeout) = 0;

  /// The address at which the other ranks reach this one. Waits for them where it depends on them.
  virtual Result<std::string> address() = 0;

  /// Ok, or PeerLost naming the rank that died, hangs or reported its own failure. Cheap.
  virtual Status verdict() = 0;
  /// Tells all ranks that this one fails, and why.
  virtual void fail(const Status &reason) = 0;
  /// Says goodbye: the end of this rank is no failure. Called by whoever finished its work.
  virtual void leave() = 0;
};

/// Why a connection was lost: one that breaks does not say who died, and the verdict soon does.
/// Waits for it some seconds; `status` where there is none, and where it is another failure.
Status explainLoss(const Status &status, const std::function<Status()> &verdict);

/// Rank 0 listens on `port` of `host`, the others connect. Mismatch when ranks disagree about the
/// world size or a rank number comes twice.
Result<std::unique_ptr<Rendezvous>> createTcpRendezvous(const std::string &host, uint16_t port,
                                                        const RendezvousOptions &options);

/// The same where nobody knows before where rank 0 will be: it listens at a port of its own choice,
/// and `share` hands what rank 0 says to every rank, rank 0 included, by other means. The others
/// try all addresses of rank 0's machine, or `named` where rank 0 names one.
using ShareText = std::function<Result<std::string>(const std::string &ofRankZero)>;
Result<std::unique_ptr<Rendezvous>> createTcpRendezvous(const ShareText &share,
                                                        const std::string &named,
                                                        const RendezvousOptions &options);

/// Over a folder that all ranks share. It must be empty at the start.
Result<std::unique_ptr<Rendezvous>> createFileRendezvous(const std::string &folder,
                                                         const RendezvousOptions &options);

/// For ranks that are threads of one process; used by tests.
std::vector<std::unique_ptr<Rendezvous>> createInProcessRendezvous(int32_t worldSize);

} // namespace autopar::runtime
