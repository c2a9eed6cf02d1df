// SPDX-License-Identifier: Apache-2.0
// See the header. The bottleneck moves as in Aceso (Liu et al., EuroSys 2024), but all stages at
// once: the dynamic program over cuts is asked again with the paces of meshes.
#include "BalanceStages.h"

#include "SearchPlan.h"

#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::autopar;

/// How often a pipeline is cut again at most.
static constexpr int kRounds = 3;
/// In times of the mean: up to this the busiest mesh is no bottleneck.
static constexpr double kEqual = 1.02;

namespace {

/// What meshes do, seen from the cut.
class Balance {
public:
  Balance(const SearchHandoff &found, ArrayRef<double> workUs, int64_t microBatches)
      : loads(found.loads), stepUs(found.plan ? found.plan->believed.stepUs : found.leanestUs),
        workUs(workUs), microBatches(microBatches) {
    for (const MeshLoad &load : loads) {
      most = std::max(most, load.workUs + load.againUs);
      sum += load.workUs + load.againUs;
      missing = std::max(missing, load.leastBytes - load.limitBytes);
      least = std::max(least, load.leastBytes);
    }
    missing = found.plan ? 0 : missing;
  }

  double us() const { return stepUs; }
  int64_t missingBytes() const { return missing; }
  /// What the devices of some mesh need; 0: unknown.
  int64_t leastBytes() const { return least; }
  /// Whether equal loads would be of use.
  bool isWorthwhile(BalanceBounds bounds) const {
    if (loads.size() < 2 || loads.size() != workUs.size() || sum == 0)
      return false;
    double mean = sum / static_cast<double>(loads.size()), best = stepUs * mean / most;
    return missing > 0 ? best < bounds.missingUs : most > kEqual * mean && best < bounds.fittingUs;
  }
  /// Says so to the cut.
  void tell(func::FuncOp function) const {
    std::vector<double> paces, bytes;
    for (auto [load, us] : llvm::zip_equal(loads, workUs)) {
      paces.push_back((load.workUs + load.againUs) / (us * static_cast<double>(microBatches)));
      bytes.push_back(static_cast<double>(load.leastBytes) / us);
    }
    Builder builder(function.getContext());
    function->setAttr(kStagePaceAttribute, builder.getDenseF64ArrayAttr(paces));
    if (missing > 0)
      function->setAttr(kStageBytesAttribute, builder.getDenseF64ArrayAttr(bytes));
  }

private:
  std::vector<MeshLoad> loads;
  double stepUs;
  ArrayRef<double> workUs;
  int64_t microBatches;
  double most = 0, sum = 0;
  int64_t missing = 0, least = 0;
};

func::FuncOp mainOf(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

/// What the cut gave each mesh, which nobody asks for after this.
SmallVector<double> takeWork(ModuleOp module) {
  auto work = mainOf(module)->getAttrOfType<DenseF64ArrayAttr>(kStageWorkAttribute);
  mainOf(module)->removeAttr(kStageWorkAttribute);
  return work ? SmallVector<double>(work.asArrayRef()) : SmallVector<double>();
}

} // namespace

FailureOr<CutPlan> mlir::autopar::cutAndSearch(ModuleOp module, const AutoShardOptions &options,
                                               const LowerOptions &lower, SearchHandoff start,
                                               BalanceBounds bounds, int64_t *leastBytes) {
  std::optional<CutPlan> best;
  std::optional<Balance> balance;
  std::vector<SmallVector<double>> works;
  works.reserve(kRounds + 1);
  std::vector<Diagnostic> whyNot; // the first cut has no plan
  auto search = [&](OwningOpRef<ModuleOp> &cut, SearchHandoff &found) {
    ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
        return failure();
      if (works.size() == 1)
        whyNot.push_back(std::move(diagnostic));
      return success();
    });
    return searchPlan(*cut, options, lower, found);
  };
  int64_t microBatches = MicroBatches(mainOf(module).getBody().front()).count();
  for (int round = 0; round <= kRounds; ++round) {
    CutPlan next{OwningOpRef<ModuleOp>(module.clone()), {}};
    if (balance)
      balance->tell(mainOf(*next.module));
    if (options.stages > 1 && failed(runPhase(*next.module, Phase::CutStages, options)))
      return failure();
    SmallVector<double> workUs = takeWork(*next.module);
    if (llvm::is_contained(works, workUs))
      break; // the same cut again
    works.push_back(workUs);
    next.found.start = best && best->found.plan ? best->found.plan : start.start;
    next.found.again = start.again;
    bool isFound = succeeded(search(next.module, next.found));
    Balance now(next.found, works.back(), microBatches);
    bool isBetter = !balance || (isFound ? !best || !best->found.plan || now.us() < balance->us()
                                         : now.missingBytes() < balance->missingBytes());
    if (!isBetter)
      break;
    best = std::move(next);
    balance.emplace(now);
    if (!balance->isWorthwhile(bounds))
      break;
  }
  if (!best->found.plan) {
    for (Diagnostic &diagnostic : whyNot)
      module.getContext()->getDiagEngine().emit(std::move(diagnostic));
    if (leastBytes)
      *leastBytes = balance->leastBytes();
    return failure();
  }
  return std::move(*best);
}
