// SPDX-License-Identifier: Apache-2.0
// The engine that needs no solver: exact reductions, a bound from message passing with memory
// prices, and tree moves from the choices that the prices suggest. The same answer on any number of
// threads: a fixed number of lanes search disjoint parts of the graph and meet after fixed work.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <thread>

#include "Engines.h"
#include "MemoryPrices.h"
#include "ReducedProblem.h"
#include "SmallSearch.h"
#include "TreeNeighbourhood.h"
#include "autopar/Planner/FoldBlocks.h"

namespace autopar::planner {
namespace {

constexpr int kLanes = 4;
constexpr int64_t kUnit = 1'000'000;

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

/// A and B changed different parts of `from`; the better of A, B and both changes together.
std::vector<int32_t> merge(const ReducedProblem &problem, const std::vector<int32_t> &from,
                           const std::vector<std::vector<int32_t>> &lanes) {
  std::vector<int32_t> best = from;
  Standing bestStanding = standingOf(problem, from);
  for (const std::vector<int32_t> &lane : lanes) {
    std::vector<int32_t> both = best;
    for (size_t i = 0; i < both.size(); ++i)
      if (lane[i] != from[i])
        both[i] = lane[i];
    Standing bothStanding = standingOf(problem, both), laneStanding = standingOf(problem, lane);
    bool mergedWins = !(laneStanding < bothStanding);
    const Standing &winner = mergedWins ? bothStanding : laneStanding;
    if (!(bestStanding < winner)) {
      best = mergedWins ? both : lane;
      bestStanding = winner;
    }
  }
  return best;
}

/// Tree moves in lanes, round by round; returns the work spent.
int64_t searchLanes(const ReducedProblem &problem, const std::vector<double> &prices,
                    std::vector<int32_t> &choice, int64_t steps, uint64_t seed, int threads,
                    double target, int64_t mostStale, const std::function<bool()> &stop) {
  auto nodes = static_cast<int32_t>(problem.nodes.size());
  int lanes = nodes < 64 ? 1 : kLanes;
  int64_t spent = 0;
  int64_t perRound = std::max<int64_t>(kUnit / 2, 4 * problem.sweepWork());
  Standing reached = standingOf(problem, choice);
  int64_t stale = 0;
  for (uint64_t round = 0; spent < steps && stale < mostStale && !stop(); ++round) {
    std::vector<std::vector<int32_t>> found(static_cast<size_t>(lanes));
    std::vector<int64_t> work(static_cast<size_t>(lanes), 0);
    int64_t share = std::max<int64_t>(1, std::min(perRound, steps - spent) / lanes);
    // Lane borders move from round to round, so that no node is always at a border.
    auto border = [&](int lane) {
      int64_t shift = round % 2 ? nodes / (2 * lanes) : 0;
      int64_t at = int64_t(nodes) * lane / lanes + shift;
      return static_cast<int32_t>(lane == 0 ? 0 : lane == lanes ? nodes : at);
    };
    auto runLane = [&](int lane) {
      auto at = static_cast<size_t>(lane);
      TreeNeighbourhood search(problem, choice, prices,
                               seed + 0x9e3779b97f4a7c15ull * (round * kLanes + at + 1));
      search.run(share, border(lane), border(lane + 1), stop);
      found[at] = search.choice();
      work[at] = search.work();
    };
    if (threads > 1 && lanes > 1) {
      std::vector<std::thread> pool;
      int used = std::min(threads, lanes);
      for (int t = 0; t < used; ++t)
        pool.emplace_back([&, t] {
          for (int lane = t; lane < lanes; lane += used)
            runLane(lane);
        });
      for (std::thread &thread : pool)
        thread.join();
    } else {
      for (int lane = 0; lane < lanes; ++lane)
        runLane(lane);
    }
    choice = merge(problem, choice, found);
    for (int64_t one : work)
      spent += one;
    Standing standing = standingOf(problem, choice);
    if (standing.over == 0 && standing.cost <= target)
      break;
    stale = standing < reached ? 0 : stale + 1;
    reached = standing;
  }
  return spent;
}

class OwnEngine final : public SearchEngine {
public:
  std::string_view name() const override { return "own"; }

