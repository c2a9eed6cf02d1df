// SPDX-License-Identifier: Apache-2.0
// What holds for every schedule: completeness, order, freedom from deadlock.
#include "autopar/Plan/Schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace autopar {
namespace {

std::string textOf(const ScheduleRow &row) {
  return std::string(name(row.phase)) + " of stage " + std::to_string(row.stage) +
         ", micro-batch " + std::to_string(row.microBatch);
}

/// Runs the rows with messages that need both sides: a mesh goes on to its next row, or two that
/// run together, when what it sent has been taken, and takes what a row reads when it begins an
/// earlier one. A run with more memory waits for less.
class Simulation {
public:
  explicit Simulation(const Schedule &schedule)
      : schedule(schedule), next(schedule.rows.size()), sent(schedule.rows.size()),
        placeOf(schedule, kNoRow), done(schedule, false) {
    for (const std::vector<ScheduleRow> &rows : schedule.rows)
      for (size_t index = 0; index < rows.size(); ++index)
        placeOf[rows[index]] = index;
  }

  Status run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (size_t mesh = 0; mesh < schedule.rows.size(); ++mesh)
        while ((!sent[mesh] || isTaken(*sent[mesh])) && compute(mesh))
          moved = true;
    }
    for (size_t mesh = 0; mesh < schedule.rows.size(); ++mesh)
      if (next[mesh] < schedule.rows[mesh].size())
        return Status::badInput("schedule '" + schedule.name + "' comes to a standstill: mesh " +
                                std::to_string(mesh) + " waits at " +
                                textOf(schedule.rows[mesh][next[mesh]]));
    return Status::ok();
  }

private:
  static constexpr size_t kNoRow = size_t(-1);

  /// The row of a neighbouring stage that reads (step 1) or makes (step -1) what a row makes or
  /// reads; nothing at the ends of the pipeline.
  std::optional<ScheduleRow> neighbour(const ScheduleRow &row, int32_t step) const {
    int32_t stage = row.stage + (row.phase == StagePhase::Forward ? step : -step);
    if (row.phase == StagePhase::Weight || stage < 0 || stage >= schedule.stages)
      return std::nullopt;
    return ScheduleRow{stage, row.microBatch, row.phase};
  }

  /// Whether the receiver of what a row makes has come to the row before the one that reads it; so
  /// for what nobody receives.
  bool isTaken(const ScheduleRow &message) const {
    size_t reader = placeOf[message];
    return reader == kNoRow ||
           next[size_t(schedule.meshOf(message.stage))] + size_t(schedule.receivesAhead) >= reader;
  }

  /// What a mesh sends to another one when it has made a row.
  std::optional<ScheduleRow> sentBy(const ScheduleRow &row, size_t mesh) const {
    auto reader = neighbour(row, 1);
    bool goesOut = reader && schedule.meshOf(reader->stage) != int32_t(mesh);
    return goesOut ? reader : std::nullopt;
  }

  bool isReady(const ScheduleRow &row) const {
    if (auto read = neighbour(row, -1); read && !done[*read])
      return false;
    StagePhase before =
        row.phase == StagePhase::Weight ? StagePhase::Backward : StagePhase::Forward;
    return row.phase == StagePhase::Forward || done[{row.stage, row.microBatch, before}];
  }

  /// The next row, or two that run together: what one of them sends may have to be taken before the
  /// other can go on.
  bool compute(size_t mesh) {
    const std::vector<ScheduleRow> &rows = schedule.rows[mesh];
    size_t begin = next[mesh], end = begin;
    while (end < rows.size() && (end == begin || rows[end - 1].withNext))
      if (!isReady(rows[end++]))
        return false;
    std::optional<ScheduleRow> last;
    for (size_t row = begin; row < end; ++row)
      if ((last = sentBy(rows[row], mesh)); last && end > begin + 1 && !isTaken(*last))
        return false;
    for (; next[mesh] < end; ++next[mesh])
      done[rows[next[mesh]]] = true;
    sent[mesh] = last;
    return end > begin;
  }

  const Schedule &schedule;
  std::vector<size_t> next;
  std::vector<std::optional<ScheduleRow>> sent; ///< per mesh: who reads what its last row sent
  PerRow<size_t> placeOf;                       ///< among the rows of its mesh
  PerRow<char> done;
};

} // namespace

std::string_view name(StagePhase phase) {
  constexpr std::string_view names[] = {"F", "B", "W"};
  return names[size_t(phase)];
}

Status Schedule::verify() const {
  auto bad = [&](const std::string &what) {
    return Status::badInput("schedule '" + name + "': " + what);
  };
  if (stages < 1 || meshes < 1 || microBatches < 1 || stages % meshes)
    return bad(std::to_string(stages) + " stages on " + std::to_string(meshes) + " meshes with " +
               std::to_string(microBatches) +
               " micro-batches; expected the stages to be a multiple of the meshes");
  if (rows.size() != size_t(meshes))
    return bad("has rows for " + std::to_string(rows.size()) + " meshes, expected " +
               std::to_string(meshes));
  PerRow<char> seen(*this, false);
  size_t found = 0;
  std::map<std::pair<int32_t, StagePhase>, int32_t> expected;
  for (size_t mesh = 0; mesh < rows.size(); ++mesh)
    for (const ScheduleRow &row : rows[mesh]) {
      if (row.stage < 0 || row.stage >= stages || row.microBatch < 0 ||
          row.microBatch >= microBatches || (!trains && row.phase != StagePhase::Forward) ||
          (!splitsBackward && row.phase == StagePhase::Weight))
        return bad("has no place for " + textOf(row));
      if (meshOf(row.stage) != int32_t(mesh))
        return bad(textOf(row) + " is on mesh " + std::to_string(mesh) + ", expected " +
                   std::to_string(meshOf(row.stage)));
      if (std::exchange(seen[row], true))
        return bad(textOf(row) + " appears twice");
      if (int32_t &turn = expected[{row.stage, row.phase}]; turn++ != row.microBatch)
        return bad(textOf(row) + " comes where micro-batch " + std::to_string(turn - 1) +
                   " was expected");
      ++found;
    }
  for (const std::vector<ScheduleRow> &line : rows)
    for (size_t row = 0; row < line.size(); ++row)
      if (line[row].withNext && (row + 1 == line.size() || line[row + 1].withNext ||
                                 line[row + 1].microBatch == line[row].microBatch))
        return bad(textOf(line[row]) +
                   " runs together with the next row; expected one of another micro-batch there, "
                   "and no third");
  size_t all = size_t(stages) * size_t(microBatches) * (!trains ? 1 : splitsBackward ? 3 : 2);
  if (found != all)
    return bad("has " + std::to_string(found) + " rows, expected " + std::to_string(all));
  return Simulation(*this).run();
}

int32_t Schedule::mostInFlight(int32_t stage) const {
  if (!trains)
    return 1;
  StagePhase last = splitsBackward ? StagePhase::Weight : StagePhase::Backward;
  int32_t now = 0, most = 0;
  for (const ScheduleRow &row : rows[size_t(meshOf(stage))]) {
    if (row.stage == stage)
      now += row.phase == StagePhase::Forward ? 1 : row.phase == last ? -1 : 0;
    most = std::max(most, now);
  }
  return most;
}

} // namespace autopar
