// SPDX-License-Identifier: Apache-2.0
// The plan as a choice of strategies in the cost graph.
#include "autopar/Transforms/DescribePlan.h"

#include "DescribeChoice.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Plan;
using ::autopar::PlanDetails;
using ::autopar::Result;
using ::autopar::Status;

namespace {

/// What the plan says of every node, without gaps.
class ChoiceFinder {
public:
  ChoiceFinder(const Plan &plan, ShardingProblem &problem)
      : function(problem.getFunction()), plan(plan), problem(problem), axes(problem.meshAxes()),
        first(function.getNumArguments()) {}

  Result<std::vector<int32_t>> run() {
    AUTOPAR_RETURN_IF_ERROR(find());
    return std::move(choice);
  }

private:
  Result<AxisList> axesOf(const ::autopar::AxisList &words, const std::string &name) const {
    AxisList list;
    for (const std::string &word : words) {
      int8_t axis = axes.numberOf(word);
      if (axis < 0)
        return Status::badInput(name + ": the mesh has no axis '" + word + "'");
      list.push_back(axis);
    }
    return list;
  }

  Result<FactorAxes> axesOf(const std::vector<::autopar::AxisList> &lists,
                            const std::string &name) const {
    FactorAxes factors;
    for (const ::autopar::AxisList &words : lists) {
      Result<AxisList> list = axesOf(words, name);
      if (!list)
        return list.status();
      factors.push_back(list.take());
    }
    return factors;
  }

  Status findShardingOf(const std::string &name, ArrayRef<TensorSharding> shardings,
                        int32_t &chosen) const {
    auto planned = plan.values.find(name);
    chosen = 0; // whole
    if (planned == plan.values.end())
      return Status::ok();
    Result<FactorAxes> dims = axesOf(planned->second.dims, "shard." + name);
    if (!dims)
      return dims.status();
    for (auto [k, sharding] : llvm::enumerate(shardings))
      if (ArrayRef(sharding.dims) == ArrayRef(*dims)) {
        chosen = k;
        return Status::ok();
      }
    return Status::badInput("shard." + name +
                            ": has no price: no search has the value lie like that");
  }

  Status find() {
    const ::autopar::CostGraph &graph = problem.graph();
    choice.assign(graph.nodes.size(), 0);
    for (unsigned i = 0; i < first; ++i)
      AUTOPAR_RETURN_IF_ERROR(findShardingOf(planNameOfArgument(function, i),
                                             problem.shardingsOfArgument(i), choice[i]));
    DenseMap<int32_t, size_t> edgeInto;
    for (auto [index, edge] : llvm::enumerate(graph.edges))
      edgeInto[edge.b] = index;
    for (auto [position, entry] : llvm::enumerate(problem.operations())) {
      size_t node = first + position;
      ArrayRef<FactorAxes> choices = problem.choicesOf(position);
      auto planned = plan.ops.find(entry.second);
      FactorAxes wanted(choices.front().size());
      if (planned != plan.ops.end()) {
        Result<FactorAxes> factors = axesOf(planned->second.factors, "ops." + entry.second);
        if (!factors)
          return factors.status();
        wanted = factors.take();
      }
      auto found = llvm::find(choices, wanted);
      if (found == choices.end())
        return Status::badInput("ops." + entry.second +
                                ": has no price: no search splits the operation like that");
      choice[node] = found - choices.begin();
      // A hold has each strategy twice: for a value that lies so already, and for a copy.
      auto hold = dyn_cast<HoldOp>(entry.first);
      if (auto edge = edgeInto.find(node);
          hold && !hold.getUnreduced() && !takesOver(hold) && edge != edgeInto.end()) {
        TensorSharding held = operandSharding(shardingRuleOf(hold), wanted, 0);
        if (problem.sourceOfEdge(edge->second, choice) != held)
          choice[node] += choices.size() / 2;
      }
    }
    for (unsigned i = 0; i < function.getNumResults(); ++i)
      if (int32_t node = problem.nodesOfResults()[i]; node >= static_cast<int32_t>(first))
        AUTOPAR_RETURN_IF_ERROR(findShardingOf(planNameOfResult(function, i),
                                               problem.shardingsOfResult(i), choice[node]));
    for (size_t node = 0; node < choice.size(); ++node)
      choice[node] = choice[problem.leaderOf(static_cast<int32_t>(node))];
    return Status::ok();
  }

  mutable func::FuncOp function; ///< a handle; only read
  const Plan &plan;
  ShardingProblem &problem;
  const MeshAxes &axes;
  size_t first; ///< node of the first operation
  std::vector<int32_t> choice;
};

} // namespace

Result<PlanDetails> mlir::autopar::describePlan(func::FuncOp function, const Plan &plan,
                                                const ::autopar::Cluster &cluster) {
  AUTOPAR_RETURN_IF_ERROR(plan.verify(cluster));
  Result<::autopar::Schedule> schedule = scheduleOf(function);
  if (!schedule)
    return schedule.status();
  Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (!meshes)
    return meshes.status();
  StepOutline outline(function);
  ShardingProblem problem(outline, *schedule, meshes.take(), cluster);
  Result<std::vector<int32_t>> choice = ChoiceFinder(plan, problem).run();
  if (!choice)
    return choice.status();
  return describeChoice(problem, choice.take());
}
