// SPDX-License-Identifier: Apache-2.0
// Pipeline schedules as data: for every mesh, the order in which it works on its stages and
// micro-batches. A schedule is a generator that returns a table; one verifier holds for all tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"

namespace autopar {

/// What a stage does with one micro-batch. Where the backward pass is split, Backward is the
/// gradient of the stage's input, for which the stage before it waits, and Weight the rest, for
/// which nobody does; elsewhere Backward is all of it.
enum class StagePhase : uint8_t { Forward, Backward, Weight };

/// "F", "B", "W".
std::string_view name(StagePhase phase);

struct ScheduleRow {
  int32_t stage = 0;
  int32_t microBatch = 0;
  StagePhase phase = StagePhase::Forward;
  /// It runs together with the row behind it, of another micro-batch: while one waits for a
  /// collective, the other computes.
  bool withNext = false;
  bool operator==(const ScheduleRow &) const = default;
};

/// Stage s lies on mesh s % meshes, so that neighbours are on different meshes.
struct Schedule {
  std::string name;
  int32_t stages = 1;
  int32_t meshes = 1;
  int32_t microBatches = 1;
  bool trains = true; ///< false: forward rows only
  /// Weight rows exist: what they read waits for them from the Backward rows on.
  bool splitsBackward = false;
  int32_t receivesAhead = 1; ///< rows before its own in which a row's inputs are received
  std::vector<std::vector<ScheduleRow>> rows; ///< per mesh, in order

  int32_t meshOf(int32_t stage) const { return stage % meshes; }
  /// Every row that the stages need is there once, on its mesh; micro-batches of a stage and phase
  /// come in order, so that sums over them do not depend on the schedule; rows that run together
  /// are two of different micro-batches; nothing waits for itself even where a mesh goes on only
  /// when what it sent has been taken.
  Status verify() const;
  /// The most micro-batches of a stage whose activations wait for their gradients at one time; 1
  /// where there are no gradients, and activations last as long as one row.
  int32_t mostInFlight(int32_t stage) const;
};

/// Something of every row that a schedule may have, by stage, phase and micro-batch.
template <class Value>
class PerRow {
public:
  PerRow(const Schedule &schedule, Value value)
      : microBatches(size_t(schedule.microBatches)),
        values(size_t(schedule.stages) * kPhases * microBatches, value) {}
  Value &operator[](const ScheduleRow &row) { return values[indexOf(row)]; }
  const Value &operator[](const ScheduleRow &row) const { return values[indexOf(row)]; }

private:
  static constexpr size_t kPhases = size_t(StagePhase::Weight) + 1;
  size_t indexOf(const ScheduleRow &row) const {
    return (size_t(row.stage) * kPhases + size_t(row.phase)) * microBatches +
           size_t(row.microBatch);
  }

  size_t microBatches;
  std::vector<Value> values;
};

/// The names that makeSchedule knows, for messages: "gpipe", "1f1b", ...
std::string scheduleNames();
bool isSchedule(std::string_view name);
/// Whether the schedule of that name is for several stages per mesh, and whether it splits the
/// backward pass; false for a name that nobody knows.
bool isInterleaved(std::string_view name);
bool splitsBackward(std::string_view name);

/// gpipe: all forward, then all backward (Huang et al., 2019). 1f1b: one forward, one backward, as
/// early as possible (PipeDream-Flush: Narayanan et al., 2021). eager-1f1b: with twice as many
/// micro-batches in flight, so that messages pass while both sides compute (Zhuang et al., 2023).
/// interleaved: 1f1b with several stages per mesh (Narayanan et al., 2021). zero-bubble: weight
/// gradients fill the gaps, with as many micro-batches in flight as 1f1b (ZB-H1: Qi et al., 2023).
/// interleaved-zero-bubble: interleaved, weight gradients behind the gradient that the stage before
/// waits for. overlapped-1f1b, overlapped-interleaved: a forward row runs together with the
/// backward row behind it, for which one more micro-batch is in flight than in eager-1f1b or
/// interleaved (DeepSeek-AI, "DeepSeek-V3 Technical Report", 2024, section 3.2.1; Megatron Core's
/// overlap of expert parallelism's all-to-all). Error for an unknown name and for counts that it
/// cannot do.
Result<Schedule> makeSchedule(std::string_view name, int64_t stages, int64_t meshes,
                              int64_t microBatches, bool trains);

} // namespace autopar
