// SPDX-License-Identifier: Apache-2.0
// An axis is what it divides of the work on samples. A parameter is gathered over an axis where it
// lies in parts that nothing multiplies as they lie: so ZeRO has parameters, and not tensor
// parallelism.
#include "DescribeSharing.h"

#include "Stages/StepPhase.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::AxisUse;
using ::autopar::PlanBelief;

namespace {

double &shareOf(AxisUse &use, DimensionRole role) {
  switch (role) {
  case DimensionRole::Batch:
    return use.samples;
  case DimensionRole::Position:
    return use.positions;
  case DimensionRole::Expert:
    return use.experts;
  case DimensionRole::Model:
    return use.model;
  }
  llvm_unreachable("a role of another kind");
}

double rounded(double value) { return std::round(value * 1e4) / 1e4; }

/// What a rank holds, and what it would hold if nothing that is gathered were in parts.
struct Held {
  double bytes = 0, whole = 0;
  double parts() const { return bytes > 0 ? std::max(1.0, rounded(whole / bytes)) : 1; }
};

class SharingDescriber {
public:
  SharingDescriber(ShardingProblem &problem, ArrayRef<int32_t> choice)
      : function(problem.getFunction()), problem(problem), choice(choice), axes(problem.meshAxes()),
        roles(problem.roles()) {
    StepPhase phases;
    for (auto [position, entry] : llvm::enumerate(problem.operations())) {
      positions[entry.first] = position;
      phaseOf[entry.first] = phases.of(entry.first);
    }
  }

  std::vector<AxisUse> uses() const {
    std::vector<AxisUse> uses(axes.names.size());
    double totalUs = 0;
    for (auto &[op, id] : problem.operations()) {
      double us = problem.graph().nodes[nodeOf(op)].strategies[choice[nodeOf(op)]].timeUs;
      if (us <= 0 || !isOfSamples(op))
        continue;
      totalUs += us;
      ShardingRule rule = shardingRuleOf(op);
      SmallVector<DimensionRole> factors = roles.ofFactors(op, rule);
      for (auto [index, list] : llvm::enumerate(choiceOf(op)))
        for (int8_t axis : list)
          if (rule.factors[index].size < ShardingRule::unreducedExtent)
            shareOf(uses[axis], factors[index]) += us;
    }
    for (auto [axis, use] : llvm::enumerate(uses)) {
      use.axis = axes.names[axis].str();
      for (DimensionRole role : {DimensionRole::Batch, DimensionRole::Position,
                                 DimensionRole::Expert, DimensionRole::Model})
        shareOf(use, role) = totalUs > 0 ? rounded(shareOf(use, role) / totalUs) : 0;
    }
    return uses;
  }

  std::vector<::autopar::StateParts> state() const {
    const PipelineModel &pipeline = problem.pipelineModel();
    std::vector<std::array<Held, 2>> held(pipeline.meshes());
    DenseMap<BlockArgument, BlockArgument> owners = ownersOfState();
    for (BlockArgument argument : function.getArguments()) {
      BlockArgument parameter = isParameter(argument) ? argument : owners.lookup(argument);
      int32_t mesh = problem.hasStages() ? pipeline.meshOf(argument) : 0;
      if (!parameter || mesh < 0 || isOnHost(argument))
        continue;
      unsigned i = argument.getArgNumber();
      const TensorSharding &sharding = problem.shardingsOfArgument(i)[choice[i]];
      llvm::SmallBitVector used = axesOfReaders(parameter);
      double parts = 1;
      for (const AxisList &list : sharding.dims)
        for (int8_t axis : list)
          if (!used.test(axis))
            parts *= static_cast<double>(problem.axesOf(argument).sizes[axis]);
      auto bytes = static_cast<double>(
          tensorBytes(localType(tensorTypeOf(argument), sharding, problem.axesOf(argument))));
      Held &own = held[mesh][argument == parameter ? 0 : 1];
      own.bytes += bytes;
      own.whole += bytes * parts;
    }
    std::vector<::autopar::StateParts> state;
    for (const auto &[parameters, optimizer] : held)
      state.push_back({std::llround(parameters.whole), std::llround(optimizer.whole),
                       parameters.parts(), optimizer.parts()});
    return state;
  }

private:
  size_t nodeOf(Operation *op) const { return function.getNumArguments() + positions.lookup(op); }
  const FactorAxes &choiceOf(Operation *op) const {
    return problem.choicesOf(positions.lookup(op))[choice[nodeOf(op)]];
  }