  Result<std::vector<Solution>> search(const CostGraph &graph,
                                       const SearchOptions &options) const override {
    AUTOPAR_RETURN_IF_ERROR(graph.verify());
    if (options.foldBlocks && worthFolding(graph)) {
      Result<std::optional<Solution>> folded = searchFolded(graph, options);
      if (folded && *folded)
        return std::vector<Solution>{**folded};
      if (!folded && graph.memoryLimitBytes > 0 && fewestBytes(graph) > graph.memoryLimitBytes)
        return folded.status();
    } else if (std::optional<Solution> unlimited = searchWithoutLimit(*this, graph, options)) {
      return std::vector<Solution>{std::move(*unlimited)};
    }
    Result<Reduction> reduction = Reduction::of(graph);
    if (!reduction)
      return reduction.status();
    Result<Solution> solution = searchReduced(graph, *reduction, options);
    if (!solution)
      return solution.status();
    return std::vector<Solution>{solution.take()};
  }
};

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

} // namespace

Status refuse(const CostGraph &graph, const Evaluation &evaluation, const SearchOptions &options) {
  if (!evaluation.legal)
    return Status::badInput("no legal choice was found: " + evaluation.whyNot);
  if (options.leastBytes)
    *options.leastBytes = evaluation.peakBytes;
  return Status::badInput("no choice fits into " + std::to_string(graph.memoryLimitBytes) +
                          " bytes; the least found is " + std::to_string(evaluation.peakBytes) +
                          " bytes (at time point " + std::to_string(evaluation.peakAt) +
                          "); raise the limit or use more devices");
}

int64_t fewestBytes(const CostGraph &graph) {
  std::map<int64_t, int64_t> changes; // of bytes held, by time
  int64_t always = graph.constantBytes, held = 0, most = 0;
  for (const CostNode &node : graph.nodes) {
    int64_t live = std::numeric_limits<int64_t>::max(), persistent = live;
    for (const Strategy &strategy : node.strategies) {
      live = std::min(live, strategy.liveBytes);
      persistent = std::min(persistent, strategy.persistentBytes);
    }
    always += persistent;
    for (const LiveInterval &interval : node.live)
      if (interval.begin < interval.end) {
        changes[interval.begin] += live;
        changes[interval.end] -= live;
      }
  }
  for (const auto &[time, change] : changes)
    most = std::max(most, held += change);
  return always + most;
}

/// Copies are worth folding where the whole graph is too large to be searched in a second or two.
bool worthFolding(const CostGraph &graph) {
  double entries = 0;
  for (const CostEdge &edge : graph.edges)
    entries += static_cast<double>(graph.matrices[static_cast<size_t>(edge.matrix)].size());
  return !graph.blocks.empty() && entries > 2e6;
}

namespace {

/// One attempt: fold `posed`, search, and judge the expanded choice by `graph`.
Result<std::optional<Solution>> searchFoldedOnce(const CostGraph &posed, const CostGraph &graph,
                                                 const SearchOptions &options) {
  std::unique_ptr<SearchEngine> engine = makeOwnEngine();
  Result<std::optional<FoldedGraph>> folded = foldIdenticalBlocks(posed, *engine, options);
  if (!folded)
    return folded.status();
  if (!*folded)
    return std::optional<Solution>();
  const FoldedGraph &small = **folded;
  SearchOptions inner = options;
  inner.foldBlocks = false;
  Result<std::vector<Solution>> found = engine->search(small.graph, inner);
  if (!found)
    return found.status();
  Solution solution = found->front();
  solution.choice = small.expand(solution.choice);
  Evaluation evaluation = evaluate(graph, solution.choice);
  if (!evaluation.legal || !evaluation.fits)
    return refuse(graph, evaluation, options);
  solution.timeUs = evaluation.timeUs;
  solution.peakBytes = evaluation.peakBytes;
  solution.lowerBoundUs = std::min(small.lowerBoundUs, solution.timeUs);
  solution.workUnits += small.workUnits;
  // What is optimal among block solutions need not be optimal.
  bool proven = solution.timeUs - solution.lowerBoundUs <= options.optimalGap * solution.timeUs;
  if (solution.stoppedBy == StopReason::Optimal && !proven)
    solution.stoppedBy = StopReason::Converged;
  return std::optional<Solution>(std::move(solution));
}

} // namespace

/// Without a limit far more nodes can be eliminated, and often the answer fits all the same.
std::optional<Solution> searchWithoutLimit(const SearchEngine &engine, const CostGraph &graph,
                                           const SearchOptions &options) {
  if (graph.memoryLimitBytes <= 0 || options.timeGuardSeconds > 0)
    return std::nullopt;
  CostGraph unlimited = graph;
  unlimited.memoryLimitBytes = 0;
  SearchOptions inner = options;
  inner.foldBlocks = false;
  Result<std::vector<Solution>> found = engine.search(unlimited, inner);
  if (!found || found->front().peakBytes > graph.memoryLimitBytes)
    return std::nullopt;
  return found->front();
}

/// Where the best choice without a limit fits, one solution per block is enough.
Result<std::optional<Solution>> searchFolded(const CostGraph &graph, const SearchOptions &options) {
  if (graph.memoryLimitBytes > 0) {
    CostGraph unlimited = graph;
    unlimited.memoryLimitBytes = 0;
    Result<std::optional<Solution>> found = searchFoldedOnce(unlimited, graph, options);
    if (found)
      return found;
  }
  return searchFoldedOnce(graph, graph, options);
}

/// One search of a reduced problem: prices first, then tree moves and prices in turn.
class ReducedSearch {
public:
  ReducedSearch(const ReducedProblem &problem, const SearchOptions &options)
      : problem(problem), options(options),
        budget(stepsFor(problem, options), options.timeGuardSeconds), prices(problem) {}

