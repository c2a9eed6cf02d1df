// SPDX-License-Identifier: Apache-2.0
// The default engine: the own method first; where it leaves a gap and the problem is small enough,
// the exact engine starts from its answer and closes it.
#include "Engines.h"

namespace autopar::planner {
namespace {

/// Sizes (legal pairs) up to which a solver answers within about a second, and within minutes.
constexpr int64_t kQuick = 6'000, kPatient = 400'000;

/// Guard on the solver where the caller set none; such problems take a fraction of it.
constexpr double kQuickSeconds = 10;

class AutoEngine final : public SearchEngine {
public:
  std::string_view name() const override { return "auto"; }

  Result<std::vector<Solution>> search(const CostGraph &graph,
                                       const SearchOptions &options) const override {
    Result<std::optional<Solution>> easier = searchEasier(*this, graph, options);
    if (!easier)
      return easier.status();
    if (*easier)
      return std::vector<Solution>{**easier};
    Result<Reduction> reduction = Reduction::of(graph);
    if (!reduction)
      return reduction.status();
    bool guarded = options.timeGuardSeconds > 0;
    bool exact = exactColumns(reduction->problem()) <= (guarded ? kPatient : kQuick);
    SearchOptions first = options;
    if (exact && guarded)
      first.timeGuardSeconds *= 0.3;
    Result<Solution> own = searchReduced(graph, *reduction, first);
    if (!own)
      return own.status();
    Solution solution = own.take();
    if (exact)
      improveExactly(graph, *reduction, guarded ? options.timeGuardSeconds * 0.65 : kQuickSeconds,
                     options, solution);
    return std::vector<Solution>{std::move(solution)};
  }
};

} // namespace

std::unique_ptr<SearchEngine> makeAutoEngine() { return std::make_unique<AutoEngine>(); }

} // namespace autopar::planner
