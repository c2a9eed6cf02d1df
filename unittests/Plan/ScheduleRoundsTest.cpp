// SPDX-License-Identifier: Apache-2.0
#include "autopar/Plan/ScheduleRounds.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace autopar {
namespace {

Schedule made(std::string_view name, int32_t stages, int32_t meshes, int32_t microBatches) {
  auto schedule = makeSchedule(name, stages, meshes, microBatches, true);
  EXPECT_TRUE(schedule.isOk()) << schedule.status().message();
  return schedule.take();
}

/// The rows of a mesh in all micro-batches, from one round and how often it runs.
std::vector<ScheduleRow> writtenOut(const std::vector<ScheduleRow> &one,
                                    const ScheduleRounds &rounds) {
  size_t end = rounds.first + rounds.rows;
  std::vector<ScheduleRow> all(one.begin(), one.begin() + ptrdiff_t(rounds.first));
  for (int32_t round = 0; round < rounds.count; ++round)
    for (size_t row = rounds.first; row < end; ++row) {
      all.push_back(one[row]);
      all.back().microBatch += round * rounds.microBatches;
    }
  for (size_t row = end; row < one.size(); ++row) {
    all.push_back(one[row]);
    all.back().microBatch += rounds.repeated();
  }
  return all;
}

TEST(ScheduleRounds, OfEveryScheduleAreTheRowsThatItHas) {
  for (const char *name : {"gpipe", "1f1b", "eager-1f1b", "zero-bubble", "overlapped-1f1b",
                           "interleaved", "interleaved-zero-bubble", "overlapped-interleaved"}) {
    int32_t stages = isInterleaved(name) ? 8 : 4;
    Schedule schedule = made(name, stages, 4, 96);
    for (int32_t mesh = 0; mesh < 4; ++mesh) {
      auto rounds = findRounds(schedule, mesh, UseRounds::Always);
      if (std::string_view(name) == "gpipe") {
        EXPECT_FALSE(rounds) << "all are in flight at once";
        continue;
      }
      ASSERT_TRUE(rounds) << name << " " << mesh;
      Schedule one = withOneRound(schedule, mesh, *rounds);
      EXPECT_LT(one.microBatches, 96) << name << " " << mesh;
      EXPECT_EQ(writtenOut(one.rows[size_t(mesh)], *rounds), schedule.rows[size_t(mesh)])
          << name << " " << mesh;
    }
  }
}

TEST(ScheduleRounds, HaveAMultipleOfTheMicroBatchesInFlight) {
  Schedule schedule = made("1f1b", 4, 4, 64);
  for (int32_t mesh = 0; mesh < 4; ++mesh) {
    auto rounds = findRounds(schedule, mesh, UseRounds::Auto);
    ASSERT_TRUE(rounds);
    EXPECT_EQ(rounds->microBatches % schedule.mostInFlight(mesh), 0) << mesh;
    EXPECT_GE(rounds->repeated(), 32) << mesh;
  }
}

TEST(ScheduleRounds, BeginBehindTheFirstTwoMicroBatches) {
  auto rounds = findRounds(made("1f1b", 1, 1, 16), 0, UseRounds::Always);
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->microBatches, 1);
  EXPECT_EQ(rounds->first, 4u);
}

TEST(ScheduleRounds, AreNotUsedWhereTheySaveLittle) {
  Schedule schedule = made("1f1b", 1, 1, 6);
  EXPECT_FALSE(findRounds(schedule, 0, UseRounds::Auto));
  EXPECT_TRUE(findRounds(schedule, 0, UseRounds::Always));
  EXPECT_FALSE(findRounds(schedule, 0, UseRounds::Never));
}

TEST(ScheduleRounds, DoNotPartRowsThatRunTogether) {
  Schedule schedule = made("overlapped-1f1b", 4, 4, 96);
  for (int32_t mesh = 0; mesh < 4; ++mesh) {
    auto rounds = findRounds(schedule, mesh, UseRounds::Always);
    ASSERT_TRUE(rounds) << mesh;
    EXPECT_FALSE(schedule.rows[size_t(mesh)][rounds->first - 1].withNext) << mesh;
  }
}

} // namespace
} // namespace autopar
