// SPDX-License-Identifier: Apache-2.0
// The pass autopar-annotate: a plan, from a file or the module, written onto the operations.
#include "Search/ShardingProblem.h"
#include "Stages/Recompute.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/PlannedOffload.h"
#include "autopar/Transforms/RecomputeProblem.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "autopar/Transforms/StageMeshes.h"
#include "autopar/Transforms/Stages.h"
#include "llvm/ADT/StringSet.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_ANNOTATEPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;

namespace {

/// Behind what a plan says of operations that are not as it has them.
constexpr llvm::StringLiteral kOtherProgram =
    "; a plan goes with the model and the options (--bind, --train, --precision, ...) that it was "
    "made for";

struct AnnotatePass : mlir::autopar::impl::AnnotatePassBase<AnnotatePass> {
  using Base::Base;
  explicit AnnotatePass(const Plan &plan) : given(&plan) {}

  void runOnOperation() override {
    std::optional<Plan> read;
    if (!given) {
      FailureOr<Plan> plan = readPlan();
      if (failed(plan))
        return signalPassFailure();
      read = std::move(*plan);
    }
    if (failed(annotate(given ? *given : *read)))
      signalPassFailure();
  }

private:
  const Plan *given = nullptr;

  FailureOr<Plan> readPlan() {
    ModuleOp module = getOperation();
    ::autopar::Result<Plan> plan = ::autopar::Status();
    if (!planFile.empty())
      plan = Plan::load(planFile);
    else if (auto text = module->getAttrOfType<StringAttr>("autopar.plan"))
      plan = Plan::fromJson(text.getValue());
    else
      return emitError(
          module.getLoc(),
          "has no plan to apply; run autopar-search first or give the option plan=FILE");
    if (!plan)
      return emitError(module.getLoc()) << "plan: " << plan.status().message();
    return plan.take();
  }

  LogicalResult annotate(const Plan &plan) {
    if (auto meshes = plan.stageMeshes(); !meshes)
      return emitError(getOperation().getLoc()) << "plan: " << meshes.status().message();
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return emitError(getOperation().getLoc(),
                       "expected a function @main of one block to annotate");
    if (failed(verifyWholeStep(function)))
      return failure();
    if (int64_t stages = Stages(function).count();
        stages != static_cast<int64_t>(plan.stages.size()))
      return function.emitOpError() << "has " << stages << " pipeline stages, the plan has "
                                    << plan.stages.size() << "; run autopar-cut-stages first";
    FailureOr<StageMeshes> meshes = declareMeshes(function, plan);
    if (failed(meshes) || failed(annotateOperations(function, plan, *meshes)) ||
        failed(annotateNames(function, plan.recompute, "recompute", kRecomputeAttribute)) ||
        failed(annotateNames(function, plan.offloadActivations, "offload_activations",
                             kOffloadActivationsAttribute)) ||
        failed(offloadAsPlanned(function, plan)) || failed(annotateValues(function, plan, *meshes)))
      return failure();
    return success();
  }

