// SPDX-License-Identifier: Apache-2.0
// Time without a clock: tasks with durations on in-order queues, dependencies among them, links
// that messages share, and memory that tasks take and give back. The planner's evaluators run on
// it.
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
  /// Memory pool that the deltas below apply to; -1: none.
  int32_t memory = -1;
  int64_t bytesAtStart = 0; ///< added when the task starts (may be negative)
  int64_t bytesAtEnd = 0;   ///< added when it ends
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
  std::vector<std::string> memories;
  std::vector<int64_t> initialBytes; ///< per memory; empty: all 0
  size_t ports = 0;                  ///< of links that messages share
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
  std::vector<double> busyUs;                  ///< per queue
  std::vector<int64_t> peakBytes;              ///< per memory
  std::vector<double> peakAtUs;                ///< per memory
};

/// Runs the program. BadInput for an index out of range or a negative duration; for a cycle
/// (deadlock) the message names the tasks that block each other.
Result<VirtualRun> runVirtualTime(const VirtualProgram &program);

} // namespace autopar
