// SPDX-License-Identifier: Apache-2.0
#include "PipelineEstimates.h"

#include "autopar/Base/UnitsText.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Transforms/Passes.h"
#include "mlir/IR/Threading.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

/// Micro-batches per stage at which estimates begin: no bubble is large then.
static constexpr int64_t kFilled = 4;
/// In times of the best estimate: what is nearer and fits as it is may be faster once it is built,
/// whichever of them was asked for first.
static constexpr double kNear = 1.1;
/// Of a step: what sums of its parts differ by when they are made in another order.
static constexpr double kRounding = 1e-9;

void TriedInVain::missed(int64_t leastBytes, const std::string &name, bool isEstimate) {
  auto &known = isEstimate ? leastEstimate : least;
  if (leastBytes > 0 && (!known || leastBytes < known->first))
    known.emplace(leastBytes, name);
}

std::string TriedInVain::text() const {
  std::string lines;
  for (auto &[name, reason] : reasons)
    lines += name + ": " + reason + "\n";
  return lines;
}

std::string TriedInVain::leanest() const {
  if (!least && !leastEstimate)
    return "";
  std::string way = ": raise the limit or use more devices";
  if (least)
    return "the leanest that was found, " + least->second + ", needs at least " +
           ::autopar::exactBytesText(least->first) + " per device" + way;
  return "the leanest by the estimates, " + leastEstimate->second + ", needs about " +
         ::autopar::exactBytesText(leastEstimate->first) + " per device" + way;
}

ModuleOp PipelineEstimates::split(size_t microBatches) {
  if (choices.microBatches.size() == 1)
    return module;
  auto [it, isNew] = splits.try_emplace(microBatches);
  if (!isNew)
    return it->second.get();
  it->second = module.clone();
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.microBatches = choices.microBatches[microBatches];
  std::string problem;
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    problem += diagnostic.str();
    return success();
  });
  if (own.microBatches > 1 && failed(runPhase(*it->second, Phase::SplitMicroBatches, own))) {
    it->second = nullptr;
    inVain.add(std::to_string(own.microBatches) + " micro-batches", problem);
  }
  return it->second.get();
}

/// The same where values may change their sharding between phases, as in the search that follows.
ModuleOp PipelineEstimates::held(size_t microBatches) {
  ModuleOp own = split(microBatches);
  OwningOpRef<ModuleOp> &copy = holds[microBatches];
  if (!own || copy)
    return copy.get();
  copy = own.clone();
  PassManager manager(module.getContext());
  manager.enableVerifier(false);
  manager.addNestedPass<func::FuncOp>(createHoldAcrossPhasesPass());
  if (failed(manager.run(*copy)))
    copy = nullptr;
  return copy.get();
}

/// All of `places` that are not known yet, side by side.
void PipelineEstimates::estimate(ArrayRef<PipelinePlace> places) {
  StageEstimateOptions common;
  common.memoryLimit = options.memoryLimit;
  common.memoryShare = limitShare;
  common.recomputes = options.recompute != "none";
  if (llvm::any_of(choices.schedules, [](StringRef name) { return name == "zero-bubble"; }))
    common.bubble = kFreeBubble;
  common.engine = options.engine;
  common.seed = options.seed;
  common.constraints = demands;
  if (best)
    common.near = innermost(at(*best).plan.meshes.front());
  SmallVector<std::pair<PipelinePlace, ModuleOp>> wanted;
  for (PipelinePlace place : places)
    if (!estimates.count(place)) {
      onCandidate(offered.nameOf(place));
      wanted.emplace_back(place, held(place.microBatches));
      estimates[place];
      std::shared_ptr<SolvedMeshes> &known = solved[place];
      if (!known)
        known = makeSolvedMeshes();
    }
  std::pair bounds(bestEqual, best);
  parallelFor(module.getContext(), 0, wanted.size(), [&](size_t i) {
    auto [place, own] = wanted[i];
    Estimate &estimate = estimates.at(place);
    if (!own)
      return;
    StageEstimateOptions options = common;
    options.stages = choices.stages[place.stages];
    options.shares = place.shares;
    // What shares that are not equal promise keeps no equal ones out: it is rougher.
    bool isEqual = place.shares == DeviceShares::Equal;
    if (const std::optional<PipelinePlace> &known = isEqual ? bounds.first : bounds.second) {
      double us = at(*known).stepUs;
      options.boundUs = toBeatUs.value_or(us);
      options.nearUs = isEqual && !toBeatUs ? kNear * us : 0;
    }
    options.solved = solved.at(place);
    options.leastUs = &estimate.leastUs;
    options.unfitUs = &estimate.unfitUs;
    options.leastBytes = &estimate.leastBytes;
    auto found = estimateStages(own.lookupSymbol<func::FuncOp>("main"), cluster, options);
    if (found)
      estimate.found = found.take();
    else
      estimate.whyNot = found.status().message();
  });
  for (auto &[place, own] : wanted)
    keepBest(place);
}

/// If its estimate is the best so far.
void PipelineEstimates::keepBest(PipelinePlace place) {
  if (!estimates.at(place).found)
    return;
  auto keep = [&](std::optional<PipelinePlace> &known) {
    if (!known || at(place).stepUs < at(*known).stepUs)
      known = place;
  };
  keep(best);
  if (place.shares == DeviceShares::Equal)
    keep(bestEqual);
}

