// SPDX-License-Identifier: Apache-2.0
// Threads that drive the ranks of a process (RankTurns.h says which of them drives which).
#pragma once

#include "autopar/Base/Status.h"

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autopar::runtime {

/// A fixed set of threads. run() hands the same job to all and waits for all. A worker alone is the
/// thread that calls run(): to wake another one takes part of a short step.
class RankWorkers {
public:
  explicit RankWorkers(int32_t count);
  ~RankWorkers();
  RankWorkers(const RankWorkers &) = delete;
  RankWorkers &operator=(const RankWorkers &) = delete;

  int32_t count() const { return workers; }
  /// Calls job(worker) for every worker. Throws what the first of them threw, once all have ended.
  void run(const std::function<void(int32_t worker)> &job);

private:
  int32_t workers;
  std::mutex mutex;
  std::condition_variable changed;
  const std::function<void(int32_t)> *job = nullptr;
  uint64_t generation = 0;
  int32_t running = 0;
  std::exception_ptr thrown; ///< by the first job that threw
  bool isStopping = false;
  std::vector<std::thread> threads;

  void loop(int32_t worker);
};

} // namespace autopar::runtime
