// SPDX-License-Identifier: Apache-2.0
// See the header. The bottleneck moves as in Aceso (Liu et al., EuroSys 2024), but all stages at
// once: the dynamic program over cuts is asked again with what meshes took.
#include "BalanceStages.h"

#include "PlanJudge.h"
#include "PromisedMemory.h"
#include "SearchPlan.h"
#include "SideBySide.h"

#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <numeric>

using namespace mlir;
using namespace mlir::autopar;

/// How often a pipeline is cut again at most, by the search and by kernels.
static constexpr int kRounds = 2;
/// In times of the mean: up to this the busiest mesh is no bottleneck.
static constexpr double kEqual = 1.02;
/// In times of a step of kernels: what a cut may take that is better. They are told to half a
/// percent (docs/Benchmarks.md, Simulation).
static constexpr double kBetter = 0.995;

static func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

static double most(ArrayRef<double> us) { return *llvm::max_element(us); }
static double mean(ArrayRef<double> us) {
  return std::accumulate(us.begin(), us.end(), 0.0) / static_cast<double>(us.size());
}

namespace {

/// What the cut is told of each mesh. Its work takes as long per microsecond as that of others, and
/// there is what it does beside it, or gains: an embedding and a head stay where they are when a
/// layer moves.
class CutTerms {
public:
  /// What says that `meshUs` was done in a step of `plan`.
  CutTerms(ModuleOp uncut, const CutPlan &plan, ArrayRef<double> meshUs)
      : paces(meshUs.size(), 1), extraUs(meshUs.size(), 0) {
    auto microBatches = static_cast<double>(MicroBatches(mainOf(uncut).getBody().front()).count());
    if (auto given = mainOf(uncut)->getAttrOfType<DenseF64ArrayAttr>(kStagePaceAttribute))
      paces = given.asArrayRef().vec();
    double expected = 0, taken = 0;
    for (auto [pace, work, us] : llvm::zip_equal(paces, plan.workUs, meshUs)) {
      expected += pace * work;
      taken += us / microBatches;
    }
    for (auto [pace, extra, work, us] : llvm::zip_equal(paces, extraUs, plan.workUs, meshUs)) {
      pace *= taken / expected;
      extra = us / microBatches - pace * work;
    }
  }
  /// A part of the way from what the cut was told before.
  CutTerms &damp(ArrayRef<double> beforeUs, double part) {
    for (auto [mesh, extra] : llvm::enumerate(extraUs)) {
      double before = beforeUs.empty() ? 0 : beforeUs[mesh];
      extra = before + part * (extra - before);
    }
    return *this;
  }
  /// How many bytes a device of each mesh needs for its work.
  void need(ArrayRef<MeshLoad> loads, ArrayRef<double> workUs) {
    for (auto [load, us] : llvm::zip_equal(loads, workUs))
      bytesPerUs.push_back(static_cast<double>(load.leastBytes) / us);
  }
  void tell(func::FuncOp function) const {
    Builder builder(function.getContext());
    function->setAttr(kStagePaceAttribute, builder.getDenseF64ArrayAttr(paces));
    function->setAttr(kStageExtraAttribute, builder.getDenseF64ArrayAttr(extraUs));
    if (!bytesPerUs.empty())
      function->setAttr(kStageBytesAttribute, builder.getDenseF64ArrayAttr(bytesPerUs));
  }
  ArrayRef<double> extra() const { return extraUs; }

private:
  std::vector<double> paces, extraUs, bytesPerUs; ///< the second of a micro-batch
};

/// What a search found of a cut: a plan, or what is missing for one.
class Searched {
public:
  explicit Searched(const SearchHandoff &found)
      : stepUs(found.plan ? found.plan->believed.stepUs : found.leanestUs), fits(found.plan) {
    for (const MeshLoad &load : found.loads) {
      meshUs.push_back(load.workUs + load.againUs);
      missing = std::max(missing, load.leastBytes - load.limitBytes);
      least = std::max(least, load.leastBytes);
    }
  }
  int64_t missingBytes() const { return fits ? 0 : missing; }
  /// What the devices of some mesh need; 0: unknown.
  int64_t leastBytes() const { return least; }
  bool isBetterThan(const Searched &other) const {
    if (fits)
      return !other.fits || stepUs < other.stepUs;
    return !other.fits && missing < other.missing;
  }
  /// Whether equal loads would be of use.
  bool isWorthwhile(size_t meshes, BalanceBounds bounds) const {
    if (meshUs.size() < 2 || meshUs.size() != meshes || most(meshUs) <= 0)
      return false;
    double best = stepUs * mean(meshUs) / most(meshUs);
    return missingBytes() > 0 ? best < bounds.missingUs
                              : most(meshUs) > kEqual * mean(meshUs) && best < bounds.fittingUs;
  }
  ArrayRef<double> loads() const { return meshUs; }

private:
  std::vector<double> meshUs; ///< of a step
  double stepUs;
  bool fits;
  int64_t missing = 0, least = 0;
};

/// Cuts a module in many ways, never twice in the same.
class Recutter {
public:
  Recutter(ModuleOp module, const AutoShardOptions &options, const LowerOptions &lower)
      : module(module), options(options), lower(lower) {}

