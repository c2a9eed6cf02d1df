// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "WaitedShares.h"

#include "SideBySide.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr double kDiffers = 0.02; ///< from one share to another

WaitedShares::WaitedShares(ModuleOp module, const AutoShardOptions &options,
                           const LowerOptions &lower, const SearchHandoff &first,
                           SearchShare searchShare, bool isLowered)
    : context(*module.getContext()), options(options), lower(lower),
      searchShare(std::move(searchShare)), isLowered(isLowered), judge(module, options, lower) {
  for (double share : {kLeastWaitedShare, 1.0})
    if (std::abs(share - first.waitedShare) >= kDiffers)
      shares.push_back(share);
}

void WaitedShares::search(const SearchHandoff &first, std::optional<ComputesAgain> with) {
  searchedWith = with;
  timesUs.clear();
  plans.clear();
  for (double share : shares) {
    SearchHandoff &found = plans.emplace_back();
    found.again = with;
    found.knownMeshUs = first.meshUs;
    found.kept = first.kept;
    found.modules.keepsGroups = !isLowered;
    OwnDiagnostics silent(&context, [](Diagnostic &) { return success(); });
    if (failed(searchShare(found, share)))
      found.plan.reset();
    found.kept.reset();
  }
}

LogicalResult WaitedShares::prepareTiming(double firstUs, std::function<void()> last) {
  timesUs.assign(plans.size(), failure());
  for (SearchHandoff &found : plans)
    if (found.plan && found.plan->believed.stepUs == firstUs)
      found.plan.reset(); // takes the same time by the search: one is enough
  behindAll = std::move(last);
  next = 0;
  return judge.load();
}

void WaitedShares::workOff() {
  for (size_t i; (i = next++) <= plans.size();)
    if (i == plans.size())
      behindAll();
    else if (plans[i].plan)
      timesUs[i] = timeOf(plans[i]);
}

FailureOr<SearchHandoff> WaitedShares::fastest(SearchHandoff first) {
  if (failed(judge.load()))
    return failure();
  loadDialects(context, options, lower);
  FailureOr<double> firstUs = failure();
  auto timeFirst = [&] {
    if (failed(firstUs))
      firstUs = timeOf(first);
  };
  bool isSearched = plans.size() == shares.size() && searchedWith == first.again;
  if (!isSearched)
    runSideBySide(context, 2, [&](size_t i) {
      if (i == 0)
        timeFirst();
      else
        search(first, first.again);
    });
  first.kept.reset();
  if (!isSearched || next == 0) {
    if (failed(prepareTiming(first.plan->believed.stepUs, timeFirst)))
      return failure();
    runSideBySide(context, 2, [&](size_t) { workOff(); });
  }
  timeFirst();
  plans.push_back(std::move(first));
  timesUs.push_back(firstUs);
  size_t best = plans.size() - 1;
  for (auto [plan, us] : llvm::zip_equal(plans, timesUs))
    if (plan.plan && failed(us))
      return failure();
  for (auto [number, us] : llvm::enumerate(timesUs))
    if (plans[number].plan && *us < *timesUs[best])
      best = number;
  SearchHandoff taken = std::move(plans[best]);
  taken.outdone = std::move(plans);
  return std::move(taken);
}

FailureOr<double> WaitedShares::timeOf(SearchHandoff &found) const {
  FailureOr<PlanJudge::KernelTimes> times = judge.kernelTimes(*found.plan, found.modules);
  if (failed(times))
    return failure();
  return times->stepUs;
}
