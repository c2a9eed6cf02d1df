// SPDX-License-Identifier: Apache-2.0
// Rank 0's side of the TCP rendezvous: answers every rank, and tells all when one is gone.
#pragma once

#include "autopar/Base/Status.h"
#include "autopar/Runtime/Rendezvous.h"

#include <chrono>
#include <memory>
#include <string>

namespace autopar::runtime {

constexpr auto kPingInterval = std::chrono::milliseconds(500);
/// Where ranks that reach rank 0 through a loopback are reached by the others.
inline const std::string kAddressKey = "address of rank 0";

/// What is said of a rank from which nothing comes.
Status silentRank(const std::string &who, std::chrono::milliseconds time);

/// Threads of its own; its end waits for the others' goodbyes.
class RendezvousServer {
public:
  /// Owns the listening socket.
  RendezvousServer(int listener, const RendezvousOptions &options);
  ~RendezvousServer();

private:
  class State;
  std::unique_ptr<State> state;
};

} // namespace autopar::runtime