  bool isOfSamples(Operation *op) const {
    auto hasSamples = [&](Value value) { return roles.hasSamples(value); };
    return llvm::any_of(op->getOperands(), hasSamples) ||
           llvm::any_of(op->getResults(), hasSamples);
  }

  /// The argument that a value is, read or rewritten by operations of one operand.
  static BlockArgument argumentOf(Value value) {
    while (Operation *op = value.getDefiningOp()) {
      if (op->getNumOperands() != 1)
        return {};
      value = op->getOperand(0);
    }
    return cast<BlockArgument>(value);
  }

  /// The parameter of each state of the optimizer, which is of its shape: its update reads it, or
  /// what other operations of the update make of it.
  DenseMap<BlockArgument, BlockArgument> ownersOfState() const {
    DenseMap<BlockArgument, BlockArgument> owners;
    DenseMap<Value, BlockArgument> updated; ///< parameter, by what its update is made of
    for (auto &[op, id] : llvm::reverse(problem.operations())) {
      if (phaseOf.lookup(op) != "update")
        continue;
      BlockArgument parameter = isa<UpdateOp>(op) ? argumentOf(op->getOperand(0)) : BlockArgument();
      if (!parameter || !isParameter(parameter))
        parameter = updated.lookup(op->getResults().back());
      if (!parameter)
        continue;
      for (Value operand : op->getOperands()) {
        updated.try_emplace(operand, parameter);
        if (BlockArgument state = argumentOf(operand);
            state && tensorTypeOf(state).getShape() == tensorTypeOf(parameter).getShape() &&
            function.getArgAttr(state.getArgNumber(), "autopar.donated"))
          owners.try_emplace(state, parameter);
      }
    }
    return owners;
  }

  /// The axes over which operations on samples read a parameter, or what is made of it alone, in
  /// parts.
  llvm::SmallBitVector axesOfReaders(BlockArgument parameter) const {
    llvm::SmallBitVector found(axes.names.size());
    SmallVector<Value> values = {parameter};
    DenseSet<Value> seen = {parameter};
    while (!values.empty())
      for (OpOperand &use : values.pop_back_val().getUses()) {
        Operation *op = use.getOwner();
        if (!positions.contains(op) || phaseOf.lookup(op) == "update")
          continue;
        if (!isOfSamples(op)) {
          for (Value result : op->getResults())
            if (seen.insert(result).second)
              values.push_back(result);
          continue;
        }
        ShardingRule rule = shardingRuleOf(op);
        for (const ShardingRule::Dimension &dim : rule.operands[use.getOperandNumber()])
          for (int64_t factor : dim)
            for (int8_t axis : choiceOf(op)[factor])
              found.set(axis);
      }
    return found;
  }

  mutable func::FuncOp function; ///< a handle; only read
  ShardingProblem &problem;
  ArrayRef<int32_t> choice;
  const MeshAxes &axes;
  const DimensionRoles &roles;
  DenseMap<Operation *, size_t> positions; ///< among the problem's operations
  DenseMap<Operation *, StringRef> phaseOf;
};

} // namespace

void mlir::autopar::describeSharing(ShardingProblem &problem, ArrayRef<int32_t> choice,
                                    PlanBelief &belief) {
  SharingDescriber describer(problem, choice);
  belief.axes = describer.uses();
  belief.state = describer.state();
}