  void run();
  bool optimal() const {
    Standing standing = prices.standing();
    return problem.nodes.empty() || proven ||
           (standing.over == 0 && standing.cost - prices.bound() <= allowed());
  }
  double bound() const { return proven ? prices.standing().cost : prices.bound(); }
  const std::vector<int32_t> &choice() const { return prices.choice(); }
  StopReason stopped() const {
    if (optimal())
      return StopReason::Optimal;
    if (cut)
      return StopReason::TimeGuard;
    return spent >= budget.left ? StopReason::WorkBudget : StopReason::Converged;
  }
  int64_t work() const { return spent; }

private:
  double allowed() const {
    return options.optimalGap * std::max(1.0, std::abs(prices.standing().cost));
  }
  void runSmall();

  const ReducedProblem &problem;
  const SearchOptions &options;
  Budget budget;
  MemoryPrices prices;
  int64_t spent = 0;
  std::atomic<bool> cut = false; ///< by the clock: not reproducible
  bool proven = false;
  bool hopeless = false; ///< proven that nothing fits
};

/// Problems of a few nodes are looked through completely.
void ReducedSearch::runSmall() {
  if (problem.nodes.size() > 60 || optimal())
    return;
  Standing standing = prices.standing();
  double upper = standing.over == 0 ? standing.cost : problem.forbidden;
  SmallSearchResult small =
      searchSmall(problem, upper, std::min<int64_t>(20 * kUnit, budget.left / 4));
  spent += small.work;
  if (small.found)
    prices.offer(small.best);
  bool fits = prices.standing().over == 0 && prices.standing().cost < problem.forbidden / 2;
  proven = small.complete && fits;
  hopeless = small.complete && !fits;
}

void ReducedSearch::run() {
  if (problem.nodes.empty())
    return;
  int64_t total = budget.left;
  bool toTheEnd = options.timeGuardSeconds > 0 && options.workUnits == 0;
  int64_t mostStale = toTheEnd ? std::numeric_limits<int64_t>::max() : 12;
  auto lateAt = [&](double share) {
    return [this, share] {
      bool late = budget.late(share);
      if (late)
        cut = true; // lanes run side by side; all of them only ever set it
      return late;
    };
  };
  prices.run(total / 3, options.optimalGap, lateAt(0.25));
  spent = prices.work();
  runSmall();
  for (double share : {0.6, 1.0}) {
    if (optimal() || hopeless || budget.late() || spent >= total)
      break;
    std::vector<int32_t> choice = prices.choice();
    auto steps = static_cast<int64_t>(static_cast<double>(total) * share * 0.9) - spent;
    spent +=
        searchLanes(problem, prices.prices(), choice, std::max<int64_t>(steps, kUnit), options.seed,
                    options.threads, prices.bound() + allowed(), mostStale, lateAt(share * 0.95));
    prices.offer(choice);
    if (share < 1 && !prices.converged()) {
      int64_t before = prices.work();
      prices.run(total / 10, options.optimalGap, lateAt(share + 0.1));
      spent += prices.work() - before;
    }
  }
}

Result<Solution> searchReduced(const CostGraph &graph, const Reduction &reduction,
                               const SearchOptions &options) {
  ReducedSearch search(reduction.problem(), options);
  search.run();
  Solution solution = makeSolution(graph, reduction, search.choice());
  Evaluation evaluation = evaluate(graph, solution.choice);
  if (!evaluation.legal || !evaluation.fits)
    return refuse(graph, evaluation, options);
  solution.stoppedBy = search.stopped();
  solution.lowerBoundUs =
      search.optimal() ? solution.timeUs : std::clamp(search.bound(), 0.0, solution.timeUs);
  solution.workUnits = search.work() / kUnit;
  return solution;
}

std::unique_ptr<SearchEngine> makeOwnEngine() { return std::make_unique<OwnEngine>(); }

} // namespace autopar::planner