/// What was found holds as long as plans may take as much; what was not may have been kept out by
/// something that is left out now.
void PipelineEstimates::forget(double share, const std::set<PipelinePlace> &leftOut) {
  bool isOther = std::exchange(limitShare, share) != share;
  if (isOther)
    solved.clear();
  std::erase_if(estimates, [&](const auto &one) {
    return isOther || !one.second.found || leftOut.count(one.first);
  });
  best.reset();
  bestEqual.reset();
  for (auto &[place, one] : estimates)
    keepBest(place);
  for (PipelinePlace place : leftOut)
    estimates.try_emplace(place);
}

/// Every number of stages with as many micro-batches as fill it, and where they lack memory as many
/// as hold the least; many stages fit easily, and what is slower than they are is told fast. Where
/// none of them fits, the fewest stages that do, and
/// the fewest micro-batches with them.
void PipelineEstimates::findStart() {
  for (size_t stages = choices.stages.size(); stages-- > 0;) {
    SmallVector<PipelinePlace> places;
    for (PipelinePlace place : offered.startsOf(stages)) {
      while (place.microBatches + 1 < choices.microBatches.size() && choices.stages[stages] > 1 &&
             choices.microBatches[place.microBatches] < kFilled * choices.stages[stages])
        ++place.microBatches;
      for (int more = 0; more < choices.countsToDouble; ++more, ++place.microBatches)
        if (place.microBatches < choices.microBatches.size())
          places.push_back(place);
    }
    estimate(places);
    SmallVector<PipelinePlace> leaner;
    for (PipelinePlace place : places)
      if (const Estimate &own = estimates.at(place);
          !own.found || own.found->again != ComputesAgain::Nothing)
        leaner.push_back(offered.leanest(place));
    estimate(leaner);
  }
  for (size_t stages = 0; !best && stages < choices.stages.size(); ++stages)
    for (size_t microBatches = 0; !best && microBatches < choices.microBatches.size();
         ++microBatches) {
      SmallVector<PipelinePlace> places = offered.startsOf(stages);
      for (PipelinePlace &place : places)
        place.microBatches = microBatches;
      estimate(places);
    }
}

bool PipelineEstimates::climb(double share, const std::set<PipelinePlace> &leftOut) {
  forget(share, leftOut);
  findStart();
  if (!best && limitShare == 1)
    for (auto &[place, one] : estimates) {
      inVain.missed(one.leastBytes, nameOf(place), /*isEstimate=*/true);
      if (!leftOut.count(place))
        inVain.addIfNew(nameOf(place), one.whyNot);
    }
  std::set<PipelinePlace> left;
  for (bool isNew = true; std::exchange(isNew, false);)
    for (std::optional<PipelinePlace> from : {bestEqual, best})
      if (from && left.insert(*from).second) {
        estimate(offered.neighbours(*from));
        isNew = true;
      }
  return best.has_value();
}

void PipelineEstimates::estimateKeptOut(double us) {
  SmallVector<PipelinePlace> keptOut;
  for (auto &[place, one] : estimates)
    if (!one.found && one.leastUs < us)
      keptOut.push_back(place);
  for (PipelinePlace place : keptOut)
    estimates.erase(place);
  estimate(keptOut);
}

void PipelineEstimates::estimateBeside(const std::set<PipelinePlace> &places) {
  SmallVector<PipelinePlace> beside;
  for (PipelinePlace place : places)
    for (PipelinePlace other : offered.neighbours(place))
      if (!estimates.count(other) && !llvm::is_contained(beside, other))
        beside.push_back(other);
  estimate(beside);
}

std::vector<std::pair<double, PipelinePlace>> PipelineEstimates::unfit() const {
  std::vector<std::pair<double, PipelinePlace>> places;
  for (auto &[place, one] : estimates)
    if (place.shares == DeviceShares::Equal && !one.found && std::isfinite(one.unfitUs))
      places.emplace_back(one.unfitUs, place);
  return places;
}

bool PipelineEstimates::lackMemory() const {
  if (!best)
    return true;
  double us = (1 - kRounding) * at(*best).stepUs;
  return llvm::any_of(estimates, [&](const auto &one) { return one.second.leastUs < us; });
}

std::vector<PipelinePlace> PipelineEstimates::ranking() const {
  std::vector<std::pair<double, PipelinePlace>> order;
  for (auto &[place, one] : estimates)
    if (one.found)
      order.emplace_back(one.found->stepUs, place);
  llvm::sort(order);
  std::vector<PipelinePlace> ranked;
  for (auto &[us, place] : order)
    ranked.push_back(place);
  return ranked;
}

std::vector<::autopar::PlanAlternative>
PipelineEstimates::others(const std::set<PipelinePlace> &built) const {
  std::vector<::autopar::PlanAlternative> others;
  for (auto &[place, one] : estimates)
    if (one.found && !built.count(place))
      others.push_back({nameOf(place) + " (estimated)", one.found->stepUs});
    else if (!one.found && std::isfinite(one.leastUs))
      others.push_back({nameOf(place) + " (estimated, at the least)", one.leastUs});
  return others;
}
