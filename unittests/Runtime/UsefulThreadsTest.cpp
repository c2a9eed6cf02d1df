// SPDX-License-Identifier: Apache-2.0
#include "UsefulThreads.h"

#include <gtest/gtest.h>

using namespace autopar;
using namespace autopar::runtime;

namespace {

artifact::Instruction instruction(int64_t flops, int64_t bytes) {
  artifact::Instruction result;
  result.flops = flops;
  result.bytes = bytes;
  return result;
}

/// One entry of `instructions` like `each`, which a step runs `rows` times.
artifact::Program program(int rows, size_t instructions, const artifact::Instruction &each) {
  artifact::Program result;
  result.entries.push_back({"step", std::vector<artifact::Instruction>(instructions, each)});
  for (int row = 0; row < rows; ++row)
    result.timetable.push_back({0, row});
  return result;
}

TEST(UsefulThreadsTest, EachOfAKernelHasAMicrosecondOfWork) {
  EXPECT_EQ(usefulThreads(instruction(0, 0), 8), 1);
  EXPECT_EQ(usefulThreads(instruction(70'144, 70'144), 8), 1);
  EXPECT_EQ(usefulThreads(instruction(0, 350'000), 8), 3);
  EXPECT_EQ(usefulThreads(instruction(350'000, 0), 8), 3);
  EXPECT_EQ(usefulThreads(instruction(0, 1 << 30), 8), 8);
}

TEST(UsefulThreadsTest, AProgramOfShortStepsHasOne) {
  artifact::Instruction tenMicroseconds = instruction(500'000, 500'000);
  EXPECT_EQ(usefulThreads(program(1, 24, tenMicroseconds), 8), 1);
  EXPECT_EQ(usefulThreads(program(1, 26, tenMicroseconds), 8), 8);
  EXPECT_EQ(usefulThreads(program(2, 13, tenMicroseconds), 8), 8);
}

TEST(UsefulThreadsTest, NumbersThatNoMachineReachesAreNoTrouble) {
  EXPECT_EQ(usefulThreads(program(1, 3, instruction(INT64_MAX, INT64_MAX)), 8), 8);
}

} // namespace
