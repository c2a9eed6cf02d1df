// SPDX-License-Identifier: Apache-2.0
// The door between questions and methods: a cost graph goes in, the best solution found comes out,
// with a proven bound. Engines are found by name; docs/AddingAnEngine.md shows the smallest one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "autopar/Base/Status.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar {

/// How far a search is.
struct SearchProgress {
  double timeUs = 0;       ///< of the best choice so far
  double lowerBoundUs = 0; ///< proven so far
  bool fits = false;       ///< the best choice is legal and within the limit
  /// The best choice; costs about as much as evaluate().
  std::function<std::vector<int32_t>()> choice;
};

struct SearchOptions {
  /// How much to search, in abstract units of about one million elementary steps; the answer
  /// depends on this and the seed alone, on any number of threads. 0: the engine's default, which
  /// grows with the graph.
  int64_t workUnits = 0;
  int threads = 1;
  uint64_t seed = 1;
  /// Wall-clock guard in seconds; 0: none. A solution that it cut short says so (StopReason).
  double timeGuardSeconds = 0;
  /// Below this relative gap a solution counts as optimal.
  double optimalGap = 1e-9;
  /// Solve copies of a block once (needs CostGraph::blocks).
  bool foldBlocks = true;
  /// A good choice soon, not proven best: where blocks are folded, copies stay as they were solved
  /// together.
  bool rough = false;
  /// Where blocks are folded: whether the lower bound is of use, which takes as long as the search.
  bool bounds = true;
  /// Where no choice of folded blocks fits: whether copies are searched one by one, which takes
  /// many times as long.
  bool unfolds = true;
  /// A choice to improve: one strategy per node, -1 for any; it need not fit. Empty: none.
  std::vector<int32_t> start;
  /// Where nothing fits, gets the least memory of a choice that was found. Null: what provably does
  /// not fit is refused without looking for it.
  int64_t *leastBytes = nullptr;
  /// Called by the searching thread a few times a second, while it lasts; changes nothing. Searches
  /// of folded graphs and of solvers do not call it.
  std::function<void(const SearchProgress &)> onProgress;
};

/// Why an engine stopped looking.
enum class StopReason : uint8_t {
  Optimal,    ///< proven within SearchOptions::optimalGap
  WorkBudget, ///< the work units were used up
  TimeGuard,  ///< the clock ran out: not reproducible
  Converged,  ///< the method has nothing more to try
};
/// "optimal", "work budget", "time guard", "converged".
std::string_view name(StopReason reason);

struct Solution {
  std::vector<int32_t> choice; ///< one strategy per node
  double timeUs = 0;
  int64_t peakBytes = 0;
  double lowerBoundUs = 0; ///< no legal choice within the limit is cheaper
  StopReason stoppedBy = StopReason::Converged;
  std::string engine;    ///< who found it
  int64_t workUnits = 0; ///< what it took

  /// (timeUs - lowerBoundUs) / timeUs; 0 for a free solution.
  double gap() const;
};

/// A search method. Engines hold no state between calls and may be called from several threads.
class SearchEngine {
public:
  virtual ~SearchEngine() = default;
  virtual std::string_view name() const = 0;
  /// The best solution found that is legal and within the memory limit: one, as what does not fit
  /// once it is lowered is searched again with the margin that was measured. BadInput when the
  /// graph is malformed, when no legal choice exists, or when none was found within the limit (the
  /// message names the least memory found).
  virtual Result<Solution> search(const CostGraph &graph, const SearchOptions &options) const = 0;
};

/// "auto", "own", "exact" (where a solver was there at build time), and what was registered.
std::vector<std::string> searchEngineNames();
/// BadInput with the known names for an unknown one.
Result<const SearchEngine *> findSearchEngine(std::string_view engineName);
/// Adds an engine for the rest of the process; BadInput for a name that is taken.
Status registerSearchEngine(std::unique_ptr<SearchEngine> engine);

} // namespace autopar
