// SPDX-License-Identifier: Apache-2.0
// How much of what goes on beside what computes is waited for, only the program shows that a plan
// becomes. So plans are also searched for that all of it, or next to nothing, is waited for, and
// the fastest program wins.
#pragma once

#include "PlanJudge.h"

#include <atomic>
#include <functional>

namespace mlir::autopar {

class WaitedShares {
public:
  /// Leaves in `found` the best plan where such a share is waited for.
  using SearchShare = std::function<LogicalResult(SearchHandoff &found, double share)>;

  /// `first` has been searched. All but it outlive this. `isLowered`: the fastest program is
  /// lowered, and nobody asks for its groups before it turns out not to fit.
  WaitedShares(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower,
               const SearchHandoff &first, SearchShare searchShare, bool isLowered);

  /// Whether something is hidden that plans could count otherwise.
  static bool areMany(const SearchHandoff &first, const AutoShardOptions &options) {
    return (first.waitedShare < 1 || first.overlapsParts) && options.engine != "random";
  }

  /// Searches the plans of other shares, with what `first` was searched with. One after the other:
  /// they count anew what is waited for in the same problems, and these are solved side by side.
  void search(const SearchHandoff &first, std::optional<ComputesAgain> with);
  /// Leaves the kernels of what was searched, unless it takes the `firstUs` of the first plan, to
  /// those who work off, and `last` behind them.
  LogicalResult prepareTiming(double firstUs, std::function<void()> last);
  void workOff();
  /// Does what of this was not done yet; while others are searched, the kernels of the first plan
  /// are timed.
  FailureOr<SearchHandoff> fastest(SearchHandoff first);

private:
  FailureOr<double> timeOf(SearchHandoff &found) const;

  MLIRContext &context;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  SearchShare searchShare;
  bool isLowered;
  PlanJudge judge;
  std::vector<double> shares;                ///< of all but the first plan
  std::vector<SearchHandoff> plans;          ///< of these; with the first one at last
  std::vector<FailureOr<double>> timesUs;    ///< of plans, by their kernels
  std::atomic<size_t> next = 0;              ///< plan to be timed
  std::function<void()> behindAll;           ///< done as the last of them
  std::optional<ComputesAgain> searchedWith; ///< what others take for computed again
};

} // namespace mlir::autopar
