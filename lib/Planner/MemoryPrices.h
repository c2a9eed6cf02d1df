// SPDX-License-Identifier: Apache-2.0
// The search for prices per time point that make the bound as high as possible, and for first
// choices that follow them. Source: Barahona and Anbil, "The volume algorithm: producing primal
// solutions with a subgradient method", Math. Programming 87, 2000; step length after Polyak.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

#include "DualBound.h"
#include "TreeNeighbourhood.h"

namespace autopar::planner {

/// Held bytes per time point of a choice.
std::vector<int64_t> heldBytes(const ReducedProblem &problem, const std::vector<int32_t> &choice);
/// Overfill and cost of a choice.
Standing standingOf(const ReducedProblem &problem, const std::vector<int32_t> &choice);

class MemoryPrices {
public:
  explicit MemoryPrices(const ReducedProblem &problem);

  /// Ascends until `steps` are spent, the bound meets the best choice, or `stop` says so.
  void run(int64_t steps, double optimalGap, const std::function<bool()> &stop);
  /// Tells the ascent of a choice found elsewhere; kept when better.
  void offer(const std::vector<int32_t> &choice);

  /// Another choice that follows the present messages, each time a little differently.
  std::vector<int32_t> freshChoice(uint64_t seed) const;

  double bound() const { return bestBound; }
  const std::vector<double> &prices() const { return bestPrices; }
  /// The best choice so far (legal or not).
  const std::vector<int32_t> &choice() const { return best; }
  Standing standing() const { return bestStanding; }
  int64_t work() const { return dual.work() + extra; }
  /// No ascent is left to make: prices do not move.
  bool converged() const { return done; }

private:
  void step();
  void restart(const std::function<bool()> &stop);
  double settle(int most, double enough, const std::function<bool()> &stop);

  const ReducedProblem &problem;
  DualBound dual;
  std::vector<double> bestPrices, average, square;
  double bestBound;
  double stride = 0.1; ///< share of the Polyak step
  int failures = 0;
  int64_t sinceRestart = 0; ///< price steps
  int fruitless = 0;        ///< restarts that gained nothing, in a row
  double restartBound = -std::numeric_limits<double>::infinity();
  int64_t iterations = 0;
  int64_t extra = 0;
  bool done = false;
  std::vector<int32_t> best;
  Standing bestStanding;
};

} // namespace autopar::planner
