// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "BuildPipeline.h"

#include "SearchPlan.h"
#include "SideBySide.h"

#include "autopar/Plan/Plan.h"
#include "autopar/Transforms/Stages.h"

using namespace mlir;
using namespace mlir::autopar;

/// Of a step: what plans that take turns have to save.
static constexpr double kTurnsSave = 0.005;
/// In times of what an estimate promised: beyond this, other ways to compute again are searched.
static constexpr double kFar = 1.1;
/// Operations from which a model is deep.
static constexpr size_t kDeep = 10000;

PipelineTimes BuiltPipeline::times() const {
  double most = 0, sum = 0;
  for (const MeshLoad &load : cut.found.loads) {
    most = std::max(most, load.workUs + load.againUs);
    sum += load.workUs + load.againUs;
  }
  if (most == 0)
    return {us(), us(), us()};
  return {us(), most, sum / static_cast<double>(cut.found.loads.size())};
}

double BuiltPipeline::kernelsUs() const {
  double us = cut.found.plan->believed.kernelsUs;
  return pipeline.turns > 1 ? us / (1 - kTurnsSave) : us;
}

std::string PipelineBuilder::nameOf(const Pipeline &pipeline) const {
  std::string name = estimates.nameOf(pipeline.place);
  if (choices.stages[pipeline.place.stages] * pipeline.turns > 1 && choices.schedules.size() > 1)
    name += ", " + pipeline.schedule;
  if (pipeline.turns > 1)
    name += ", " + std::to_string(pipeline.turns) + " turns";
  return name;
}

/// Whether its mesh and plan are where the search begins and what it is about. Of one stage, the
/// whole search is over the same function as the estimate, and goes further: what is computed again
/// counts by operations, on every mesh. Of a deep model on the estimate's alone: every mesh takes
/// minutes, and only the fastest of them, which may be too large as a program, is judged.
bool PipelineBuilder::followsEstimate(const Pipeline &pipeline) const {
  return !pipeline.isWhole && (choices.stages[pipeline.place.stages] * pipeline.turns > 1 ||
                               estimates.at(pipeline.place).again == ComputesAgain::Nothing);
}

bool PipelineBuilder::isDeep() const {
  auto function = cast<func::FuncOp>(SymbolTable::lookupSymbolIn(module, "main"));
  return function.getBody().front().getOperations().size() > kDeep;
}

PipelineTerms PipelineBuilder::termsOf(const Pipeline &pipeline) const {
  if (pipeline.isWhole) {
    auto known = failedTerms.find(pipeline.place);
    return known == failedTerms.end() ? PipelineTerms() : known->second;
  }
  const StageEstimate &estimate = estimates.at(pipeline.place);
  PipelineTerms terms;
  for (const ::autopar::Mesh &mesh : estimate.meshes)
    terms.devices.emplace_back(mesh.devices.begin(), mesh.devices.end());
  terms.paces = estimate.paces;
  if (followsEstimate(pipeline) || isDeep())
    terms.mesh = ::autopar::shapeText(estimate.meshes);
  return terms;
}

void PipelineBuilder::configure(const Pipeline &pipeline, const PipelineTerms &terms,
                                AutoShardOptions &own) const {
  own.copyOptionValuesFrom(options);
  own.stageMeshes = choices.stages[pipeline.place.stages];
  own.stages = own.stageMeshes * pipeline.turns;
  own.schedule = pipeline.schedule;
  if (!terms.mesh.empty())
    own.mesh = terms.mesh;
}

/// The function with the devices and paces of its meshes.
OwningOpRef<ModuleOp> PipelineBuilder::uncut(const Pipeline &pipeline,
                                             const PipelineTerms &terms) const {
  OwningOpRef<ModuleOp> copy(estimates.split(pipeline.place.microBatches).clone());
  auto function = copy->lookupSymbol<func::FuncOp>("main");
  if (!terms.devices.empty())
    setStageDevices(function, terms.devices);
  if (!terms.paces.empty())
    function->setAttr(kStagePaceAttribute,
                      DenseF64ArrayAttr::get(function.getContext(), terms.paces));
  return copy;
}

void PipelineBuilder::fail(const Pipeline &pipeline, const PipelineTerms &terms,
                           int64_t leastBytes) {
  inVain.missed(leastBytes, nameOf(pipeline));
  lacksMemory |= leastBytes > 0;
  if (pipeline.isWhole)
    return;
  double us = estimates.at(pipeline.place).stepUs;
  auto [known, isNew] = promises.try_emplace(pipeline.place, us);
  known->second = std::min(known->second, us);
  if (pipeline.place.shares != DeviceShares::Equal)
    failedTerms[pipeline.place] = terms;
}

