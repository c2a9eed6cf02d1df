// SPDX-License-Identifier: Apache-2.0
// Threads that drive ranks, where a job of theirs throws.
#include "../../lib/Runtime/core/RankWorkers.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

using namespace autopar::runtime;

namespace {

TEST(RankWorkers, WhatAJobThrowsReachesWhoeverRunsItOnceAllHaveEnded) {
  for (int32_t count : {1, 3}) {
    RankWorkers workers(count);
    std::atomic<int32_t> ended = 0;
    auto job = [&](int32_t worker) {
      ++ended;
      if (worker == count - 1)
        throw std::runtime_error("no memory");
    };
    EXPECT_THROW(workers.run(job), std::runtime_error);
    EXPECT_EQ(ended, count);
    EXPECT_NO_THROW(workers.run([&](int32_t) { --ended; }));
    EXPECT_EQ(ended, 0);
  }
}

} // namespace
