// SPDX-License-Identifier: Apache-2.0
// The best choice so far, kept where a deadline can reach it: when time is up, it is written and
// the process ends, whatever the engine is doing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace autopar {

class Incumbent {
public:
  /// Called at the deadline with the best choice, empty where none fits yet; does not return.
  using TimeUp = std::function<void(const std::vector<int32_t> &)>;

  /// `seconds` <= 0: no deadline.
  Incumbent(double seconds, TimeUp timeUp);
  /// Calls off the deadline.
  ~Incumbent();

  void offer(double cost, const std::function<std::vector<int32_t>()> &choice);

private:
  void wait(double seconds);

  TimeUp timeUp;
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<int32_t> best;
  double bestCost = 0;
  bool over = false;
  std::thread watcher;
};

} // namespace autopar
