// SPDX-License-Identifier: Apache-2.0
// Threads of a team that share a core are moved to free ones, and stay free to run elsewhere.
#include "autopar/CpuMath/ThreadPlacement.h"

#include "autopar/CpuMath/OpenMP.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include <sched.h>

using namespace autopar::cpumath;

namespace {

TEST(ThreadPlacement, TheFirstThreadOfACoreStays) {
  const std::vector<int> cores = {3, 5, 3}, allowed = {0, 3, 5, 7};
  EXPECT_EQ(coreToMoveTo(cores, 0, allowed), std::nullopt);
  EXPECT_EQ(coreToMoveTo(cores, 1, allowed), std::nullopt);
  EXPECT_EQ(coreToMoveTo(cores, 2, allowed), 0);
}

TEST(ThreadPlacement, ThreadsOfOneCoreGoToDifferentFreeOnes) {
  const std::vector<int> cores = {2, 2, 4, 2}, allowed = {1, 2, 4, 6};
  EXPECT_EQ(coreToMoveTo(cores, 1, allowed), 1);
  EXPECT_EQ(coreToMoveTo(cores, 3, allowed), 6);
}

TEST(ThreadPlacement, WithoutAFreeCoreTheyShareOne) {
  const std::vector<int> cores = {0, 1, 1, 0}, allowed = {0, 1};
  EXPECT_EQ(coreToMoveTo(cores, 2, allowed), std::nullopt);
  EXPECT_EQ(coreToMoveTo(cores, 3, allowed), std::nullopt);
}

constexpr int kThreads = 2;
using Cores = std::array<cpu_set_t, kThreads>;

void readAllowed(void *data) {
  cpu_set_t &allowed = (*static_cast<Cores *>(data))[size_t(omp_get_thread_num())];
  ASSERT_EQ(sched_getaffinity(0, sizeof(allowed), &allowed), 0);
}

/// Each thread comes to the first core that it may run on.
void crowd(void *data) {
  cpu_set_t allowed = (*static_cast<Cores *>(data))[size_t(omp_get_thread_num())], first;
  CPU_ZERO(&first);
  for (int core = 0; CPU_COUNT(&first) == 0; ++core)
    if (CPU_ISSET(core, &allowed))
      CPU_SET(core, &first);
  ASSERT_EQ(sched_setaffinity(0, sizeof(first), &first), 0);
  ASSERT_EQ(sched_setaffinity(0, sizeof(allowed), &allowed), 0);
}

TEST(ThreadPlacement, ThreadsThatShareACoreAreMovedAndMayStillRunAnywhere) {
  Cores before, after;
  GOMP_parallel(readAllowed, &before, kThreads, 0);
  int expected = CPU_COUNT(&before[0]) < kThreads ? 0 : 1; // on one core there is nowhere to go
  int moved = 0;
  for (int attempt = 0; attempt < 200 && moved == 0; ++attempt) { // the system may be faster
    GOMP_parallel(crowd, &before, kThreads, 0);
    moved = separateThreads(kThreads);
  }
  EXPECT_EQ(moved, expected);
  GOMP_parallel(readAllowed, &after, kThreads, 0);
  for (int thread = 0; thread < kThreads; ++thread)
    EXPECT_TRUE(CPU_EQUAL(&before[size_t(thread)], &after[size_t(thread)]));
}

} // namespace
