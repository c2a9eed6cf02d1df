// SPDX-License-Identifier: Apache-2.0
// In the middle of a step every mesh does the same again and again, some micro-batches further: a
// program needs to say it once.
#pragma once

#include "autopar/Plan/Schedule.h"

#include <optional>

namespace autopar {

/// When a step has rounds: where that leaves at most half of its rows, wherever there are two, or
/// not at all.
enum class UseRounds : uint8_t { Auto, Always, Never };

/// "auto", "always", "never"; nothing for another word.
std::optional<UseRounds> useRoundsFromName(std::string_view name);

/// Rows that come again, of all meshes equally often. Round r works on the micro-batches of the
/// first round plus r * microBatches.
struct ScheduleRounds {
  int32_t count = 1;        ///< of rounds
  int32_t microBatches = 0; ///< from one round to the next
  struct Rows {
    size_t first = 0, count = 0;
  };
  std::vector<Rows> rows; ///< per mesh: of the first round

  /// Micro-batches of all rounds but one.
  int32_t repeated() const { return (count - 1) * microBatches; }
};

/// The rounds of a schedule, none of which starts before each stage of its mesh has run twice in
/// each of its phases. A round has as many micro-batches as are in flight or received ahead, so
/// that what one leaves for the next can lie where it found the same. Nothing where `use` wants
/// none.
std::optional<ScheduleRounds> findRounds(const Schedule &schedule, UseRounds use);

/// The schedule with one round in place of all: micro-batches behind them are numbered as if there
/// were no others.
Schedule withOneRound(const Schedule &schedule, const ScheduleRounds &rounds);

} // namespace autopar
