// SPDX-License-Identifier: Apache-2.0
// What choices of recomputed operations cost: `useOf` of one problem, thousands of times.
#pragma once

#include "autopar/Planner/Recompute.h"

namespace autopar {

/// A walk over the program, and one over the rows of its schedule. A row does the same in every
/// micro-batch, so what it holds on top of what waits between rows is walked once. What does not
/// depend on the choice is laid out when a walk is made; `problem` outlives it.
class RecomputeWalk {
public:
  explicit RecomputeWalk(const RecomputeProblem &problem);

  /// As `useOf(problem, chosen)`; stays until the next call.
  const RecomputeUse &of(const std::vector<char> &chosen);

private:
  struct Life {
    int32_t first = -1, last = -1; ///< visits
  };
  struct Visit {
    int32_t op, place; ///< what runs, and the operation of the program before which it does
  };
  /// What a row leaves behind.
  struct Row {
    int64_t perMicroBatch = 0; ///< held until another row of the same micro-batch, or freed for it
    int64_t once = 0;          ///< held from its first run on, or freed by it
    int64_t most = 0;          ///< held when it begins
    bool hasRun = false;
  };

  /// What each operation reads or writes, one behind the other.
  struct Lists {
    std::vector<int32_t> begin{0}, items;
    void add(const std::vector<int32_t> &list);
    std::span<const int32_t> operator[](int32_t op) const {
      return std::span(items).subspan(static_cast<size_t>(begin[op]),
                                      static_cast<size_t>(begin[op + 1] - begin[op]));
    }
  };

  bool isAgain(int32_t value) const { return producer[value] >= 0 && runsAgain[producer[value]]; }
  bool isScheduled(int32_t row) const { return row != kBefore && row != after; }
  int32_t rowAt(int32_t visit) const { return rowOf[visits[visit].place]; }
  void computeAgain(int32_t reader);
  void visit(int32_t index, bool isSecond, int32_t place);
  void hold(const Life &life, const RecomputeValue &value, bool isSecond);
  void measure();
  int64_t walk(int32_t &next, int32_t row, int64_t bytes);

  static constexpr int32_t kBefore = 0;

  const RecomputeProblem &problem;
  std::vector<int32_t> producer; ///< by value
  Lists reads, writes;
  std::vector<int32_t>
      rowOf; ///< by operation: kBefore, from 1 on in the order of first runs, after
  std::vector<int32_t> order; ///< rows of the schedule by these numbers
  int32_t after;

  std::vector<char> runsAgain;        ///< by operation: chosen, where it may be
  std::vector<Life> kept, again;      ///< by value: of the first and of the second run
  std::vector<int32_t> secondWritten; ///< values that have a second run
  std::vector<Visit> visits;
  std::vector<int64_t> taken, freed; ///< by visit: before it runs, after it ran
  std::vector<Row> rows;
  int64_t held = 0, freedBehindRows = 0;
  std::vector<int32_t> wanted, stack;
  RecomputeUse use;
};

} // namespace autopar
