// SPDX-License-Identifier: Apache-2.0
// Subgradient ascent on memory prices around message passing.
#include "MemoryPrices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autopar::planner {

std::vector<int64_t> heldBytes(const ReducedProblem &problem, const std::vector<int32_t> &choice) {
  std::vector<int64_t> held(problem.room.size() + 1, 0);
  for (size_t i = 0; i < problem.nodes.size(); ++i) {
    const ReducedNode &node = problem.nodes[i];
    for (size_t p = 0; p < node.memory.pieces.size(); ++p) {
      int64_t bytes = node.memory.bytes[p * node.cost.size() + static_cast<size_t>(choice[i])];
      held[static_cast<size_t>(node.memory.pieces[p].begin)] += bytes;
      held[static_cast<size_t>(node.memory.pieces[p].end)] -= bytes;
    }
  }
  for (size_t t = 1; t < held.size(); ++t)
    held[t] += held[t - 1];
  held.pop_back();
  return held;
}

Standing standingOf(const ReducedProblem &problem, const std::vector<int32_t> &choice) {
  Standing standing{0, problem.costOf(choice)};
  standing.isLegal = standing.cost < problem.forbidden / 2;
  std::vector<int64_t> held = heldBytes(problem, choice);
  for (size_t t = 0; t < held.size(); ++t)
    standing.over += std::max<int64_t>(0, held[t] - problem.room[t]);
  return standing;
}

MemoryPrices::MemoryPrices(const ReducedProblem &problem)
    : problem(problem), dual(problem), bestPrices(problem.room.size(), 0.0),
      average(problem.room.size(), 0.0), square(problem.room.size(), 0.0),
      bestBound(-std::numeric_limits<double>::infinity()), best(problem.nodes.size(), 0) {
  bestStanding = standingOf(problem, best);
}

void MemoryPrices::offer(const std::vector<int32_t> &choice) {
  Standing standing = standingOf(problem, choice);
  extra += problem.sweepWork() / 8;
  if (standing < bestStanding) {
    best = choice;
    bestStanding = standing;
  }
}

/// One price step: a Polyak step from the best prices along the averaged excess, in a metric that
/// gives every time point the weight of its own usual excess.
void MemoryPrices::step() {
  std::vector<int32_t> priced = dual.decode();
  offer(priced);
  std::vector<int64_t> held = heldBytes(problem, priced);
  double mix = iterations == 0 ? 1.0 : 0.2;
  double slope = 0;
  for (size_t t = 0; t < held.size(); ++t) {
    auto excess = static_cast<double>(held[t] - problem.room[t]);
    average[t] += mix * (excess - average[t]);
    square[t] += (iterations == 0 ? 1.0 : 0.05) * (excess * excess - square[t]);
    if (bestPrices[t] > 0 || average[t] > 0)
      slope += average[t] * average[t] / std::sqrt(square[t] + 1);
  }
  if (slope <= 0) {
    done = true;
    return;
  }
  // Without a choice that fits, aim a few per cent above the bound.
  double target = bestStanding.over == 0 && bestStanding.cost < problem.forbidden / 2
                      ? bestStanding.cost
                      : bestBound + 0.3 * std::abs(bestBound) + 1;
  target = std::min(target, bestBound + 0.3 * std::abs(bestBound) + 1);
  double length = stride * std::max(target - bestBound, 1e-3 * std::abs(target)) / slope;
  std::vector<double> next(bestPrices.size());
  for (size_t t = 0; t < next.size(); ++t)
    next[t] = std::max(0.0, bestPrices[t] + length * average[t] / std::sqrt(square[t] + 1));
  dual.setPrices(next);
}

/// Sweeps until the messages have settled for the present prices.
double MemoryPrices::settle(int most, const std::function<bool()> &stop) {
  double bound = dual.sweep();
  for (int i = 1; i < most && !stop(); ++i) {
    double next = dual.sweep();
    bool settled = next - bound <= 2e-4 * std::abs(next);
    bound = std::max(bound, next);
    if (settled)
      break;
  }
  return bound;
}

void MemoryPrices::run(int64_t steps, double optimalGap, const std::function<bool()> &stop) {
  int64_t end = work() + steps;
  double previous = -std::numeric_limits<double>::infinity();
  int flat = 0;
  while (!done && work() < end && !stop()) {
    double bound = problem.hasMemory() ? settle(iterations == 0 ? 60 : 3, stop) : dual.sweep();
    if (bound > bestBound) {
      bestBound = bound;
      bestPrices = dual.prices();
      failures = 0;
      stride = std::min(1.0, stride * 1.1);
    } else if (++failures >= 3) {
      stride *= 0.75;
      failures = 0;
    }
    if (iterations % 24 == 8)
      offer(dual.decodeWithinRoom());
    if (bestStanding.over == 0 &&
        bestStanding.cost - bestBound <= optimalGap * std::max(1.0, std::abs(bestStanding.cost)))
      done = true;
    if (problem.hasMemory() && !done) {
      step();
    } else if (!done) {
      offer(dual.decode());
      flat = bound - previous <= 1e-9 * std::abs(bound) ? flat + 1 : 0;
      done = flat > 20;
    }
    previous = bound;
    ++iterations;
    done = done || stride < 1e-5;
  }
  if (iterations <= 8)
    offer(dual.decodeWithinRoom());
}

} // namespace autopar::planner
