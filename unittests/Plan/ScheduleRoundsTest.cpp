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

/// The rows of all micro-batches, from one round and how often it runs.
std::vector<std::vector<ScheduleRow>> writtenOut(const Schedule &one,
                                                 const ScheduleRounds &rounds) {
  std::vector<std::vector<ScheduleRow>> all;
  for (size_t mesh = 0; mesh < one.rows.size(); ++mesh) {
    const std::vector<ScheduleRow> &rows = one.rows[mesh];
    auto [first, count] = rounds.rows[mesh];
    std::vector<ScheduleRow> &own = all.emplace_back(rows.begin(), rows.begin() + first);
    for (int32_t round = 0; round < rounds.count; ++round)
      for (size_t row = first; row < first + count; ++row) {
        own.push_back(rows[row]);
        own.back().microBatch += round * rounds.microBatches;
      }
    for (size_t row = first + count; row < rows.size(); ++row) {
      own.push_back(rows[row]);
      own.back().microBatch += rounds.repeated();
    }
  }
  return all;
}

TEST(ScheduleRounds, OfEveryScheduleAreTheRowsThatItHas) {
  for (const char *name : {"gpipe", "1f1b", "eager-1f1b", "zero-bubble", "overlapped-1f1b",
                           "interleaved", "interleaved-zero-bubble", "overlapped-interleaved"}) {
    int32_t stages = isInterleaved(name) ? 8 : 4;
    Schedule schedule = made(name, stages, 4, 96);
    auto rounds = findRounds(schedule, UseRounds::Always);
    if (std::string_view(name) == "gpipe") {
      EXPECT_FALSE(rounds) << "all are in flight at once";
      continue;
    }
    ASSERT_TRUE(rounds) << name;
    Schedule one = withOneRound(schedule, *rounds);
    EXPECT_LT(one.microBatches, 96) << name;
    EXPECT_EQ(writtenOut(one, *rounds), schedule.rows) << name;
  }
}

TEST(ScheduleRounds, HaveAsManyMicroBatchesAsAreInFlight) {
  Schedule schedule = made("1f1b", 4, 4, 64);
  auto rounds = findRounds(schedule, UseRounds::Auto);
  ASSERT_TRUE(rounds);
  EXPECT_GE(rounds->microBatches, schedule.mostInFlight(0));
  EXPECT_GE(rounds->repeated(), 32);
}

TEST(ScheduleRounds, BeginBehindTheFirstTwoMicroBatches) {
  auto rounds = findRounds(made("1f1b", 1, 1, 16), UseRounds::Always);
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->microBatches, 1);
  EXPECT_EQ(rounds->rows[0].first, 4u);
}

TEST(ScheduleRounds, AreNotUsedForFewMicroBatches) {
  Schedule schedule = made("1f1b", 4, 4, 16);
  EXPECT_FALSE(findRounds(schedule, UseRounds::Auto));
  EXPECT_TRUE(findRounds(schedule, UseRounds::Always));
  EXPECT_FALSE(findRounds(schedule, UseRounds::Never));
}

TEST(ScheduleRounds, DoNotPartRowsThatRunTogether) {
  Schedule schedule = made("overlapped-1f1b", 4, 4, 96);
  auto rounds = findRounds(schedule, UseRounds::Always);
  ASSERT_TRUE(rounds);
  for (size_t mesh = 0; mesh < 4; ++mesh)
    EXPECT_FALSE(schedule.rows[mesh][rounds->rows[mesh].first - 1].withNext) << mesh;
}

} // namespace
} // namespace autopar
