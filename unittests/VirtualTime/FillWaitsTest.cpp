// SPDX-License-Identifier: Apache-2.0
// Which kernels go where others wait, and what that saves.
#include "autopar/VirtualTime/FillWaits.h"

#include <gtest/gtest.h>

using namespace autopar;

namespace {

constexpr int64_t kMuch = int64_t{1} << 40;
using Order = std::vector<int32_t>;

QueuedTask kernel(double us, std::vector<int32_t> before = {}, int64_t keptBytes = 0) {
  return {QueuedTask::kCompute, us, std::move(before), keptBytes};
}
QueuedTask collective(double us, std::vector<int32_t> before) {
  return {QueuedTask::kCommunication, us, std::move(before)};
}

TEST(FillWaits, AKernelThatNobodyNeedsYetRunsWhileAnotherWaits) {
  FilledWaits filled = fillWaits({kernel(50), kernel(50), collective(40, {1}), kernel(10, {2})}, 0);
  EXPECT_EQ(filled.order, (Order{1, 2, 0, 3}));
  EXPECT_DOUBLE_EQ(filled.savedUs, 40);
}

TEST(FillWaits, WhatNeedsAKernelSoonerGoesBehindIt) {
  FilledWaits filled =
      fillWaits({kernel(50), kernel(5, {0}), kernel(50), collective(40, {2}), kernel(10, {3})}, 0);
  EXPECT_EQ(filled.order, (Order{2, 3, 0, 1, 4}));
}

TEST(FillWaits, TheShortestThatFillsAWaitIsTaken) {
  FilledWaits filled = fillWaits(
      {kernel(500), kernel(60), kernel(20), kernel(50), collective(40, {3}), kernel(10, {4})}, 0);
  EXPECT_EQ(filled.order, (Order{0, 2, 3, 4, 1, 5}));
}

TEST(FillWaits, TheLongestWaitGetsTheOnlyKernel) {
  FilledWaits filled = fillWaits({kernel(700), kernel(50), collective(100, {1}), kernel(10, {2}),
                                  collective(700, {3}), kernel(10, {4})},
                                 0);
  EXPECT_EQ(filled.order, (Order{1, 2, 3, 4, 0, 5}));
  EXPECT_DOUBLE_EQ(filled.savedUs, 700);
}

TEST(FillWaits, WhatStandsBesideACollectiveStaysThere) {
  std::vector<QueuedTask> tasks = {kernel(50),         collective(40, {0}), kernel(40),
                                   kernel(10, {1, 2}), collective(40, {3}), kernel(10, {4})};
  EXPECT_EQ(fillWaits(tasks, 0).savedUs, 0);
}

TEST(FillWaits, OperandsThatLiveOnAreCounted) {
  std::vector<QueuedTask> tasks = {kernel(50, {}, 1000), kernel(50), collective(40, {1}),
                                   kernel(10, {2})};
  EXPECT_EQ(fillWaits(tasks, 999).savedUs, 0);
  EXPECT_EQ(fillWaits(tasks, 1000).savedUs, 40);
}

TEST(FillWaits, WhatMayNotMoveStays) {
  std::vector<QueuedTask> tasks = {kernel(50), kernel(50), collective(40, {1}), kernel(10, {2})};
  tasks.front().mayMove = false;
  EXPECT_EQ(fillWaits(tasks, kMuch).order, (Order{0, 1, 2, 3}));
}

// A collective that nobody makes anything for writes where kernels before it have read.
TEST(FillWaits, ACollectiveStartsBehindTheKernelsBeforeIt) {
  FilledWaits filled = fillWaits({kernel(50), collective(40, {}), kernel(10, {1})}, 0);
  EXPECT_EQ(filled.order, (Order{1, 0, 2}));
  EXPECT_DOUBLE_EQ(filled.savedUs, 40);
}

TEST(FillWaits, NothingIsNothing) { EXPECT_TRUE(fillWaits({}, kMuch).order.empty()); }

} // namespace
