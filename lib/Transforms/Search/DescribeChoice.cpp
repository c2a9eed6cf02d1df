// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DescribeChoice.h"

#include "DescribeSharing.h"
#include "Stages/StepPhase.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::CostTerm;
using ::autopar::MemoryParts;
using ::autopar::PlanDetails;
using ::autopar::PlanRow;
using ::autopar::Result;
using ::autopar::Status;
using ::autopar::TimelineSlice;

/// What no rank waits for another in is a copy to people.
static StringRef wordOf(ReshardStep::Kind kind) {
  bool isLocal = kind == ReshardStep::Kind::Slice || kind == ReshardStep::Kind::Mask;
  return isLocal ? "copy" : nameOf(kind);
}

static StringRef wordOf(PipelineTask::Kind kind) {
  constexpr StringLiteral words[] = {"before", "F", "B", "W", "message", "after"};
  return words[static_cast<size_t>(kind)];
}

namespace {

class Describer {
public:
  explicit Describer(ShardingProblem &problem)
      : function(problem.getFunction()), problem(problem), axes(problem.meshAxes()),
        graph(problem.graph()), first(function.getNumArguments()), roles(problem.roles()),
        ofParameters(madeOfParameters(function)), terms(problem.pipelineModel().meshes()) {}

  Result<PlanDetails> run(std::vector<int32_t> chosen) {
    choice = std::move(chosen);
    ::autopar::Evaluation evaluation = ::autopar::evaluate(graph, choice);
    if (!evaluation.legal)
      return Status::badInput("the plan cannot be costed: " + evaluation.whyNot);
    addRows();
    AUTOPAR_RETURN_IF_ERROR(problem.hasStages() ? addPipeline() : addSequence(evaluation.timeUs));
    addTime();
    describeSharing(problem, choice, details.believed);
    addMemory();
    addHostMemory();
    return std::move(details);
  }

private:
  //===-- Rows -------------------------------------------------------------------------------===//

  PlanRow rowOf(StringRef name, Value value, const TensorSharding &sharding) const {
    PlanRow row;
    row.name = name.str();
    RankedTensorType type = tensorTypeOf(value);
    row.shape = type.getShape().vec();
    for (const AxisList &dim : sharding.dims)
      row.sharding.dims.push_back(wordsOf(dim, axes));
    row.sharding.partial = wordsOf(sharding.partial, axes);
    if (!sharding.partial.empty())
      row.sharding.partialKind = stringifyReduction(sharding.reduction).str();
    RankedTensorType local = localType(type, sharding, problem.axesOf(value));
    row.bytes = tensorBytes(local);
    return row;
  }

  void addRows() {
    const Stages &stages = problem.stages();
    std::vector<double> incident(first, 0);
    before.assign(graph.nodes.size(), 0);
    for (auto [index, edge] : llvm::enumerate(graph.edges)) {
      double us = 0;
      int32_t mesh = meshOfNode(std::max(edge.a, edge.b));
      problem.forEachStep(index, choice, [&](const ReshardStep &step, double bytes, double stepUs) {
        us += stepUs;
        StringRef kind = wordOf(step.kind);
        bool isCopy = kind == "copy";
        addTerm(mesh, kind, isCopy ? std::vector<std::string>() : wordsOf(step.axes, axes), stepUs,
                isCopy ? 0 : bytes);
      });
      before[std::max(edge.a, edge.b)] += us;
      for (int32_t end : {edge.a, edge.b})
        if (end < static_cast<int32_t>(first))
          incident[end] += us;
    }
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      if (!isParameter(argument))
        continue;
      details.rows.push_back(rowOf(planNameOfArgument(function, i), argument,
                                   problem.shardingsOfArgument(i)[choice[i]]));
      details.rows.back().isParameter = true;
      details.rows.back().stage = stages.of(argument);
      details.rows.back().collectiveUs = incident[i];
    }
    for (auto [position, entry] : llvm::enumerate(problem.operations())) {
      auto &[op, id] = entry;
      size_t node = first + position;
      double computeUs = graph.nodes[node].strategies[choice[node]].timeUs;
      if (computeUs + before[node] == 0)
        continue; // happens within others
      PlanRow row =
          rowOf(id, op->getResult(0), problem.shardingsOf(op->getResult(0))[choice[node]]);
      row.stage = stages.of(op);
      row.computeUs = computeUs;
      row.collectiveUs = before[node];
      details.rows.push_back(std::move(row));
    }
  }

