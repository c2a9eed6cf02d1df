// SPDX-License-Identifier: Apache-2.0
// In the middle of a step every mesh does the same again and again, some micro-batches further: a
// program needs to say it once.
#pragma once

#include "autopar/Plan/Schedule.h"

#include <optional>

namespace autopar {

/// When a step has rounds: where that leaves at most half of its micro-batches, wherever there are
/// two, or not at all.
enum class UseRounds : uint8_t { Auto, Always, Never };

/// "auto", "always", "never"; nothing for another word.
std::optional<UseRounds> useRoundsFromName(std::string_view name);

/// Rows of a mesh that come again. Round r works on the micro-batches of the first round plus
/// r * microBatches.
struct ScheduleRounds {
  int32_t count = 1;          ///< of rounds
  int32_t microBatches = 0;   ///< from one round to the next
  size_t first = 0, rows = 0; ///< of the first round

  /// Micro-batches of all rounds but one.
  int32_t repeated() const { return (count - 1) * microBatches; }
};

/// The rounds of a mesh, none of which starts before each of its stages has run twice in each of
/// its phases. A round has a multiple of the micro-batches that are in flight, so that what one
/// leaves for the next can lie where it found the same. Nothing where `use` wants none.
std::optional<ScheduleRounds> findRounds(const Schedule &schedule, int32_t mesh, UseRounds use);

/// The schedule with one round of a mesh in place of all: its micro-batches behind them are
/// numbered as if there were no others. Those of other meshes are as they were.
Schedule withOneRound(const Schedule &schedule, int32_t mesh, const ScheduleRounds &rounds);

} // namespace autopar
