// SPDX-License-Identifier: Apache-2.0
// Notices that the ranks of a process wait for each other forever, which a program that others made
// may do. Without a device of their own they move only by messages, and those are counted.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace autopar::runtime {

/// All calls may come from any thread.
class StuckRanks {
public:
  explicit StuckRanks(size_t ranks) : waitsSince(ranks, kRuns) {}

  /// The rank is advanced now.
  void runs(int32_t rank) { set(rank, kRuns); }
  /// It was, and waits; `messages` had been handed over before (nothing: that is not known).
  void waits(int32_t rank, std::optional<uint64_t> messages) {
    set(rank, messages ? int64_t(*messages) : kRuns);
  }
  void ends(int32_t rank) { set(rank, kEnded); }

  /// Whether all ranks that have not ended wait, and no message came since: `messages` are handed
  /// over by now.
  bool all(std::optional<uint64_t> messages) const {
    std::lock_guard lock(mutex);
    for (int64_t since : waitsSince)
      if (since != kEnded && (!messages || since != int64_t(*messages)))
        return false;
    return true;
  }

private:
  static constexpr int64_t kRuns = -1, kEnded = -2;
  mutable std::mutex mutex;
  std::vector<int64_t> waitsSince; ///< by rank: messages, or one of the above

  void set(int32_t rank, int64_t since) {
    std::lock_guard lock(mutex);
    waitsSince[size_t(rank)] = since;
  }
};

} // namespace autopar::runtime
