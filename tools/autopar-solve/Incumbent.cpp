// SPDX-License-Identifier: Apache-2.0
// A thread that sleeps until the deadline or the end.
#include "Incumbent.h"

#include <chrono>

namespace autopar {

Incumbent::Incumbent(double seconds, TimeUp timeUp) : timeUp(std::move(timeUp)) {
  if (seconds > 0)
    watcher = std::thread([this, seconds] { wait(seconds); });
}

Incumbent::~Incumbent() {
  {
    std::lock_guard lock(mutex);
    over = true;
  }
  wake.notify_all();
  if (watcher.joinable())
    watcher.join();
}

void Incumbent::offer(double cost, const std::function<std::vector<int32_t>()> &choice) {
  if (!best.empty() && cost >= bestCost)
    return;
  std::vector<int32_t> better = choice(); // takes a while; the watcher does not wait for it
  std::lock_guard lock(mutex);
  best = std::move(better);
  bestCost = cost;
}

void Incumbent::wait(double seconds) {
  std::unique_lock lock(mutex);
  bool called = wake.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return over; });
  if (!called)
    timeUp(best);
}

} // namespace autopar
