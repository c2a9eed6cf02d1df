// SPDX-License-Identifier: Apache-2.0
// The best choice of what is computed again where every byte that is kept has a price: a minimum
// cut.
#pragma once

#include "autopar/Planner/Recompute.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace autopar {

/// A problem as a graph to cut: who makes and reads what is kept from forward to backward, and of
/// how many micro-batches it waits.
class RecomputeCut {
public:
  using Choice = std::vector<char>; ///< by operation: whether it runs again

  /// `problem` must outlive this.
  explicit RecomputeCut(const RecomputeProblem &problem);

  /// The first operation of the backward pass; -1: there is none.
  int32_t turn() const { return firstBackward; }
  /// -1: an argument.
  int32_t producerOf(size_t value) const { return producer[value]; }
  const std::vector<int32_t> &readersOf(size_t value) const { return readers[value]; }
  /// Of how many micro-batches a value waits when most are in flight.
  int64_t waitsOf(size_t value) const { return waits[value]; }

  /// How much a place of the program weighs when bytes are held there; they add up to 1.
  struct Weights {
    std::vector<double> before; ///< of all places before
    double between(int32_t first, int32_t last) const { return before[last + 1] - before[first]; }
  };
  Weights weightsAt(const std::vector<std::pair<int32_t, double>> &places) const;

  /// The cheapest choice at a price per weighted byte, and what it costs. `fixed`: 0, 1, or -1 for
  /// free, by operation; `runsFor` is where operations ran again in a choice like this one. Asks
  /// for a turn.
  double cheapest(double price, const Weights &weights, const std::vector<int32_t> *runsFor,
                  const std::vector<signed char> *fixed, Choice &choice,
                  bool countsClones = true) const;

private:
  void countWaiting();
  int64_t waitsAt(const std::map<int32_t, int64_t> &runs, const std::set<int32_t> &backward,
                  int32_t value) const;

  const RecomputeProblem &problem;
  std::vector<int32_t> producer;
  std::vector<std::vector<int32_t>> readers;
  std::vector<int32_t> firstRead, lastRead; ///< by operations of the backward pass; -1: none
  std::vector<int64_t> waits; ///< by value: micro-batches of which it waits at the turn
  int32_t firstBackward = -1;
};

} // namespace autopar
