// SPDX-License-Identifier: Apache-2.0
// Threads that drive ranks.
#include "RankWorkers.h"

#include <utility>

namespace autopar::runtime {

RankWorkers::RankWorkers(int32_t count) : workers(count) {
  for (int32_t worker = 0; worker < count && count > 1; ++worker)
    threads.emplace_back([this, worker] { loop(worker); });
}

RankWorkers::~RankWorkers() {
  {
    std::lock_guard lock(mutex);
    isStopping = true;
    changed.notify_all();
  }
  for (std::thread &thread : threads)
    thread.join();
}

void RankWorkers::run(const std::function<void(int32_t)> &wanted) {
  if (workers == 1)
    return wanted(0);
  std::unique_lock lock(mutex);
  job = &wanted;
  running = count();
  ++generation;
  changed.notify_all();
  changed.wait(lock, [this] { return running == 0; });
  job = nullptr;
  if (thrown)
    std::rethrow_exception(std::exchange(thrown, nullptr));
}

void RankWorkers::loop(int32_t worker) {
  uint64_t done = 0;
  std::unique_lock lock(mutex);
  while (true) {
    changed.wait(lock, [&] { return isStopping || generation != done; });
    if (isStopping)
      return;
    done = generation;
    const auto *current = job;
    lock.unlock();
    std::exception_ptr own;
    try {
      (*current)(worker);
    } catch (...) {
      own = std::current_exception();
    }
    lock.lock();
    if (!thrown)
      thrown = std::move(own);
    if (--running == 0)
      changed.notify_all();
  }
}

} // namespace autopar::runtime
