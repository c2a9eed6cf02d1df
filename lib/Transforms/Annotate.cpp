// SPDX-License-Identifier: Apache-2.0
// The pass autopar-annotate: a plan, from a file or the module, written onto the operations.
#include "Recompute.h"
#include "ShardingProblem.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Passes.h"
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

struct AnnotatePass : mlir::autopar::impl::AnnotatePassBase<AnnotatePass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(annotate()))
      signalPassFailure();
  }

private:
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
    for (const ::autopar::Mesh &mesh : plan->meshes)
      if (mesh.axes != plan->meshes.front().axes)
        return emitError(module.getLoc())
               << "plan: meshes \"" << plan->meshes.front().name << "\" and \"" << mesh.name
               << "\" have different axes; stages on meshes of different shapes cannot be run yet";
    return plan.take();
  }

  LogicalResult annotate() {
    FailureOr<Plan> plan = readPlan();
    if (failed(plan))
      return failure();
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return emitError(getOperation().getLoc(),
                       "expected a function @main of one block to annotate");
    if (int64_t stages = Stages(function).count();
        stages != static_cast<int64_t>(plan->stages.size()))
      return function.emitOpError() << "has " << stages << " pipeline stages, the plan has "
                                    << plan->stages.size() << "; run autopar-cut-stages first";
    FailureOr<MeshAxes> axes = declareMesh(*plan);
    if (failed(axes) || failed(annotateOperations(function, *plan, *axes)) ||
        failed(annotateRecompute(function, *plan)) ||
        failed(annotateValues(function, *plan, *axes)))
      return failure();
    return success();
  }

  FailureOr<MeshAxes> declareMesh(const Plan &plan) {
    ModuleOp module = getOperation();
    const ::autopar::Mesh &mesh = plan.meshes.front();
    FailureOr<MeshOp> existing = findMesh(module);
    if (failed(existing))
      return failure();
    if (*existing) {
      MeshAxes axes = MeshAxes::of(*existing);
      bool same = axes.names.size() == mesh.axes.size();
      for (size_t i = 0; same && i < mesh.axes.size(); ++i)
        same = axes.names[i] == mesh.axes[i].name && axes.sizes[i] == mesh.axes[i].size;
      if (!same)
        return existing->emitOpError("differs from the plan's mesh");
      return axes;
    }
    OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
    SmallVector<StringRef> names;
    SmallVector<int64_t> sizes, devices;
    if (plan.meshes.size() > 1) {
      names.push_back(kStageAxis);
      sizes.push_back(plan.meshes.size());
    }
    // Stage s is at place s % meshes of the axis "stage".
    for (auto [s, stage] : llvm::enumerate(plan.stages)) {
      const std::string &expected = plan.stages[s % plan.meshes.size()].mesh;
      if (stage.mesh != expected)
        return emitError(module.getLoc())
               << "plan: stage \"" << stage.name << "\" is on mesh \"" << stage.mesh
               << "\"; stages take turns, expected \"" << expected << "\"";
      if (s < plan.meshes.size())
        llvm::append_range(devices, plan.findMesh(stage.mesh)->devices);
    }
    bool inOrder = devices == llvm::to_vector(llvm::seq<int64_t>(0, devices.size()));
    for (const ::autopar::MeshAxis &axis : mesh.axes) {
      names.push_back(axis.name);
      sizes.push_back(axis.size);
    }
    auto op = MeshOp::create(builder, module.getLoc(), builder.getStringAttr(mesh.name),
                             builder.getStrArrayAttr(names), builder.getDenseI64ArrayAttr(sizes),
                             inOrder ? DenseI64ArrayAttr() : builder.getDenseI64ArrayAttr(devices));
    return MeshAxes::of(op);
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

  LogicalResult annotateOperations(func::FuncOp function, const Plan &plan, const MeshAxes &axes) {
    size_t applied = 0;
    for (auto &[op, id] : planIds(function)) {
      auto it = plan.ops.find(id);
      if (it == plan.ops.end())
        continue;
      ++applied;
      ShardingRule rule = shardingRuleOf(op);
      FactorAxes factors;
      for (const ::autopar::AxisList &words : it->second.factors) {
        FailureOr<AxisList> list = numbersOf(op, words, axes);
        if (failed(list))
          return failure();
        factors.push_back(*list);
      }
      std::string whyNot;
      if (!isLegal(rule, factors, axes, &whyNot))
        return op->emitOpError() << "cannot take the planned strategy for \"" << id
                                 << "\": " << whyNot;
      // Whole everywhere is what an operation without a strategy is, but for a hold.
      if (isa<HoldOp>(op) ||
          llvm::any_of(factors, [](const AxisList &list) { return !list.empty(); }))
        op->setAttr("autopar.strategy", strategyToAttr(factors, axes));
    }
    if (applied == plan.ops.size())
      return success();
    llvm::StringSet<> known;
    for (auto &[op, id] : planIds(function))
      known.insert(id);
    for (auto &[id, strategy] : plan.ops)
      if (!known.contains(id))
        return emitError(getOperation().getLoc())
               << "plan: names operation \"" << id << "\", which @main does not have";
    return success();
  }

  LogicalResult annotateRecompute(func::FuncOp function, const Plan &plan) {
    if (plan.recompute.empty())
      return success();
    llvm::StringSet<> known;
    for (auto &[op, id] : planIds(function))
      known.insert(id);
    SmallVector<StringRef> names;
    for (const std::string &id : plan.recompute) {
      StringRef name = id;
      if (!known.contains(name) && !(name.consume_back(kReshardSuffix) && known.contains(name)))
        return emitError(getOperation().getLoc())
               << "plan: recompute: names operation \"" << id << "\", which @main does not have";
      names.push_back(id);
    }
    function->setAttr(kRecomputeAttribute, Builder(&getContext()).getStrArrayAttr(names));
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

  LogicalResult annotateValues(func::FuncOp function, const Plan &plan, const MeshAxes &axes) {
    auto ofArguments = SignatureAttributes::ofArguments(function);
    auto ofResults = SignatureAttributes::ofResults(function);
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      FailureOr<ShardingAttr> attr =
          shardingOf(function, planNameOfArgument(function, i),
                     cast<RankedTensorType>(function.getArgument(i).getType()), plan, axes);
      if (failed(attr))
        return failure();
      if (*attr)
        ofArguments.set(i, "autopar.sharding", *attr);
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i) {
      FailureOr<ShardingAttr> attr =
          shardingOf(function, planNameOfResult(function, i),
                     cast<RankedTensorType>(function.getResultTypes()[i]), plan, axes);
      if (failed(attr))
        return failure();
      if (*attr)
        ofResults.set(i, "autopar.sharding", *attr);
    }
    ofArguments.write();
    ofResults.write();
    return success();
  }
};

} // namespace
