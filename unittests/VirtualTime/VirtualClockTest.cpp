// SPDX-License-Identifier: Apache-2.0
#include "autopar/VirtualTime/VirtualClock.h"

#include <gtest/gtest.h>

using namespace autopar;

TEST(VirtualClock, StandsStillUntilSomebodyWakes) {
  VirtualClock clock;
  std::vector<int32_t> awake{7};
  EXPECT_FALSE(clock.advance(awake));
  EXPECT_TRUE(awake.empty());
  EXPECT_EQ(clock.nowNs(), 0);
}

TEST(VirtualClock, GoesToTheEarliestTimeAndWakesEachOnce) {
  VirtualClock clock;
  clock.wake(30, 1);
  clock.wake(10, 5);
  clock.wake(10, 2);
  clock.wake(10, 5);
  std::vector<int32_t> awake;
  ASSERT_TRUE(clock.advance(awake));
  EXPECT_EQ(clock.nowNs(), 10);
  EXPECT_EQ(awake, (std::vector<int32_t>{2, 5}));
  clock.wake(10, 3); // of the same moment: time does not move
  ASSERT_TRUE(clock.advance(awake));
  EXPECT_EQ(clock.nowNs(), 10);
  EXPECT_EQ(awake, (std::vector<int32_t>{3}));
  ASSERT_TRUE(clock.advance(awake));
  EXPECT_EQ(clock.nowNs(), 30);
}
