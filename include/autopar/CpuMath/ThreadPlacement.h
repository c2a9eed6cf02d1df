// SPDX-License-Identifier: Apache-2.0
// Keeps the threads of an OpenMP team on cores of their own, without binding them.
#pragma once

#include <chrono>
#include <optional>
#include <span>

namespace autopar::cpumath {

/// Threads that slept may be woken on a core where another one of their team waits awake. The
/// system finds a better place some ticks later, after 10 ms where it was measured, and until then
/// every call waits for the thread that does not run.
///
/// Threads are not bound (`OMP_PROC_BIND`): other processes would bind theirs to the same cores.
/// They are moved off a core that they share, and then may run wherever they could before.
class ThreadPlacement {
public:
  /// Of the team of `threads` that the calling thread leads.
  explicit ThreadPlacement(int threads) : threads(threads) {}

  /// To be called before the team is given work. Where it was last called so long ago that threads
  /// may have slept, wakes all and separates them; reads a clock otherwise.
  void check();

private:
  using Clock = std::chrono::steady_clock;
  int threads;
  Clock::time_point last = {};
};

/// Wakes a team of `threads`, which the calling thread leads, and moves those that share a core to
/// free ones, as far as there are any. Returns how many moved.
int separateThreads(int threads);

/// Where thread `self` of a team goes whose threads run on `cores`: nowhere where none before it
/// runs on its core, or where all of `allowed` are taken.
std::optional<int> coreToMoveTo(std::span<const int> cores, size_t self,
                                std::span<const int> allowed);

} // namespace autopar::cpumath
