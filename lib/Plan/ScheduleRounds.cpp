// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Plan/ScheduleRounds.h"

#include <algorithm>
#include <map>

namespace autopar {
namespace {

/// Instructions are put in order within a round, so that a few micro-batches are better than one.
/// Where several are in flight, as many: values that live through most of a round pack best.
constexpr int32_t kLeastPerRound = 4;

/// Rows one behind the other.
struct Stretch {
  size_t first = 0, count = 0;
};

/// The longest stretch of rows, from `from` on, that come again `round` rows later as those
/// `microBatches` further.
Stretch longestStretch(const std::vector<ScheduleRow> &rows, size_t from, size_t round,
                       int32_t microBatches) {
  Stretch longest, own{from, 0};
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

int32_t microBatchesPerRound(const Schedule &schedule, int32_t mesh, UseRounds use) {
  int32_t inFlight = 1;
  for (int32_t stage = mesh; stage < schedule.stages; stage += schedule.meshes)
    inFlight = std::max(inFlight, schedule.mostInFlight(stage));
  // What is received rows ahead is in flight too, but for the row before its own.
  int32_t least = inFlight + (schedule.stages > 1 ? schedule.receivesAhead - 1 : 0);
  if (use == UseRounds::Auto && inFlight == 1)
    least = std::max(least, kLeastPerRound);
  // Several stages of a mesh take turns on as many micro-batches as there are meshes.
  int32_t unit = schedule.stages > schedule.meshes ? schedule.meshes : inFlight;
  return (least + unit - 1) / unit * unit;
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

std::optional<ScheduleRounds> findRounds(const Schedule &schedule, int32_t mesh, UseRounds use) {
  if (use == UseRounds::Never)
    return std::nullopt;
  const std::vector<ScheduleRow> &rows = schedule.rows[size_t(mesh)];
  // The first micro-batch of all is like no other: it has nothing to add to.
  std::map<std::pair<int32_t, StagePhase>, size_t> seconds;
  for (size_t row = 0; row < rows.size(); ++row)
    if (rows[row].microBatch == 1)
      seconds.emplace(std::pair(rows[row].stage, rows[row].phase), row);
  size_t from = 0;
  for (const auto &[kind, row] : seconds)
    from = std::max(from, row + 1);
  ScheduleRounds rounds;
  rounds.microBatches = microBatchesPerRound(schedule, mesh, use);
  rounds.rows = seconds.size() * size_t(rounds.microBatches);
  Stretch found = longestStretch(rows, from, rounds.rows, rounds.microBatches);
  while (found.count > 0 && rows[found.first - 1].withNext)
    ++found.first, --found.count;
  // What the next row receives is received in this one.
  found.count -= std::min(found.count, size_t(schedule.receivesAhead));
  rounds.first = found.first;
  rounds.count = int32_t(found.count / std::max<size_t>(rounds.rows, 1));
  int32_t wanted = use == UseRounds::Auto ? (schedule.microBatches + 1) / 2 : 1;
  if (rounds.count < 2 || rounds.repeated() < wanted)
    return std::nullopt;
  return rounds;
}

Schedule withOneRound(const Schedule &schedule, int32_t mesh, const ScheduleRounds &rounds) {
  Schedule one = schedule;
  one.microBatches -= rounds.repeated();
  std::vector<ScheduleRow> &rows = one.rows[size_t(mesh)];
  auto behind = rows.begin() + ptrdiff_t(rounds.first + rounds.rows);
  auto last = behind + ptrdiff_t(size_t(rounds.count - 1) * rounds.rows);
  for (auto row = rows.erase(behind, last); row != rows.end(); ++row)
    row->microBatch -= rounds.repeated();
  return one;
}

} // namespace autopar