  void know(const CutPlan &plan) { known.push_back(plan.workUs); }
  /// Not yet searched. Nullopt: known.
  FailureOr<std::optional<CutPlan>> cut(const CutTerms *terms) {
    CutPlan next{OwningOpRef<ModuleOp>(module.clone()), {}, {}, {}};
    func::FuncOp function = mainOf(*next.module);
    if (terms) {
      terms->tell(function);
      next.extraUs = terms->extra().vec();
    }
    if (options.stages > 1 && failed(runPhase(*next.module, Phase::CutStages, options)))
      return failure();
    if (auto work = function->getAttrOfType<DenseF64ArrayAttr>(kStageWorkAttribute)) {
      next.workUs = work.asArrayRef().vec();
      function->removeAttr(kStageWorkAttribute);
    }
    if (llvm::is_contained(known, next.workUs))
      return std::optional<CutPlan>();
    know(next);
    return std::optional(std::move(next));
  }
  /// Whether there is a plan; `errors` are what was said where not.
  bool search(CutPlan &cut, std::vector<Diagnostic> &errors) {
    OwnDiagnostics handler(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return failure();
      errors.push_back(std::move(diagnostic));
      return success();
    });
    return succeeded(searchPlan(*cut.module, options, lower, cut.found));
  }

private:
  ModuleOp module;
  const AutoShardOptions &options;
  const LowerOptions &lower;
  std::vector<std::vector<double>> known; ///< what cuts gave to meshes
};

} // namespace

FailureOr<CutPlan> mlir::autopar::cutAndSearch(ModuleOp module, const AutoShardOptions &options,
                                               const LowerOptions &lower, SearchHandoff start,
                                               BalanceBounds bounds, int64_t *leastBytes) {
  Recutter recutter(module, options, lower);
  auto searched = [&](CutPlan &cut, const std::optional<::autopar::Plan> &from,
                      std::vector<Diagnostic> &errors) {
    cut.found.start = from ? from : start.start;
    cut.found.again = start.again;
    cut.found.enoughUs = from ? from->believed.stepUs : start.enoughUs;
    if (from) // a slower one is of no use
      cut.found.boundUs = from->believed.stepUs;
    recutter.search(cut, errors);
    return Searched(cut.found);
  };
  FailureOr<std::optional<CutPlan>> first = recutter.cut(nullptr);
  if (failed(first))
    return failure();
  CutPlan best = std::move(**first);
  std::vector<Diagnostic> whyNot, others;
  Searched bestFound = searched(best, std::nullopt, whyNot);
  double part = 1;
  for (int round = 0; round < kRounds; ++round) {
    if (!bestFound.isWorthwhile(best.workUs.size(), bounds))
      break;
    CutTerms terms(module, best, bestFound.loads());
    terms.damp(best.extraUs, part);
    if (bestFound.missingBytes() > 0)
      terms.need(best.found.loads, best.workUs);
    FailureOr<std::optional<CutPlan>> next = recutter.cut(&terms);
    if (failed(next))
      return failure();
    if (!*next)
      break;
    Searched found = searched(**next, best.found.plan, others);
    if (found.isBetterThan(bestFound)) {
      best = std::move(**next);
      bestFound = std::move(found);
    } else {
      part /= 2;
    }
  }
  if (best.found.plan)
    return best;
  for (Diagnostic &diagnostic : whyNot)
    module.getContext()->getDiagEngine().emit(std::move(diagnostic));
  if (leastBytes)
    *leastBytes = bestFound.leastBytes();
  return failure();
}

