// SPDX-License-Identifier: Apache-2.0
#include "autopar/Plan/Schedule.h"

#include <algorithm>
#include <gtest/gtest.h>

namespace autopar {
namespace {

Schedule made(std::string_view name, int32_t stages, int32_t meshes, int32_t microBatches) {
  auto schedule = makeSchedule(name, stages, meshes, microBatches, true);
  EXPECT_TRUE(schedule.isOk()) << schedule.status().message();
  return schedule.take();
}

/// One line per mesh: "F0 F1 B0 W0 ..."; "F1.0" is micro-batch 0 of the mesh's second stage,
/// "F1+" runs together with what follows.
std::string textOf(const Schedule &schedule) {
  std::string text;
  for (const std::vector<ScheduleRow> &line : schedule.rows) {
    std::string words;
    for (const ScheduleRow &row : line) {
      words += (words.empty() ? "" : " ") + std::string(name(row.phase));
      if (schedule.stages > schedule.meshes)
        words += std::to_string(row.stage / schedule.meshes) + ".";
      words += std::to_string(row.microBatch) + (row.withNext ? "+" : "");
    }
    text += words + "\n";
  }
  return text;
}

/// Time of the slowest mesh when a forward row takes `rowUnits`, as does each half of the backward
/// pass, and a message to another stage `messageUnits`.
int64_t unitTime(const Schedule &schedule, int64_t rowUnits = 1, int64_t messageUnits = 0) {
  std::vector<size_t> next(schedule.rows.size());
  std::vector<std::vector<std::vector<int64_t>>> end(
      3, std::vector<std::vector<int64_t>>(
             size_t(schedule.stages), std::vector<int64_t>(size_t(schedule.microBatches), -1)));
  std::vector<int64_t> now(schedule.rows.size());
  for (bool moved = true; moved;) {
    moved = false;
    for (size_t mesh = 0; mesh < next.size(); ++mesh)
      while (next[mesh] < schedule.rows[mesh].size()) {
        const ScheduleRow &row = schedule.rows[mesh][next[mesh]];
        auto at = [&](StagePhase phase, int32_t stage) {
          int64_t made = end[size_t(phase)][size_t(stage)][size_t(row.microBatch)];
          return made < 0 ? made : made + messageUnits;
        };
        int64_t ready = 0;
        if (row.phase == StagePhase::Forward && row.stage > 0)
          ready = at(row.phase, row.stage - 1);
        if (row.phase == StagePhase::Backward && row.stage + 1 < schedule.stages)
          ready = at(row.phase, row.stage + 1);
        if (ready < 0)
          break;
        bool isWhole = row.phase == StagePhase::Backward && !schedule.splitsBackward;
        now[mesh] = std::max(now[mesh], ready) + (isWhole ? 2 : 1) * rowUnits;
        end[size_t(row.phase)][size_t(row.stage)][size_t(row.microBatch)] = now[mesh];
        ++next[mesh];
        moved = true;
      }
  }
  return *std::max_element(now.begin(), now.end());
}

TEST(Schedule, EveryGeneratorHoldsForManySizes) {
  for (int32_t meshes = 1; meshes <= 6; ++meshes)
    for (int32_t microBatches = 1; microBatches <= 12; ++microBatches) {
      for (const char *name : {"gpipe", "1f1b", "eager-1f1b", "zero-bubble", "overlapped-1f1b"})
        EXPECT_TRUE(made(name, meshes, meshes, microBatches).verify().isOk());
      for (int32_t chunks = 2; chunks <= 3; ++chunks) {
        for (const char *name :
             {"interleaved", "interleaved-zero-bubble", "overlapped-interleaved"}) {
          auto schedule = makeSchedule(name, chunks * meshes, meshes, microBatches, true);
          EXPECT_EQ(schedule.isOk(), microBatches % meshes == 0);
        }
      }
    }
}

TEST(Schedule, OneForwardOneBackwardIsTheKnownTable) {
  EXPECT_EQ(textOf(made("1f1b", 2, 2, 3)), "F0 F1 B0 F2 B1 B2\n"
                                           "F0 B0 F1 B1 F2 B2\n");
}

// A forward row with the backward row behind it, which never is that of the same micro-batch.
TEST(Schedule, OverlappedRowsAreTwoOfDifferentMicroBatches) {
  EXPECT_EQ(textOf(made("overlapped-1f1b", 2, 2, 5)), "F0 F1 F2 F3+ B0 F4+ B1 B2 B3 B4\n"
                                                      "F0 F1+ B0 F2+ B1 F3+ B2 F4+ B3 B4\n");
  EXPECT_EQ(textOf(made("overlapped-1f1b", 1, 1, 1)), "F0 B0\n");
  for (int32_t meshes = 2; meshes <= 5; ++meshes)
    for (int32_t chunks = 1; chunks <= 3; ++chunks) {
      const char *name = chunks > 1 ? "overlapped-interleaved" : "overlapped-1f1b";
      Schedule schedule = made(name, chunks * meshes, meshes, 6 * meshes);
      for (const std::vector<ScheduleRow> &rows : schedule.rows) {
        int together = 0;
        for (size_t row = 0; row < rows.size(); ++row) {
          together += rows[row].withNext;
          if (rows[row].withNext)
            EXPECT_NE(rows[row].microBatch, rows[row + 1].microBatch);
        }
        EXPECT_GT(together, 4 * meshes) << name << " on " << meshes;
      }
    }
}

TEST(Schedule, MemoryInFlight) {
  Schedule gpipe = made("gpipe", 4, 4, 8), oneByOne = made("1f1b", 4, 4, 8),
           eager = made("eager-1f1b", 4, 4, 12), zeroBubble = made("zero-bubble", 4, 4, 8),
           overlapped = made("overlapped-1f1b", 4, 4, 12);
  for (int32_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(gpipe.mostInFlight(stage), 8);
    EXPECT_EQ(oneByOne.mostInFlight(stage), 4 - stage);
    EXPECT_EQ(eager.mostInFlight(stage), 2 * (4 - stage) - 1);
    EXPECT_EQ(overlapped.mostInFlight(stage), 2 * (4 - stage));
    EXPECT_LE(zeroBubble.mostInFlight(stage), 4);
  }
}

// Bubbles of 1f1b and gpipe are (meshes - 1) * (F + B + W), interleaving divides them by the stages
// per mesh. With the weight gradients apart nobody waits for them; ZB-H1 leaves (meshes - 1) *
// (F + B - W).
TEST(Schedule, BubblesAreThoseOfThePapers) {
  auto bubble = [](std::string_view name, int32_t stages, int32_t microBatches) {
    return unitTime(made(name, stages, 4, microBatches)) - 3 * microBatches * stages / 4;
  };
  EXPECT_EQ(bubble("gpipe", 4, 8), 9);
  EXPECT_EQ(bubble("1f1b", 4, 8), 9);
  EXPECT_EQ(bubble("interleaved", 8, 8), 9); // of chunks half as long
  EXPECT_EQ(bubble("interleaved-zero-bubble", 8, 8), 6);
  EXPECT_EQ(bubble("zero-bubble", 4, 8), 3);
  EXPECT_EQ(bubble("zero-bubble", 4, 16), 3);
}

// Messages as long as a forward row: 1f1b waits in every round, eager-1f1b in the first and the
// last.
TEST(Schedule, EagerHidesMessages) {
  auto waited = [](const char *name, int32_t microBatches) {
    Schedule schedule = made(name, 4, 4, microBatches);
    return unitTime(schedule, 1, 1) - unitTime(schedule, 1, 0);
  };
  EXPECT_EQ(waited("eager-1f1b", 8), waited("eager-1f1b", 32));
  EXPECT_GT(waited("1f1b", 32), 2 * waited("1f1b", 8));
}

TEST(Schedule, RefusesWhatCannotRun) {
  Schedule schedule = made("1f1b", 2, 2, 2);
  auto refused = [](const Schedule &bad, const std::string &why) {
    Status status = bad.verify();
    EXPECT_FALSE(status.isOk());
    EXPECT_NE(status.message().find(why), std::string::npos) << status.message();
  };
  Schedule waits = schedule;
  std::swap(waits.rows[0][1], waits.rows[0][2]); // B0 before F1
  std::swap(waits.rows[1][0], waits.rows[1][1]); // B0 before F0
  refused(waits, "comes to a standstill: mesh 0 waits at B of stage 0, micro-batch 0");
  Schedule short_ = schedule;
  short_.rows[1].pop_back();
  refused(short_, "has 7 rows, expected 8");
  Schedule apart = schedule;
  apart.rows[0].back().phase = StagePhase::Weight;
  refused(apart, "has no place for W of stage 0, micro-batch 1");
  Schedule twice = schedule;
  twice.rows[1].back() = twice.rows[1].front();
  refused(twice, "F of stage 1, micro-batch 0 appears twice");
  Schedule moved = schedule;
  moved.rows[0].front().stage = 1;
  refused(moved, "is on mesh 0, expected 1");
  Schedule alike = schedule;
  alike.rows[1].front().withNext = true; // F0 with B0
  refused(alike, "F of stage 1, micro-batch 0 runs together with the next row; expected one of "
                 "another micro-batch there, and no third");
  Schedule last = schedule;
  last.rows[0].back().withNext = true;
  refused(last, "B of stage 0, micro-batch 1 runs together with the next row");
  // Each needs what the other's pair makes.
  Schedule circle = made("gpipe", 2, 2, 2);
  circle.rows[0][1].withNext = circle.rows[1][1].withNext = true; // F1 with B0
  refused(circle, "comes to a standstill: mesh 0 waits at F of stage 0, micro-batch 1");
  Schedule order = made("gpipe", 1, 1, 2);
  std::swap(order.rows[0][0], order.rows[0][1]);
  refused(order, "F of stage 0, micro-batch 1 comes where micro-batch 0 was expected");
}

TEST(Schedule, NamesWhatItKnows) {
  auto unknown = makeSchedule("zigzag", 2, 2, 2, true);
  ASSERT_FALSE(unknown.isOk());
  EXPECT_NE(unknown.status().message().find("gpipe, 1f1b, eager-1f1b, interleaved, "
                                            "zero-bubble, interleaved-zero-bubble, "
                                            "overlapped-1f1b, overlapped-interleaved"),
            std::string::npos);
  EXPECT_FALSE(makeSchedule("1f1b", 4, 2, 2, true).isOk());
  EXPECT_FALSE(makeSchedule("interleaved", 4, 2, 3, true).isOk());
}

TEST(Schedule, InferenceGoesForwardOnly) {
  auto schedule = makeSchedule("1f1b", 3, 3, 2, false);
  ASSERT_TRUE(schedule.isOk());
  EXPECT_EQ(textOf(*schedule), "F0 F1\nF0 F1\nF0 F1\n");
}

} // namespace
} // namespace autopar