  //===-- Time -------------------------------------------------------------------------------===//

  /// Without stages everything follows everything.
  Status addSequence(double stepUs) {
    details.queues = {"compute", "collectives"};
    double now = 0;
    auto add = [&](int32_t queue, StringRef kind, const std::string &name, double us) {
      if (us <= 0)
        return;
      details.timeline.push_back({queue, kind.str(), name, -1, -1, now, now + us});
      now += us;
    };
    StepPhase phases;
    for (auto [position, entry] : llvm::enumerate(problem.operations())) {
      size_t node = first + position;
      StringRef phase = phases.of(entry.first);
      StringRef kind = phase == "forward" ? "F" : phase == "backward" ? "B" : "after";
      add(1, "collective", entry.second, before[node]);
      add(0, kind, entry.second, graph.nodes[node].strategies[choice[node]].timeUs);
    }
    for (size_t node = first + problem.operations().size(); node < graph.nodes.size(); ++node)
      add(1, "collective", graph.nodes[node].id, before[node]);
    details.believed.stepUs = stepUs;
    return Status::ok();
  }

  Status addPipeline() {
    Result<PipelineRun> run = problem.runPipeline(choice);
    if (!run)
      return run.status();
    details.queues = run->queues;
    details.believed.stepUs = run->times.makespanUs;
    for (auto [index, task] : llvm::enumerate(run->tasks)) {
      const ::autopar::TaskTimes &times = run->times.tasks[index];
      if (times.endUs <= times.startUs || run->queueOf[index] < 0)
        continue;
      details.timeline.push_back({run->queueOf[index], wordOf(task.kind).str(),
                                  task.target >= 0 ? "to stage " + std::to_string(task.target) : "",
                                  task.stage, task.microBatch, times.startUs, times.endUs});
    }
    return Status::ok();
  }

  int32_t meshOfNode(size_t node) const {
    node = problem.leaderOf(static_cast<int32_t>(node));
    const PipelineModel &pipeline = problem.pipelineModel();
    if (pipeline.meshes() == 1)
      return 0;
    if (node < first)
      return pipeline.meshOf(function.getArgument(node));
    size_t position = std::min(node - first, problem.operations().size() - 1);
    return pipeline.meshOf(problem.operations()[position].first->getResult(0));
  }

  void addTerm(int32_t mesh, StringRef kind, std::vector<std::string> over, double us,
               double bytes) {
    CostTerm &term = terms[mesh][{kind.str(), over}];
    term.kind = kind.str();
    term.axes = std::move(over);
    term.us += us;
    term.bytes += static_cast<int64_t>(bytes);
  }

  /// What the busiest mesh does, and how long it waits.
  void addTime() {
    std::vector<double> computeUs(terms.size(), 0);
    for (size_t node = 0; node < graph.nodes.size(); ++node)
      if (double us = graph.nodes[node].strategies[choice[node]].timeUs; us > 0)
        computeUs[meshOfNode(node)] += us;
    for (auto [mesh, us] : llvm::enumerate(computeUs))
      if (us > 0)
        addTerm(static_cast<int32_t>(mesh), "compute", {}, us, 0);
    double most = -1;
    for (const Terms &own : terms) {
      double busy = 0;
      for (auto &[key, term] : own)
        busy += term.us;
      if (busy <= most)
        continue;
      most = busy;
      details.believed.time.clear();
      for (auto &[key, term] : own)
        if (term.us > 0)
          details.believed.time.push_back(term);
    }
    double waiting = details.believed.stepUs - most;
    if (waiting > 1e-9 * details.believed.stepUs)
      details.believed.time.push_back({"waiting", {}, waiting, 0});
    llvm::sort(details.believed.time, [](const CostTerm &a, const CostTerm &b) {
      return std::tie(b.us, a.kind, a.axes) < std::tie(a.us, b.kind, b.axes);
    });
  }

  //===-- Memory -----------------------------------------------------------------------------===//

