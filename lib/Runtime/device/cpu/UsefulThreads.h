// SPDX-License-Identifier: Apache-2.0
// How many threads are worth their start.
//
// Two threads begin and end an empty kernel together in 0.6 us while they wait awake, and a step of
// 0.45 ms took 0.58 where the second one slept (two cores of a Zen 4): a detector of a word that is
// asked 50 times a second gains nothing by it.
#pragma once
#include "autopar/Artifact/Program.h"

#include <algorithm>

namespace autopar::runtime {

/// Nanoseconds that one thread takes for `instruction` at the most that a core does: 100 GFLOP/s
/// and 100 GB/s from its caches. What is worth no thread by this may still take longer.
inline int64_t leastNanoseconds(const artifact::Instruction &instruction) {
  return instruction.flops / 100 + instruction.bytes / 100;
}

/// Threads for one generated kernel, of `threads`: each has a microsecond of work at least.
inline int32_t usefulThreads(const artifact::Instruction &instruction, int32_t threads) {
  return int32_t(std::clamp<int64_t>(leastNanoseconds(instruction) / 1000, 1, threads));
}

/// Threads for all of `program`, of `threads`: one where a step has less than a quarter of a
/// millisecond of work, of which a second thread would spare about as much as it takes to wake.
inline int32_t usefulThreads(const artifact::Program &program, int32_t threads) {
  int64_t left = 250'000;
  for (const artifact::TimetableRow &row : program.timetable)
    for (const artifact::Instruction &instruction : program.entries[size_t(row.entry)].instructions)
      if ((left -= std::min(left, leastNanoseconds(instruction))) == 0)
        return threads;
  return 1;
}

} // namespace autopar::runtime