/// What the meshes of a cut work by their kernels.
static FailureOr<std::vector<double>> timeKernels(CutPlan &cut, const AutoShardOptions &options,
                                                  const LowerOptions &lower) {
  PlanJudge judge(*cut.module, options, lower);
  if (failed(judge.load()))
    return failure();
  FailureOr<PlanJudge::KernelTimes> times = judge.kernelTimes(*cut.found.plan, cut.found.modules);
  if (failed(times))
    return failure();
  cut.found.plan->believed.kernelsUs = times->stepUs;
  cut.waitsUs = times->waitsUs;
  return std::move(times->meshUs);
}

LogicalResult mlir::autopar::refineByKernels(ModuleOp module, const AutoShardOptions &options,
                                             const LowerOptions &lower, CutPlan &plan) {
  FailureOr<std::vector<double>> meshUs = timeKernels(plan, options, lower);
  if (failed(meshUs))
    return failure();
  Recutter recutter(module, options, lower);
  recutter.know(plan);
  std::vector<Diagnostic> errors;
  // By the search's count, of all cuts: what is slower may be so for lack of memory.
  double fastestUs = plan.found.plan->believed.stepUs;
  double part = 1;
  for (int round = 0; round < kRounds; ++round) {
    if (meshUs->size() != plan.workUs.size() || meshUs->size() < 2 ||
        most(*meshUs) <= kEqual * mean(*meshUs))
      break;
    CutTerms terms(module, plan, *meshUs);
    FailureOr<std::optional<CutPlan>> next = recutter.cut(&terms.damp(plan.extraUs, part));
    if (failed(next))
      return failure();
    if (!*next)
      break;
    (*next)->found.start = plan.found.plan;
    (*next)->found.again = plan.found.again;
    (*next)->found.enoughUs = fastestUs;
    if (recutter.search(**next, errors)) {
      fastestUs = std::min(fastestUs, (*next)->found.plan->believed.stepUs);
      FailureOr<std::vector<double>> nextUs = timeKernels(**next, options, lower);
      if (failed(nextUs))
        return failure();
      if ((*next)->found.plan->believed.kernelsUs < kBetter * plan.found.plan->believed.kernelsUs) {
        plan = std::move(**next);
        meshUs = std::move(nextUs);
        continue;
      }
    }
    part /= 2;
  }
  return success();
}

LogicalResult mlir::autopar::timeByKernels(const AutoShardOptions &options,
                                           const LowerOptions &lower, CutPlan &plan) {
  return timeKernels(plan, options, lower);
}

FailureOr<CutPlan> mlir::autopar::cutDemanded(ModuleOp module, const AutoShardOptions &options,
                                              const LowerOptions &lower, bool mustFit) {
  if (options.engine == "random") // is run as it is drawn
    return cutAndSearch(module, options, lower, {}, {HUGE_VAL, 0});
  PlanJudge judge(module, options, lower);
  if (failed(judge.load()))
    return failure();
  FailureOr<CutPlan> cut;
  auto attempt = [&](const PromisedMemory &promised, int64_t &neededBytes) -> LogicalResult {
    AutoShardOptions own;
    own.copyOptionValuesFrom(options);
    promised.limitSearch(own);
    auto fits = [&] {
      int64_t bytes = 0;
      if (!mustFit || succeeded(fitToMemory(*cut->module, options, lower, cut->found, &bytes)))
        return true;
      neededBytes = neededBytes ? std::min(neededBytes, bytes) : bytes;
      return false;
    };
    cut = cutAndSearch(module, own, lower, {}, {HUGE_VAL, HUGE_VAL});
    if (failed(cut))
      return failure();
    if (succeeded(refineByKernels(module, own, lower, *cut)) && fits())
      return success();
    cut = cutAndSearch(module, own, lower, {}, {HUGE_VAL, 0});
    return success(succeeded(cut) && fits());
  };
  if (failed(attemptToFit(module, options, static_cast<int64_t>(judge.limitBytes()), attempt)))
    return failure();
  return cut;
}
