// SPDX-License-Identifier: Apache-2.0
// Subgradient ascent on memory prices around message passing.
#include "MemoryPrices.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace autopar::planner {
namespace {

/// Sweeps for the first messages, and per price step until one beats the best bound.
constexpr int kFirstSweeps = 60, kSweepsPerStep = 2;
/// Weights of the newest excess: at first, and in the long run.
constexpr double kFirstMix = 0.3, kLastMix = 0.05;
/// Below this share of the Polyak step the ascent restarts with this one.
constexpr double kLeastStride = 1e-3, kRestartStride = 0.05;
/// Restarts in a row that gain less than this share of the bound end the ascent.
constexpr int kFruitlessRestarts = 6;
constexpr double kRestartGain = 1e-5;
/// The target of a step is at most this share above the bound.
constexpr double kAim = 0.3;
constexpr double kNever = std::numeric_limits<double>::infinity();
/// Noise of fresh choices in turn, as shares of the mean cost per node.
constexpr double kNoise[] = {0, 0.3, 0.03, 1, 0.1};

} // namespace

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

std::vector<int32_t> MemoryPrices::freshChoice(uint64_t seed) const {
  double perNode = std::abs(bestStanding.cost) / static_cast<double>(problem.nodes.size());
  return dual.decodeWithinRoom(kNoise[seed % std::size(kNoise)] * perNode, seed);
}

/// One price step: a Polyak step from the best prices along the averaged excess, in a metric that
/// gives every time point the weight of its own usual excess.
void MemoryPrices::step() {
  std::vector<int32_t> priced = dual.decode();
  offer(priced);
  std::vector<int64_t> held = heldBytes(problem, priced);
  double mix = sinceRestart == 0
                   ? 1.0
                   : std::max(kLastMix, kFirstMix * std::pow(0.98, double(sinceRestart)));
  ++sinceRestart;
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
                      : bestBound + kAim * std::abs(bestBound) + 1;
  target = std::min(target, bestBound + kAim * std::abs(bestBound) + 1);
  double length = stride * std::max(target - bestBound, 1e-3 * std::abs(target)) / slope;
  std::vector<double> next(bestPrices.size());
  for (size_t t = 0; t < next.size(); ++t)
    next[t] = std::max(0.0, bestPrices[t] + length * average[t] / std::sqrt(square[t] + 1));
  dual.setPrices(next);
}

/// Sweeps until the messages have settled for the present prices or the bound is above `enough`.
double MemoryPrices::settle(int most, double enough, const std::function<bool()> &stop) {
  double bound = dual.sweep();
  for (int i = 1; i < most && !stop() && bound <= enough; ++i) {
    double next = dual.sweep();
    bool settled = next - bound <= 2e-4 * std::abs(next);
    bound = std::max(bound, next);
    if (settled)
      break;
  }
  return bound;
}

/// Short steps that fail are often a matter of messages that lag behind: they settle for the best
/// prices, and steps are long again.
void MemoryPrices::restart(const std::function<bool()> &stop) {
  dual.setPrices(bestPrices);
  // Messages can be caught where no pass improves them; from scratch they end elsewhere.
  if (fruitless > 0)
    dual.forgetMessages();
  double settled = settle(fruitless > 0 ? kFirstSweeps : 10, kNever, stop);
  bestBound = std::max(bestBound, settled);
  stride = kRestartStride * (1 + fruitless);
  fruitless = bestBound - restartBound <= kRestartGain * std::abs(bestBound) ? fruitless + 1 : 0;
  restartBound = bestBound;
  sinceRestart = 0;
  done = fruitless >= kFruitlessRestarts;
}

void MemoryPrices::run(int64_t steps, double optimalGap, const std::function<bool()> &stop) {
  int64_t end = work() + steps;
  double previous = -std::numeric_limits<double>::infinity();
  int flat = 0;
  while (!done && work() < end && !stop()) {
    double bound = problem.hasMemory() ? settle(iterations == 0 ? kFirstSweeps : kSweepsPerStep,
                                                iterations == 0 ? kNever : bestBound, stop)
                                       : dual.sweep();
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
    if (!done && stride < kLeastStride)
      restart(stop);
  }
  if (iterations <= 8)
    offer(dual.decodeWithinRoom());
}

} // namespace autopar::planner