  int64_t MemoryParts::*partOf(size_t node) const {
    node = problem.leaderOf(static_cast<int32_t>(node));
    if (node < first) {
      BlockArgument argument = function.getArgument(node);
      bool isState = function.getArgAttr(argument.getArgNumber(), "autopar.donated") != nullptr;
      return isParameter(argument) ? &MemoryParts::parameters
             : isState             ? &MemoryParts::optimizer
                                   : &MemoryParts::workspace;
    }
    if (node - first >= problem.operations().size())
      return &MemoryParts::workspace;
    Operation *op = problem.operations()[node - first].first;
    bool hasSamples = roles.hasSamples(op->getResult(0));
    if (ofParameters.contains(op))
      return &MemoryParts::parameters;
    if (phaseOf.lookup(op) == "forward")
      return hasSamples ? &MemoryParts::activations : &MemoryParts::workspace;
    bool isGradient = phaseOf.lookup(op) == "backward" && !hasSamples && op->getNumOperands() > 0;
    return isGradient ? &MemoryParts::gradients : &MemoryParts::workspace;
  }

  /// Per mesh: what is held at the time when most is. Meshes have stretches of time points of their
  /// own; persistent bytes are held in all of them.
  void addMemory() {
    StepPhase phases;
    for (auto &[op, id] : problem.operations())
      phaseOf[op] = phases.of(op);
    int64_t stretch = problem.operations().size() + 1;
    int32_t meshes = problem.pipelineModel().meshes();
    std::vector<std::vector<int64_t>> change(meshes, std::vector<int64_t>(stretch + 1, 0));
    for (size_t node = 0; node < graph.nodes.size(); ++node)
      for (const ::autopar::LiveInterval &live : graph.nodes[node].live)
        if (int64_t bytes = graph.nodes[node].strategies[choice[node]].liveBytes;
            bytes && live.begin < live.end && !problem.isReserve(static_cast<int32_t>(node))) {
          int64_t mesh = std::min<int64_t>(live.begin / stretch, meshes - 1);
          change[mesh][live.begin - mesh * stretch] += bytes;
          change[mesh][std::min(stretch, live.end - mesh * stretch)] -= bytes;
        }
    for (int32_t mesh = 0; mesh < meshes; ++mesh) {
      int64_t held = 0, most = -1, peakAt = 0;
      for (int64_t at = 0; at <= stretch; ++at) {
        held += change[mesh][at];
        if (held > most) {
          most = held;
          peakAt = mesh * stretch + at;
        }
      }
      MemoryParts parts;
      for (size_t node = 0; node < graph.nodes.size(); ++node) {
        if (problem.isReserve(static_cast<int32_t>(node)))
          continue;
        const ::autopar::Strategy &strategy = graph.nodes[node].strategies[choice[node]];
        int64_t bytes = strategy.persistentBytes;
        for (const ::autopar::LiveInterval &live : graph.nodes[node].live)
          if (live.begin <= peakAt && peakAt < live.end)
            bytes += strategy.liveBytes;
        if (bytes > 0)
          parts.*partOf(node) += bytes;
      }
      details.believed.memory.push_back(parts);
      details.believed.peakBytes.push_back(parts.total());
    }
  }

  void addHostMemory() {
    details.hostBytes.assign(problem.pipelineModel().meshes(), 0);
    for (BlockArgument argument : function.getArguments()) {
      unsigned i = argument.getArgNumber();
      int32_t mesh = problem.hasStages() ? problem.pipelineModel().meshOf(argument) : 0;
      if (isOnHost(argument) && mesh >= 0)
        details.hostBytes[mesh] +=
            rowOf("", argument, problem.shardingsOfArgument(i)[choice[i]]).bytes;
    }
  }

  mutable func::FuncOp function; ///< a handle; only read
  ShardingProblem &problem;
  const MeshAxes &axes;
  const ::autopar::CostGraph &graph;
  size_t first; ///< node of the first operation
  const DimensionRoles &roles;
  llvm::SetVector<Operation *> ofParameters;
  std::vector<int32_t> choice;
  std::vector<double> before; ///< per node: microseconds of reshards that are its
  using Terms = std::map<std::pair<std::string, std::vector<std::string>>, CostTerm>;
  std::vector<Terms> terms; ///< per mesh: by kind and axes
  DenseMap<Operation *, StringRef> phaseOf;
  PlanDetails details;
};

} // namespace

Result<PlanDetails> mlir::autopar::describeChoice(ShardingProblem &problem,
                                                  std::vector<int32_t> choice) {
  return Describer(problem).run(std::move(choice));
}