struct PipelineBuilder::Building {
  Pipeline pipeline;
  std::string name;
  PipelineTerms terms;
  OwningOpRef<ModuleOp> module; ///< not cut
  SearchHandoff start;
  FailureOr<CutPlan> cut = failure();
  std::vector<std::string> errors;
  int64_t leastBytes = 0;
};

void PipelineBuilder::runBuild(Building &building, double boundUs) const {
  OwnDiagnostics handler(building.module->getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      building.errors.push_back(diagnostic.str());
    return success();
  });
  const Pipeline &pipeline = building.pipeline;
  AutoShardOptions own;
  configure(pipeline, building.terms, own);
  pipeline.promised.limitSearch(own);
  building.cut = cutAndSearch(*building.module, own, lower, std::move(building.start),
                              {boundUs, pipeline.isPlain ? 0 : boundUs}, &building.leastBytes);
}

std::vector<std::optional<BuiltPipeline>> PipelineBuilder::build(ArrayRef<Pipeline> pipelines,
                                                                 double boundUs) {
  std::vector<Building> all(pipelines.size());
  for (auto [building, pipeline] : llvm::zip_equal(all, pipelines)) {
    building.pipeline = pipeline;
    building.name = nameOf(pipeline);
    onCandidate(building.name + (pipeline.isWhole ? ": searched whole" : ""));
    building.terms = termsOf(pipeline);
    building.module = uncut(pipeline, building.terms);
    if (!followsEstimate(pipeline))
      continue;
    const StageEstimate &estimate = estimates.at(pipeline.place);
    building.start.start = estimate.plan;
    bool isLean = !pipeline.holdsMore || options.recompute == "none";
    building.start.again = isLean ? estimate.again : std::max(estimate.again, ComputesAgain::Cheap);
    building.start.enoughUs = kFar * estimate.stepUs;
  }
  runSideBySide(*module.getContext(), all.size(), [&](size_t i) { runBuild(all[i], boundUs); });
  std::vector<std::optional<BuiltPipeline>> built(all.size());
  for (auto [building, result] : llvm::zip_equal(all, built)) {
    for (const std::string &error : building.errors)
      inVain.add(building.name, error);
    if (failed(building.cut)) {
      fail(building.pipeline, building.terms, building.leastBytes);
      continue;
    }
    const ::autopar::Plan &plan = *building.cut->found.plan;
    lacksMemory |= !plan.recompute.empty() || !plan.offloadActivations.empty();
    result = BuiltPipeline{building.pipeline, building.name, std::move(building.terms),
                           std::move(*building.cut)};
  }
  return built;
}

LogicalResult PipelineBuilder::refineOne(BuiltPipeline &built, ModuleOp whole) const {
  AutoShardOptions own;
  configure(built.pipeline, built.terms, own);
  built.pipeline.promised.limitSearch(own);
  if (built.pipeline.isPlain)
    return timeByKernels(own, lower, built.cut);
  return refineByKernels(whole, own, lower, built.cut);
}

LogicalResult PipelineBuilder::refine(MutableArrayRef<BuiltPipeline> built) {
  std::vector<OwningOpRef<ModuleOp>> wholes;
  for (const BuiltPipeline &one : built) {
    onCandidate(one.name + ": its kernels");
    wholes.push_back(uncut(one.pipeline, one.terms));
  }
  std::vector<LogicalResult> results(built.size(), failure());
  runSideBySide(*module.getContext(), built.size(),
                [&](size_t i) { results[i] = refineOne(built[i], *wholes[i]); });
  return success(llvm::all_of(results, [](LogicalResult result) { return succeeded(result); }));
}

bool PipelineBuilder::fits(BuiltPipeline &built, int64_t &leastBytes) {
  onCandidate(built.name + ": its program");
  ScopedDiagnosticHandler handler(module.getContext(), [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      inVain.add(built.name, diagnostic.str());
    return success();
  });
  AutoShardOptions own;
  configure(built.pipeline, built.terms, own);
  leastBytes = 0;
  if (succeeded(fitToMemory(*built.cut.module, own, lower, built.cut.found, &leastBytes)))
    return true;
  inVain.missed(leastBytes, built.name);
  lacksMemory |= leastBytes > 0;
  return false;
}
