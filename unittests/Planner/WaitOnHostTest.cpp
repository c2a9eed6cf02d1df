// SPDX-License-Identifier: Apache-2.0
// What the link to the host has time for.
#include "autopar/Planner/Recompute.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

using namespace autopar;

namespace {

/// A chain of forward operations and a derivative of each, which reads what the operation gives.
RecomputeProblem chain(const std::vector<double> &us, const std::vector<int64_t> &bytes) {
  RecomputeProblem problem;
  auto count = static_cast<int32_t>(us.size());
  for (int32_t i = 0; i < count; ++i) {
    RecomputeOp op{"f" + std::to_string(i), RecomputeOp::kBefore, us[i], {}, {i}};
    if (i > 0)
      op.reads = {i - 1};
    op.mayRecompute = true;
    problem.ops.push_back(op);
    problem.values.push_back({bytes[i], false, false});
  }
  for (int32_t i = count; i-- > 0;) {
    RecomputeOp op{"b" + std::to_string(i), RecomputeOp::kBefore, 0, {i}, {2 * count - 1 - i}};
    op.isBackward = true;
    problem.ops.push_back(op);
    problem.values.push_back({1, false, false});
  }
  return problem;
}

/// A byte takes a microsecond each way, and the device's memory a thousandth of that.
DeviceType device() {
  DeviceType type;
  type.hostLink.bytesPerSecond = 1e6;
  type.memoryBytesPerSecond = 1e9;
  return type;
}

std::vector<int32_t> waiting(const RecomputeProblem &problem) {
  std::vector<int32_t> ops;
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].waitsOnHost)
      ops.push_back(static_cast<int32_t>(i));
  return ops;
}

TEST(WaitOnHost, WhatIsDearestPerByteGoesFirst) {
  // Behind the first there are 50 us, behind the second 40, behind the third 30.
  RecomputeProblem problem = chain({20, 10, 10, 30}, {45, 8, 20, 1});
  letWaitOnHost(problem, device(), 1000);
  EXPECT_EQ(waiting(problem), (std::vector<int32_t>{1, 2}));
  EXPECT_NEAR(problem.ops[1].timeUs, 0.016, 1e-9); // there and back
  EXPECT_EQ(problem.ops[0].timeUs, 20);
}

TEST(WaitOnHost, TheLastValueIsNotStoredInTime) {
  RecomputeProblem problem = chain({10, 10}, {1, 1});
  letWaitOnHost(problem, device(), 1000);
  EXPECT_EQ(waiting(problem), (std::vector<int32_t>{0}));
}

TEST(WaitOnHost, AsManyBytesAsTheHostHas) {
  RecomputeProblem problem = chain({50, 50, 50, 50}, {10, 10, 10, 10});
  letWaitOnHost(problem, device(), 25);
  EXPECT_EQ(waiting(problem).size(), 2u);
  RecomputeProblem none = chain({50, 50, 50, 50}, {10, 10, 10, 10});
  letWaitOnHost(none, device(), 0);
  EXPECT_TRUE(waiting(none).empty());
}

TEST(WaitOnHost, WhatIsCheaperToComputeAgainIsLeft) {
  RecomputeProblem problem = chain({0.001, 100}, {20, 1});
  letWaitOnHost(problem, device(), 1000);
  EXPECT_TRUE(waiting(problem).empty());
}

// What is taken is stored in time.
TEST(WaitOnHost, NoValueIsStillOnItsWayWhereTheSecondBehindItIsMade) {
  std::mt19937_64 random(7);
  size_t taken = 0;
  for (int round = 0; round < 200; ++round) {
    size_t count = 3 + random() % 20;
    std::vector<double> us;
    std::vector<int64_t> bytes;
    for (size_t i = 0; i < count; ++i) {
      us.push_back(1 + static_cast<double>(random() % 12));
      bytes.push_back(1 + static_cast<int64_t>(random() % 20));
    }
    RecomputeProblem problem = chain(us, bytes);
    letWaitOnHost(problem, device(), 1000000);
    std::vector<int32_t> stored = waiting(problem);
    taken += stored.size();
    std::vector<double> starts{0};
    for (double time : us)
      starts.push_back(starts.back() + time);
    double link = 0;
    for (size_t i = 0; i < stored.size(); ++i) {
      link = std::max(link, starts[stored[i] + 1]) + static_cast<double>(bytes[stored[i]]);
      EXPECT_LE(link, starts[i + 2 < stored.size() ? stored[i + 2] : count] + 1e-9) << round;
    }
  }
  EXPECT_GT(taken, 400u);
}

// A value on the host needs nothing to be there again: its operands are not kept for it.
TEST(WaitOnHost, WhatIsFetchedReadsNothing) {
  RecomputeProblem problem = chain({10, 10, 10}, {100, 100, 100});
  problem.ops[1].waitsOnHost = true;
  std::vector<char> chosen(problem.ops.size(), 0);
  int64_t kept = useOf(problem, chosen).peakBytes;
  chosen[1] = 1;
  RecomputeUse use = useOf(problem, chosen);
  EXPECT_EQ(use.again, (std::vector<int32_t>{1}));
  EXPECT_LT(use.peakBytes, kept);
  chosen[0] = 1; // is read by its own derivative alone
  EXPECT_EQ(useOf(problem, chosen).runsFor[0], 5);
}

} // namespace
