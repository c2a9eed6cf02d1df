// SPDX-License-Identifier: Apache-2.0
// Choices of a sharding problem as plans, and what a choice takes.
#include "ShardingProblem.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;

::autopar::AxisList mlir::autopar::wordsOf(const AxisList &list, const MeshAxes &axes) {
  ::autopar::AxisList words;
  for (int8_t axis : list)
    words.push_back(axes.names[axis].str());
  return words;
}

static ::autopar::ValueSharding valueOf(const TensorSharding &sharding, const MeshAxes &axes) {
  ::autopar::ValueSharding value;
  for (const AxisList &dim : sharding.dims)
    value.dims.push_back(wordsOf(dim, axes));
  return value;
}

/// Per node, with the resharding of its operands.
std::vector<double> ShardingProblem::timesOf(ArrayRef<int32_t> choice) const {
  std::vector<double> times(costGraph.nodes.size(), 0);
  for (auto [node, strategy] : llvm::enumerate(choice))
    times[node] = costGraph.nodes[node].strategies[strategy].timeUs;
  for (const ::autopar::CostEdge &edge : costGraph.edges) {
    size_t count = costGraph.nodes[edge.b].strategies.size();
    times[std::max(edge.a, edge.b)] +=
        costGraph.matrices[edge.matrix][choice[edge.a] * count + choice[edge.b]];
  }
  return times;
}

std::pair<double, double> ShardingProblem::onceAndEachUs(ArrayRef<int32_t> choice) const {
  size_t first = argumentLists.size(); // nodes: arguments, operations, results
  double once = 0, each = 0;
  for (auto [node, time] : llvm::enumerate(timesOf(choice))) {
    bool isRepeated = node >= first && node - first < operations().size() &&
                      outline.microBatches().runsOf(operations()[node - first].first) > 1;
    (isRepeated ? each : once) += time;
  }
  return {once, each};
}

::autopar::Result<double> ShardingProblem::stepUs(ArrayRef<int32_t> choice) const {
  if (!hasStages())
    return ::autopar::evaluate(costGraph, choice).timeUs;
  ::autopar::Result<PipelineRun> run = runPipeline(choice);
  if (!run)
    return run.status();
  return run->times.makespanUs;
}

::autopar::Result<PipelineRun> ShardingProblem::runPipeline(ArrayRef<int32_t> choice) const {
  size_t first = argumentLists.size();
  std::vector<double> times = timesOf(choice);
  return pipeline.run([&](Operation *op) { return times[first + outline.positionOf(op)]; },
                      [&](Operation *op) {
                        size_t node = first + outline.positionOf(op);
                        double held = static_cast<double>(
                            costGraph.nodes[node].strategies[choice[node]].liveBytes);
                        return static_cast<int64_t>(held / copiesOf(op->getResult(0)));
                      });
}

/// A stage is listed with its operations, what is on no stage with the first.
void ShardingProblem::addStages(::autopar::Plan &plan) const {
  const ::autopar::Schedule &schedule = pipeline.schedule();
  plan.meshes = meshes;
  for (int64_t i = 0; hasStages() && i < schedule.meshes; ++i)
    plan.meshes[i].name = "m" + std::to_string(i);
  for (int64_t i = 0; i < schedule.stages; ++i)
    plan.stages.push_back({"s" + std::to_string(i), plan.meshes[schedule.meshOf(i)].name, {}});
  plan.microBatches = schedule.microBatches;
  for (auto &[op, id] : operations())
    if (auto product = dyn_cast<GroupedDotOp>(op); product && product.getInParts())
      plan.expertParts = product.getLhs().getType().getDimSize(0);
  if (!hasStages())
    return;
  plan.schedule = schedule.name;
  for (auto &[op, id] : operations())
    plan.stages[std::max<int64_t>(0, outline.stages().of(op))].ops.push_back(id);
}

std::vector<int32_t> ShardingProblem::choiceOf(const ::autopar::Plan &plan) const {
  std::vector<int32_t> choice(costGraph.nodes.size(), -1);
  auto indexOf = [&](ArrayRef<TensorSharding> list, const std::string &name) {
    auto planned = plan.values.find(name);
    if (planned == plan.values.end())
      return -1;
    auto found = llvm::find_if(list, [&](const TensorSharding &sharding) {
      return valueOf(sharding, meshAxes()) == planned->second;
    });
    return found == list.end() ? -1 : static_cast<int32_t>(found - list.begin());
  };
  func::FuncOp function = this->function;
  for (unsigned i = 0; i < argumentLists.size(); ++i)
    choice[i] = indexOf(lists[argumentLists[i]], planNameOfArgument(function, i));
  for (size_t i = 0; i < resultLists.size(); ++i)
    if (int32_t node = resultNodes[i]; choice[node] < 0)
      choice[node] = indexOf(lists[resultLists[i]], planNameOfResult(function, i));
  for (auto [position, entry] : llvm::enumerate(operations())) {
    auto planned = plan.ops.find(entry.second);
    if (planned == plan.ops.end() || isa<HoldOp>(entry.first))
      continue; // whether a hold copies is not in its factors
    size_t node = argumentLists.size() + position;
    for (auto [index, candidate] : llvm::enumerate(*strategies[node])) {
      bool isEqual = candidate.size() == planned->second.factors.size();
      for (size_t f = 0; isEqual && f < candidate.size(); ++f)
        isEqual = wordsOf(candidate[f], meshAxes()) == planned->second.factors[f];
      if (!isEqual)
        continue;
      choice[node] = static_cast<int32_t>(index);
      break;
    }
  }
  for (size_t follower = 0; follower < followed.size(); ++follower)
    choice[firstFollower + follower] = choice[followed[follower]];
  return choice;
}

::autopar::Plan ShardingProblem::toPlan(ArrayRef<int32_t> choice) const {
  ::autopar::Plan plan;
  plan.clusterName = cluster.name;
  plan.deviceCount = cluster.deviceCount();
  func::FuncOp function = this->function;
  addStages(plan);
  size_t node = 0;
  for (BlockArgument argument : function.getArguments())
    if (isOnHost(argument))
      plan.offload.push_back(planNameOfArgument(function, argument.getArgNumber()));
  for (unsigned i = 0; i < function.getNumArguments(); ++i, ++node)
    plan.values[planNameOfArgument(function, i)] =
        valueOf(lists[argumentLists[i]][choice[node]], meshAxes());
  for (auto &[op, id] : operations()) {
    ::autopar::OpStrategy strategy;
    for (const AxisList &factor : (*strategies[node])[choice[node]])
      strategy.factors.push_back(wordsOf(factor, meshAxes()));
    plan.ops[id] = std::move(strategy);
    ++node;
  }
  for (size_t i = 0; i < resultLists.size(); ++i)
    plan.values[planNameOfResult(function, i)] =
        valueOf(lists[resultLists[i]][choice[resultNodes[i]]], meshAxes());
  return plan;
}
