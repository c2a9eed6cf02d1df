// SPDX-License-Identifier: Apache-2.0
// One search of a reduced problem: tree moves and prices side by side, and challengers.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>

#include "Engines.h"
#include "Lanes.h"
#include "MemoryPrices.h"
#include "Recombine.h"
#include "Reduction.h"
#include "SmallSearch.h"

namespace autopar::planner {
namespace {

constexpr int64_t kUnit = 1'000'000;
/// Rounds without a gain after which the best choice is challenged, and a challenger is given up.
constexpr int64_t kStaleBest = 6, kStaleChallenger = 3;
/// Share of the cost that counts as a gain.
constexpr double kGain = 1e-5;

/// Fills the gaps (-1) of a choice: each node takes what is cheapest with the neighbours that are
/// decided.
std::vector<int32_t> completed(const ReducedProblem &problem, std::vector<int32_t> choice) {
  for (size_t i = 0; i < choice.size(); ++i) {
    if (choice[i] >= 0)
      continue;
    const ReducedNode &node = problem.nodes[i];
    double least = std::numeric_limits<double>::infinity();
    for (int32_t k = 0; k < node.size(); ++k) {
      double cost = node.cost[static_cast<size_t>(k)];
      for (const Arc &arc : node.arcs)
        if (int32_t other = choice[static_cast<size_t>(arc.other)]; other >= 0)
          cost += problem.row(arc, k)[other];
      if (cost < least) {
        least = cost;
        choice[i] = k;
      }
    }
  }
  return choice;
}

/// More than a trifle better.
bool gains(const Standing &before, const Standing &after) {
  if (after.isLegal != before.isLegal || after.over != before.over)
    return after < before;
  return after.cost < before.cost - kGain * std::abs(before.cost);
}

/// Work and clock of one search.
class Budget {
public:
  Budget(int64_t steps, double guardSeconds) : left(steps), start(Clock::now()) {
    guard = guardSeconds > 0 ? guardSeconds : std::numeric_limits<double>::infinity();
  }
  bool late(double share = 1) const {
    return std::chrono::duration<double>(Clock::now() - start).count() >= guard * share;
  }
  int64_t left;

private:
  using Clock = std::chrono::steady_clock;
  Clock::time_point start;
  double guard;
};

int64_t stepsFor(const ReducedProblem &problem, const SearchOptions &options) {
  if (options.workUnits > 0)
    return options.workUnits * kUnit;
  if (options.timeGuardSeconds > 0)
    return std::numeric_limits<int64_t>::max() / 4;
  return std::clamp<int64_t>(1500 * problem.sweepWork(), 20 * kUnit, 20'000 * kUnit);
}
Solution makeSolution(const CostGraph &graph, const Reduction &reduction,
                      const std::vector<int32_t> &choice) {
  Solution solution;
  solution.choice = reduction.expand(choice);
  Evaluation evaluation = evaluate(graph, solution.choice);
  solution.timeUs = evaluation.timeUs;
  solution.peakBytes = evaluation.peakBytes;
  solution.engine = "own";
  return solution;
}

/// Rounds of tree moves, with prices raised at the same time. When the best choice gets no better,
/// a challenger starts from what the prices say now, and its better parts join the best choice.
class ReducedSearch {
public:
  ReducedSearch(const Reduction &reduction, const SearchOptions &options)
      : reduction(reduction), problem(reduction.problem()), options(options),
        budget(stepsFor(problem, options), options.timeGuardSeconds), prices(problem) {
    for (int64_t left : problem.room)
      unavoidable += std::max<int64_t>(0, -left);
  }

  void run();
  bool optimal() const {
    return problem.nodes.empty() || proven ||
           (bestStanding.over == 0 && bestStanding.cost - prices.bound() <= allowed());
  }
  double bound() const { return proven ? bestStanding.cost : prices.bound(); }
  const std::vector<int32_t> &choice() const { return best; }
  StopReason stopped() const {
    if (optimal())
      return StopReason::Optimal;
    if (cut)
      return StopReason::TimeGuard;
    return spent() >= budget.left ? StopReason::WorkBudget : StopReason::Converged;
  }
  int64_t spent() const { return prices.work() + otherWork; }

private:
  double allowed() const { return options.optimalGap * std::max(1.0, std::abs(bestStanding.cost)); }
  bool fits() const { return bestStanding.over == 0 && bestStanding.cost < problem.forbidden / 2; }
  bool finished();
  bool stop() {
    if (budget.late())
      cut = true; // lanes run side by side; all of them only ever set it
    return cut;
  }
  void offer(const std::vector<int32_t> &other);
  void runRound();
  void challenge();
  void runSmall();
  void tell() const;

  const Reduction &reduction;
  const ReducedProblem &problem;
  const SearchOptions &options;
  Budget budget;
  MemoryPrices prices;
  std::vector<int32_t> best, challenger; ///< the lanes work on the challenger where there is one
  Standing bestStanding;
  int64_t unavoidable = 0; ///< overfill with the smallest strategy of every node
  int64_t otherWork = 0, round = 0, stale = 0, challenges = 0, fruitless = 0;
  double boundBefore = 0;        ///< at the last challenge
  std::atomic<bool> cut = false; ///< by the clock: not reproducible
  bool proven = false;
  bool hopeless = false;  ///< proven that nothing fits
  bool converged = false; ///< challengers bring nothing any more
};

/// Keeps the better parts of both.
void ReducedSearch::offer(const std::vector<int32_t> &other) {
  best = best.empty() ? other : recombine(problem, best, other);
  bestStanding = standingOf(problem, best);
  otherWork += problem.sweepWork() / 8;
}

void ReducedSearch::tell() const {
  if (options.onProgress)
    options.onProgress({bestStanding.cost, std::min(bound(), bestStanding.cost), fits(),
                        [this] { return reduction.expand(best); }});
}

/// Problems of a few nodes are looked through completely.
void ReducedSearch::runSmall() {
  if (problem.nodes.size() > 60 || optimal())
    return;
  double upper = bestStanding.over == 0 ? bestStanding.cost : problem.forbidden;
  SmallSearchResult small =
      searchSmall(problem, upper, std::min<int64_t>(20 * kUnit, budget.left / 4));
  otherWork += small.work;
  if (small.found)
    offer(small.best);
  proven = small.complete && fits();
  hopeless = small.complete && !fits();
}

bool ReducedSearch::finished() {
  // Where nothing can fit, only the least memory is looked for, and not for long.
  if (unavoidable > 0 &&
      ((bestStanding.isLegal && bestStanding.over == unavoidable) || challenges > 1))
    hopeless = true;
  return optimal() || hopeless || converged || stop() || spent() >= budget.left;
}

void ReducedSearch::runRound() {
  std::vector<int32_t> &at = challenger.empty() ? best : challenger;
  Standing before = standingOf(problem, at);
  LaneRound lanes;
  lanes.steps = std::min(std::max<int64_t>(kUnit / 2, 4 * problem.sweepWork()),
                         std::max<int64_t>(budget.left - spent(), 1));
  lanes.seed = options.seed;
  lanes.number = round++;
  lanes.threads = options.threads;
  lanes.stop = [this] { return stop(); };
  if (!prices.converged())
    lanes.beside = [this, steps = lanes.steps] {
      prices.run(steps, options.optimalGap, [this] { return stop(); });
    };
  std::vector<double> guide = prices.prices(); // a copy: they move beside the lanes
  otherWork += searchLanes(problem, guide, at, lanes);
  Standing after = standingOf(problem, at);
  if (challenger.empty())
    bestStanding = after;
  if (prices.standing() < bestStanding)
    offer(prices.choice());
  else
    prices.offer(best);
  stale = gains(before, after) ? 0 : stale + 1;
}

/// Starts a challenger, or ends one.
void ReducedSearch::challenge() {
  if (!challenger.empty()) {
    Standing before = bestStanding;
    offer(challenger);
    challenger.clear();
    bool better = gains(before, bestStanding);
    stale = better ? 0 : kStaleBest - 2;
    fruitless = better ? 0 : fruitless + 1;
    return;
  }
  bool toTheEnd = options.timeGuardSeconds > 0 && options.workUnits == 0;
  bool flat = prices.converged() || prices.bound() - boundBefore <= 1e-3 * std::abs(prices.bound());
  converged = !toTheEnd && fruitless >= 1 && flat;
  boundBefore = prices.bound();
  challenger = prices.freshChoice(options.seed + static_cast<uint64_t>(++challenges));
  stale = 0;
}

void ReducedSearch::run() {
  if (problem.nodes.empty())
    return;
  if (!options.start.empty())
    offer(completed(problem, reduction.shrink(options.start)));
  prices.run(1, options.optimalGap, [this] { return stop(); });
  offer(prices.choice());
  tell();
  while (!finished()) {
    runRound();
    if (round == 1)
      runSmall();
    if (stale >= (challenger.empty() ? kStaleBest : kStaleChallenger))
      challenge();
    tell();
  }
}

} // namespace

Result<Solution> searchReduced(const CostGraph &graph, const Reduction &reduction,
                               const SearchOptions &options) {
  ReducedSearch search(reduction, options);
  search.run();
  Solution solution = makeSolution(graph, reduction, search.choice());
  Evaluation evaluation = evaluate(graph, solution.choice);
  if (!evaluation.legal || !evaluation.fits)
    return refuse(graph, evaluation, options);
  solution.stoppedBy = search.stopped();
  solution.lowerBoundUs =
      search.optimal() ? solution.timeUs : std::clamp(search.bound(), 0.0, solution.timeUs);
  solution.workUnits = search.spent() / kUnit;
  return solution;
}

} // namespace autopar::planner