  FailureOr<StageMeshes> declareMeshes(func::FuncOp function, const Plan &plan) {
    ModuleOp module = getOperation();
    std::vector<::autopar::Mesh> meshes = *plan.stageMeshes(); // annotate asked
    FailureOr<StageMeshes> existing = StageMeshes::of(function);
    if (failed(existing))
      return failure();
    if (!existing->empty()) {
      bool same = existing->count() == static_cast<int64_t>(meshes.size());
      for (int64_t number = 0; same && number < existing->count(); ++number) {
        const MeshAxes &axes = (*existing)[number];
        const ::autopar::Mesh &mesh = meshes[number];
        same = axes.names.size() == mesh.axes.size();
        for (size_t i = 0; same && i < mesh.axes.size(); ++i)
          same = axes.names[i] == mesh.axes[i].name && axes.sizes[i] == mesh.axes[i].size;
      }
      if (!same)
        return (*module.getOps<MeshOp>().begin()).emitOpError("differs from the plan's mesh");
      return existing;
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    for (const ::autopar::Mesh &mesh : meshes) {
      SmallVector<StringRef> names;
      SmallVector<int64_t> sizes;
      bool inOrder = llvm::equal(mesh.devices, llvm::seq<int64_t>(0, mesh.devices.size()));
      for (const ::autopar::MeshAxis &axis : mesh.axes) {
        names.push_back(axis.name);
        sizes.push_back(axis.size);
      }
      MeshOp::create(builder, module.getLoc(), builder.getStringAttr(mesh.name),
                     builder.getStrArrayAttr(names), builder.getDenseI64ArrayAttr(sizes),
                     inOrder ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(mesh.devices));
    }
    return StageMeshes::of(function);
  }

  FailureOr<AxisList> numbersOf(Operation *op, const ::autopar::AxisList &words,
                                const MeshAxes &axes) {
    AxisList list;
    for (const std::string &word : words) {
      int8_t axis = axes.numberOf(word);
      if (axis < 0)
        return op->emitOpError() << "is planned over axis \"" << word << "\", which mesh "
                                 << axes.symbol << " does not have";
      list.push_back(axis);
    }
    return list;
  }

  LogicalResult annotateOperations(func::FuncOp function, const Plan &plan,
                                   const StageMeshes &meshes) {
    size_t applied = 0;
    Stages stages(function);
    auto name = StringAttr::get(&getContext(), "autopar.strategy");
    // Ids are alike, and the plan compares them on the way to each.
    DenseMap<StringRef, const ::autopar::OpStrategy *> strategies;
    strategies.reserve(plan.ops.size());
    for (auto &[id, strategy] : plan.ops)
      strategies[id] = &strategy;
    for (auto &[op, id] : planIds(function)) {
      const ::autopar::OpStrategy *strategy = strategies.lookup(id);
      if (!strategy)
        continue;
      ++applied;
      const MeshAxes &axes = meshes.ofStage(stages.of(op));
      ShardingRule rule = shardingRuleOf(op);
      FactorAxes factors;
      for (const ::autopar::AxisList &words : strategy->factors) {
        FailureOr<AxisList> list = numbersOf(op, words, axes);
        if (failed(list))
          return failure();
        factors.push_back(*list);
      }
      std::string whyNot;
      if (!meshes.isLegal(rule, factors, stages.of(op), &whyNot))
        return op->emitOpError() << "cannot take the planned strategy for \"" << id
                                 << "\": " << whyNot
                                 << (factors.size() == rule.factors.size() ? "" : kOtherProgram);
      // Whole everywhere is what an operation without a strategy is, but for a hold.
      if (isa<HoldOp>(op) ||
          llvm::any_of(factors, [](const AxisList &list) { return !list.empty(); }))
        op->setDiscardableAttr(name, strategyToAttr(factors, axes));
    }
    bool areListed =
        llvm::any_of(plan.stages, [](const auto &stage) { return !stage.ops.empty(); });
    if (applied == plan.ops.size() && !areListed)
      return success();
    llvm::StringSet<> known;
    for (auto &[op, id] : planIds(function))
      known.insert(id);
    auto refuse = [&](const std::string &place, StringRef id) {
      return emitError(getOperation().getLoc()) << "plan: " << place << "names operation \"" << id
                                                << "\", which @main does not have" << kOtherProgram;
    };
    for (auto &[id, strategy] : plan.ops)
      if (!known.contains(id))
        return refuse("", id);
    for (const ::autopar::PlanStage &stage : plan.stages)
      for (const std::string &id : stage.ops)
        if (!known.contains(id))
          return refuse("stage " + stage.name + ": ", id);
    return success();
  }

  /// Writes ids of operations, or of their reshards, as an attribute of the function; `field` is
  /// where the plan has them.
  LogicalResult annotateNames(func::FuncOp function, const std::vector<std::string> &ids,
                              StringRef field, StringRef attribute) {
    if (ids.empty())
      return success();
    llvm::StringSet<> known;
    for (auto &[op, id] : planIds(function))
      known.insert(id);
    SmallVector<StringRef> names;
    for (const std::string &id : ids) {
      if (!known.contains(id) && !known.contains(wholeOf(id)))
        return emitError(getOperation().getLoc()) << "plan: " << field << ": names operation \""
                                                  << id << "\", which @main does not have";
      names.push_back(id);
    }
    function->setAttr(attribute, Builder(&getContext()).getStrArrayAttr(names));
    return success();
  }

  FailureOr<ShardingAttr> shardingOf(func::FuncOp function, const std::string &name,
                                     RankedTensorType type, const Plan &plan,
                                     const MeshAxes &axes) {
    auto it = plan.values.find(name);
    if (it == plan.values.end())
      return ShardingAttr();
    if (static_cast<int64_t>(it->second.dims.size()) != type.getRank())
      return function.emitOpError() << "plan: \"" << name << "\" has " << it->second.dims.size()
                                    << " dimensions, the value is " << type;
    TensorSharding sharding;
    for (const ::autopar::AxisList &words : it->second.dims) {
      FailureOr<AxisList> list = numbersOf(function, words, axes);
      if (failed(list))
        return failure();
      sharding.dims.push_back(*list);
    }
    return sharding.toAttr(axes);
  }

  LogicalResult annotateValues(func::FuncOp function, const Plan &plan, const StageMeshes &meshes) {
    Stages stages(function);
    auto ofArguments = SignatureAttributes::ofArguments(function);
    auto ofResults = SignatureAttributes::ofResults(function);
    llvm::StringSet<> known;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      std::string name = planNameOfArgument(function, i);
      known.insert(name);
      FailureOr<ShardingAttr> attr =
          shardingOf(function, name, cast<RankedTensorType>(function.getArgument(i).getType()),
                     plan, meshes.ofStage(stages.of(function.getArgument(i))));
      if (failed(attr))
        return failure();
      if (*attr)
        ofArguments.set(i, "autopar.sharding", *attr);
    }
    OperandRange results = function.getBody().front().getTerminator()->getOperands();
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      std::string name = planNameOfResult(function, i);
      known.insert(name);
      FailureOr<ShardingAttr> attr =
          shardingOf(function, name, cast<RankedTensorType>(function.getResultTypes()[i]), plan,
                     meshes.ofStage(stages.of(results[i])));
      if (failed(attr))
        return failure();
      if (*attr)
        ofResults.set(i, "autopar.sharding", *attr);
    }
    for (auto &[name, sharding] : plan.values)
      if (!known.contains(name))
        return emitError(getOperation().getLoc())
               << "plan: shard names \"" << name
               << "\", which is no parameter, input or output:NAME of @main";
    ofArguments.write();
    ofResults.write();
    return success();
  }
};

} // namespace

std::unique_ptr<Pass> mlir::autopar::createAnnotatePass(const Plan &plan) {
  return std::make_unique<AnnotatePass>(plan);
}
