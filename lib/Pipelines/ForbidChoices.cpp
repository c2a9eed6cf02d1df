// SPDX-License-Identifier: Apache-2.0
// See the header. A forbidden choice is a constraint like those of the command line.
#include "ForbidChoices.h"

#include "SearchPlan.h"

#include "autopar/Plan/Constraints.h"
#include "autopar/Report/FoldedNames.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::AxisList;
using ::autopar::Constraints;
using ::autopar::Plan;
using ::autopar::PlanDetails;
using ::autopar::PlanRow;

namespace {
/// A choice, in all layers that make it.
struct Choice {
  std::string name; ///< folded
  std::vector<AxisList> axes;
  bool isParameter = false;
  int64_t layers = 0;
  double collectiveUs = 0, computeUs = 0;
};
} // namespace

static std::vector<AxisList> axesOf(const Plan &plan, const PlanRow &row) {
  if (row.isParameter)
    return row.sharding.dims;
  auto op = plan.ops.find(row.name);
  return op == plan.ops.end() ? std::vector<AxisList>() : op->second.factors;
}

/// The parameter for which most is moved, the split operation before which most is moved, and the
/// one that computes longest: each in all layers that are like it.
static std::vector<Choice> dearestChoices(const Plan &plan, const PlanDetails &details) {
  std::map<std::pair<std::string, std::vector<AxisList>>, Choice> choices;
  for (const PlanRow &row : details.rows) {
    std::vector<AxisList> axes = axesOf(plan, row);
    bool isWhole = llvm::all_of(axes, [](const AxisList &list) { return list.empty(); });
    if (isWhole && !row.isParameter)
      continue;
    std::string name = ::autopar::foldedName(row.name);
    Choice &choice = choices[{name, axes}];
    choice.name = name;
    choice.axes = axes;
    choice.isParameter = row.isParameter;
    ++choice.layers;
    choice.collectiveUs += row.collectiveUs;
    choice.computeUs += row.computeUs;
  }
  std::vector<Choice> dearest;
  auto add = [&](function_ref<double(const Choice &)> us) {
    const Choice *most = nullptr;
    for (const auto &[key, choice] : choices)
      if (us(choice) > (most ? us(*most) : 0))
        most = &choice;
    if (most && llvm::none_of(dearest, [&](const Choice &other) {
          return other.name == most->name && other.axes == most->axes;
        }))
      dearest.push_back(*most);
  };
  add([](const Choice &choice) { return choice.isParameter ? choice.collectiveUs : 0; });
  add([](const Choice &choice) { return choice.isParameter ? 0 : choice.collectiveUs; });
  add([](const Choice &choice) { return choice.computeUs; });
  return dearest;
}

static std::optional<Plan> searchWithout(ModuleOp module, const AutoShardOptions &options,
                                         const ::autopar::Cluster &cluster, const Plan &plan,
                                         const Choice &choice, std::string &change) {
  auto demands = Constraints::parse("constraints", options.constraints);
  if (!demands)
    return std::nullopt;
  Constraints forbidden;
  forbidden.forbid("alternatives", choice.name, choice.axes);
  change = forbidden.toText();
  if (choice.layers > 1)
    change += " (" + std::to_string(choice.layers) + " times)";
  if (!demands->demand(forbidden).isOk())
    return std::nullopt;
  AutoShardOptions own;
  own.copyOptionValuesFrom(options);
  own.plan = own.emitPlan = "";
  own.constraints = demands->toText();
  own.mesh = ::autopar::shapeText(plan.meshes);
  OwningOpRef<ModuleOp> copy = module.clone();
  // Where nothing is possible without the choice, there is nothing to tell.
  ScopedDiagnosticHandler handler(module.getContext(), [](Diagnostic &) { return success(); });
  PassManager manager(module.getContext());
  SearchHandoff found;
  manager.addPass(createSearchPass(searchOptions(own), found));
  if (failed(manager.run(*copy)))
    return std::nullopt;
  found.plan->believed.peakBytes = found.details.believed.peakBytes;
  found.plan->believed.time = found.details.believed.time;
  found.plan->believed.memory = found.details.believed.memory;
  return found.plan;
}

std::vector<Plan> mlir::autopar::forbidChoices(
    ModuleOp module, const AutoShardOptions &options, const ::autopar::Cluster &cluster, Plan &plan,
    const PlanDetails &details, function_ref<void(const std::string &what)> onCandidate) {
  std::vector<Plan> others;
  for (const Choice &choice : dearestChoices(plan, details)) {
    onCandidate("without a choice of " + choice.name);
    std::string change;
    std::optional<Plan> other = searchWithout(module, options, cluster, plan, choice, change);
    if (!other)
      continue;
    plan.believed.alternatives.push_back({change, other->believed.stepUs});
    others.push_back(std::move(*other));
  }
  return others;
}
