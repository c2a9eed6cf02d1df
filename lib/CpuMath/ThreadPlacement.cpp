// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/CpuMath/ThreadPlacement.h"

#include "autopar/CpuMath/OpenMP.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include <sched.h>

namespace autopar::cpumath {
namespace {

/// Threads wait awake for longer (kThreadWaitRounds).
constexpr std::chrono::microseconds kAwake(500);

/// What the threads of a team tell each other.
struct Team {
  explicit Team(int threads) : cores(size_t(threads)) {}
  std::vector<int> cores; ///< on which each thread came up
  std::atomic<int> arrived = 0, moved = 0;
};

bool contains(std::span<const int> cores, int core) {
  return std::find(cores.begin(), cores.end(), core) != cores.end();
}

/// With a thread before it.
bool sharesCore(std::span<const int> cores, size_t thread) {
  return contains(cores.first(thread), cores[thread]);
}

/// Moves the calling thread, `self` of its team.
bool separate(std::span<const int> cores, size_t self) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
    return false; // of a machine with more cores than fit into a set
  std::vector<int> listed;
  for (int core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &allowed))
      listed.push_back(core);
  std::optional<int> core = coreToMoveTo(cores, self, listed);
  if (!core)
    return false;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(*core, &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0 &&
         sched_setaffinity(0, sizeof(allowed), &allowed) == 0;
}

void arrive(void *data) {
  Team &team = *static_cast<Team *>(data);
  size_t self = size_t(omp_get_thread_num()), all = size_t(omp_get_num_threads());
  team.cores[self] = sched_getcpu();
  ++team.arrived;
  while (size_t(team.arrived) < all)
    sched_yield(); // to the thread that shares the core
  std::span<const int> cores(team.cores.data(), all);
  if (sharesCore(cores, self) && separate(cores, self))
    ++team.moved;
}

} // namespace

std::optional<int> coreToMoveTo(std::span<const int> cores, size_t self,
                                std::span<const int> allowed) {
  if (!sharesCore(cores, self))
    return std::nullopt;
  size_t taken = 0; // by those before that move too
  for (size_t thread = 0; thread < self; ++thread)
    taken += sharesCore(cores, thread);
  for (int core : allowed)
    if (!contains(cores, core) && taken-- == 0)
      return core;
  return std::nullopt;
}

int separateThreads(int threads) {
  Team team(threads);
  GOMP_parallel(arrive, &team, unsigned(threads), 0);
  return team.moved;
}

void ThreadPlacement::check() {
  if (threads < 2)
    return;
  Clock::time_point now = Clock::now();
  if (now - last > kAwake)
    separateThreads(threads);
  last = now;
}

} // namespace autopar::cpumath
