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
  explicit StuckRanks(size_t ranks) : states(ranks) {}

  /// The rank is advanced now.
  void runs(int32_t rank) {
    std::lock_guard lock(mutex);
    states[size_t(rank)].isRunning = true;
  }
  /// It was, and waits; `messages` had been handed over before (nothing: that is not known, or its
  /// device works).
  void waits(int32_t rank, std::optional<uint64_t> messages) {
    std::lock_guard lock(mutex);
    State &state = states[size_t(rank)];
    state.times = messages == state.messages ? state.times + 1 : 1;
    state.messages = messages;
    state.isRunning = false;
  }
  void ends(int32_t rank) {
    std::lock_guard lock(mutex);
    states[size_t(rank)].hasEnded = true;
  }

  /// Whether all ranks that have not ended wait, and no message came since: `messages` are handed
  /// over by now. A collective may have work to do behind its last message and wait once more in
  /// between, so each has waited many times.
  bool all(std::optional<uint64_t> messages) const {
    std::lock_guard lock(mutex);
    for (const State &state : states)
      if (!state.hasEnded &&
          (!messages || state.isRunning || state.messages != messages || state.times < kMany))
        return false;
    return true;
  }

private:
  static constexpr int kMany = 200;
  struct State {
    std::optional<uint64_t> messages; ///< when it was advanced last
    int times = 0;                    ///< that it waited since they came
    bool isRunning = true, hasEnded = false;
  };
  mutable std::mutex mutex;
  std::vector<State> states; ///< by rank
};

} // namespace autopar::runtime
