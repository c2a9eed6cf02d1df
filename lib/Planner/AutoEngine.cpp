// SPDX-License-Identifier: Apache-2.0
// The default engine: the own method first; where it leaves a gap and the problem is small enough,
// the exact engine starts from its answer and closes it.
#include "Engines.h"

namespace autopar::planner {
namespace {

/// Sizes (legal pairs) up to which a solver helps within about a second, and within minutes.
constexpr int64_t kQuick = 3'000, kPatient = 400'000;

/// The solver where the caller set no guard. Under a memory limit it is at the best choice, or
/// within a few hundredths of a per mille of it, after the root of its tree; to prove the rest took
/// it a hundred times as long.
constexpr ExactLimits kQuickLimits = {.seconds = 10, .nodes = 50};
constexpr int kPatientNodes = 2000;

class AutoEngine final : public EasierFirst {
public:
  std::string_view name() const override { return "auto"; }

private:
  Result<Solution> searchRest(const CostGraph &graph, const Reduction &reduction,
                              const SearchOptions &options) const override {
    bool guarded = options.timeGuardSeconds > 0;
    bool exact =
        !options.rough && exactColumns(reduction.problem()) <= (guarded ? kPatient : kQuick);
    SearchOptions first = options;
    if (exact && guarded)
      first.timeGuardSeconds *= 0.3;
    Result<Solution> own = searchReduced(graph, reduction, first);
    if (!own)
      return own.status();
    Solution solution = own.take();
    if (exact)
      improveExactly(graph, reduction,
                     guarded ? ExactLimits{options.timeGuardSeconds * 0.65, kPatientNodes}
                             : kQuickLimits,
                     options, solution);
    return solution;
  }
};

} // namespace

std::unique_ptr<SearchEngine> makeAutoEngine() { return std::make_unique<AutoEngine>(); }

} // namespace autopar::planner
