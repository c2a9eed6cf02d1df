// SPDX-License-Identifier: Apache-2.0
// Time without a clock: tasks with durations on in-order queues, dependencies among them, and links
// that messages share. The planner's evaluators run on it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/VirtualTime/SharedLinks.h"

namespace autopar {

/// One piece of work. A task starts when its queue is free, all tasks listed before it on the queue
/// have ended, and all tasks in `after` have ended. A task on several queues (a collective, a
/// transfer over a link) occupies all of them for its whole duration.
struct VirtualTask {
  std::string name;
  std::vector<int32_t> queues; ///< at least one; order among tasks of a queue is list order
  double durationUs = 0;
  std::vector<int32_t> after; ///< indices of other tasks, in any order
  /// What a message takes for its bytes where it shares no link, before `durationUs` begins.
  double aloneUs = 0;
  SharedLinks::Path path{};
  /// What begins on a queue after this task began does so that much later.
  struct Interruption {
    int32_t queue;
    double us;
  };
  std::vector<Interruption> interrupts{};
};

struct VirtualProgram {
  std::vector<std::string> queues;
  size_t ports = 0; ///< of links that messages share
  std::vector<VirtualTask> tasks;
};

struct TaskTimes {
  double startUs = 0;
  double endUs = 0;
};

struct VirtualRun {
  double makespanUs = 0;
  std::vector<TaskTimes> tasks;                ///< per task
  std::vector<std::vector<int32_t>> timelines; ///< per queue: tasks in the order they ran
};

/// Runs the program. BadInput for an index out of range or a negative duration; for a cycle
/// (deadlock) the message names the tasks that block each other.
Result<VirtualRun> runVirtualTime(const VirtualProgram &program);

} // namespace autopar
