// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Plan/ScheduleRounds.h"

#include <algorithm>
#include <map>

namespace autopar {
namespace {

/// Instructions are put in order within a round, so that a few micro-batches are better than one.
constexpr int32_t kLeastPerRound = 4;

/// The longest stretch of rows, from `from` on, that come again `round` rows later as those
/// `microBatches` further.
ScheduleRounds::Rows longestStretch(const std::vector<ScheduleRow> &rows, size_t from, size_t round,
                                    int32_t microBatches) {
  ScheduleRounds::Rows longest, own{from, 0};
  for (size_t row = from + round; row < rows.size(); ++row) {
    ScheduleRow before = rows[row - round];
    before.microBatch += microBatches;
    if (before != rows[row])
      own = {row - round + 1, 0};
    else if (++own.count > longest.count)
      longest = own;
  }
  if (longest.count > 0)
    longest.count += round;
  return longest;
}

/// Where rounds of a mesh may begin, and all rows that belong to some.
ScheduleRounds::Rows repeatedRows(const Schedule &schedule, int32_t mesh, int32_t microBatches,
                                  size_t &round) {
  const std::vector<ScheduleRow> &rows = schedule.rows[size_t(mesh)];
  // The first micro-batch of all is like no other: it has nothing to add to.
  std::map<std::pair<int32_t, StagePhase>, size_t> seconds;
  for (size_t row = 0; row < rows.size(); ++row)
    if (rows[row].microBatch == 1)
      seconds.emplace(std::pair(rows[row].stage, rows[row].phase), row);
  size_t from = 0;
  for (const auto &[kind, row] : seconds)
    from = std::max(from, row + 1);
  round = seconds.size() * size_t(microBatches);
  ScheduleRounds::Rows found = longestStretch(rows, from, round, microBatches);
  while (found.count > 0 && rows[found.first - 1].withNext)
    ++found.first, --found.count;
  // What the next row receives is received in this one.
  size_t ahead = std::min(found.count, size_t(schedule.receivesAhead));
  found.count -= ahead;
  return found;
}

} // namespace

std::optional<UseRounds> useRoundsFromName(std::string_view name) {
  if (name == "auto")
    return UseRounds::Auto;
  if (name == "always")
    return UseRounds::Always;
  if (name == "never")
    return UseRounds::Never;
  return std::nullopt;
}

std::optional<ScheduleRounds> findRounds(const Schedule &schedule, UseRounds use) {
  if (use == UseRounds::Never)
    return std::nullopt;
  ScheduleRounds rounds;
  bool together = false;
  for (const std::vector<ScheduleRow> &rows : schedule.rows)
    together |= std::any_of(rows.begin(), rows.end(), [](const auto &row) { return row.withNext; });
  for (int32_t stage = 0; stage < schedule.stages; ++stage)
    rounds.microBatches = std::max(rounds.microBatches, schedule.mostInFlight(stage));
  if (schedule.stages > 1)
    rounds.microBatches += schedule.receivesAhead + (together ? 1 : 0);
  if (use == UseRounds::Auto)
    rounds.microBatches = std::max(rounds.microBatches, kLeastPerRound);
  int32_t unit = schedule.stages > schedule.meshes ? schedule.meshes : 1;
  rounds.microBatches = (rounds.microBatches + unit - 1) / unit * unit;
  rounds.count = schedule.microBatches;
  for (int32_t mesh = 0; mesh < schedule.meshes; ++mesh) {
    size_t round = 0;
    ScheduleRounds::Rows found = repeatedRows(schedule, mesh, rounds.microBatches, round);
    rounds.rows.push_back({found.first, round});
    rounds.count = std::min(rounds.count, int32_t(found.count / std::max<size_t>(round, 1)));
  }
  int32_t wanted = use == UseRounds::Auto ? (schedule.microBatches + 1) / 2 : 1;
  if (rounds.count < 2 || rounds.repeated() < wanted)
    return std::nullopt;
  return rounds;
}

Schedule withOneRound(const Schedule &schedule, const ScheduleRounds &rounds) {
  Schedule one = schedule;
  one.microBatches -= rounds.repeated();
  for (size_t mesh = 0; mesh < one.rows.size(); ++mesh) {
    std::vector<ScheduleRow> &rows = one.rows[mesh];
    auto behind = rows.begin() + ptrdiff_t(rounds.rows[mesh].first + rounds.rows[mesh].count);
    auto last = behind + ptrdiff_t(size_t(rounds.count - 1) * rounds.rows[mesh].count);
    for (auto row = rows.erase(behind, last); row != rows.end(); ++row)
      row->microBatch -= rounds.repeated();
  }
  return one;
}

} // namespace autopar
