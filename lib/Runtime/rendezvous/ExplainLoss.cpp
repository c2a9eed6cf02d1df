// SPDX-License-Identifier: Apache-2.0
// Who died, where a connection only says that it broke.
#include "autopar/Runtime/Rendezvous.h"

#include <thread>

namespace autopar::runtime {

Status explainLoss(const Status &status, const std::function<Status()> &verdict) {
  constexpr auto kPatience = std::chrono::seconds(4);
  auto end = std::chrono::steady_clock::now() + kPatience;
  while (status.code() == StatusCode::PeerLost && std::chrono::steady_clock::now() < end) {
    if (Status known = verdict(); !known.isOk())
      return known;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return status;
}

} // namespace autopar::runtime
