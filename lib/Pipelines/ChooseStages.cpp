// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ChooseStages.h"

#include "SearchPlan.h"

#include "autopar/Plan/Plan.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;

namespace {
struct Candidate {
  int64_t stages;
  OwningOpRef<ModuleOp> module;
  Plan plan;
};
} // namespace

/// More stages than this have bubbles that no batch fills.
static constexpr int64_t kMostStages = 64;

static std::optional<Candidate> tryStages(ModuleOp module, const AutoShardOptions &options,
                                          int64_t stages, std::string &why) {
  Candidate candidate{stages, OwningOpRef<ModuleOp>(module.clone()), {}};
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.stages = own.stageMeshes = stages;
  own.emitPlan = "";
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      why += std::to_string(stages) + " stages: " + diagnostic.str() + "\n";
    return success();
  });
  PassManager manager(module.getContext());
  if (stages > 1)
    buildPhase(manager, Phase::CutStages, own, {});
  if (failed(manager.run(*candidate.module)) || failed(searchPlan(*candidate.module, own)))
    return std::nullopt;
  auto text = (*candidate.module)->getAttrOfType<StringAttr>("autopar.plan");
  auto plan = Plan::fromJson(text.getValue());
  if (!plan)
    return std::nullopt;
  candidate.plan = plan.take();
  return candidate;
}

LogicalResult mlir::autopar::chooseStages(OwningOpRef<ModuleOp> &module,
                                          const AutoShardOptions &options, int64_t devices,
                                          function_ref<void(int64_t stages)> onCandidate) {
  std::optional<Candidate> best;
  std::vector<::autopar::PlanAlternative> rejected;
  std::string why;
  auto reject = [&](const Candidate &candidate) {
    rejected.push_back(
        {std::to_string(candidate.stages) + " stages", candidate.plan.believed.stepUs});
  };
  for (int64_t stages = 1; stages <= std::min(devices, kMostStages); ++stages) {
    if (devices % stages)
      continue;
    onCandidate(stages);
    std::optional<Candidate> candidate = tryStages(*module, options, stages, why);
    if (!candidate)
      continue;
    bool isBetter = !best || candidate->plan.believed.stepUs < best->plan.believed.stepUs;
    if (isBetter && best)
      reject(*best);
    if (isBetter)
      best = std::move(candidate);
    else
      reject(*candidate);
  }
  if (!best)
    return emitError((*module)->getLoc()) << "no number of stages has a plan:\n" << why;
  if (!why.empty())
    emitRemark((*module)->getLoc()) << "without a plan:\n" << why;
  best->plan.believed.alternatives.insert(best->plan.believed.alternatives.end(), rejected.begin(),
                                          rejected.end());
  module = std::move(best->module);
  (*module)->setAttr("autopar.plan", StringAttr::get(module->getContext(), best->plan.toJson()));
  if (!options.emitPlan.empty())
    if (::autopar::Status status = best->plan.save(options.emitPlan); !status.isOk())
      return emitError((*module)->getLoc()) << status.message();
  return success();
}
