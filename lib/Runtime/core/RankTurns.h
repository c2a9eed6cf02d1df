// SPDX-License-Identifier: Apache-2.0
// Which rank a worker thread advances next, where a process has more ranks than cores: ranks that
// take turns of their own accord, when they wait, are not cut off in the middle of a product whose
// operands the caches hold.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>

namespace autopar::runtime {

/// Ranks 0 to `ranks - 1` of a process, shared by `workers` threads (at most as many as ranks). A
/// rank belongs to one worker at a time; which one that is changes only where ranks are more than
/// workers. All calls may come from any worker.
class RankTurns {
public:
  static constexpr int32_t kNone = -1;

  struct Turn {
    int32_t rank = kNone;
    bool hasBegun = false;
  };

  RankTurns(int32_t ranks, int32_t workers);

  /// The rank that a worker begins with: the one of its number.
  Turn first(int32_t worker) const { return {worker, false}; }
  /// Takes back a rank that waits; the one that was taken back longest ago, which is the same where
  /// there is no other.
  Turn next(const Turn &waiting);
  /// After a rank has ended: another, or kNone where the other workers have all that are left.
  Turn nextAfterEnd();
  /// Ranks that no worker has.
  int32_t waiting() const;

private:
  mutable std::mutex mutex;
  std::deque<Turn> queue;
};

} // namespace autopar::runtime
