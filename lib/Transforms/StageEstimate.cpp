// SPDX-License-Identifier: Apache-2.0
// Every mesh is first solved without a memory limit, which is fast and never slower than with one:
// meshes are then solved under the limit in that order, until the next one cannot win.
#include "autopar/Transforms/StageEstimate.h"

#include "ForwardChain.h"
#include "MeshCandidates.h"
#include "OpsOfStages.h"
#include "SearchConstraints.h"
#include "ShardingProblem.h"
#include "StagePhases.h"
#include "autopar/Planner/SearchEngine.h"
#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Mesh;
using ::autopar::Result;
using ::autopar::Status;

namespace {

/// What is searched per mesh, in the units of SearchOptions.
constexpr int64_t kWorkUnits = 60;

class Estimator {
public:
  Estimator(func::FuncOp function, const ::autopar::Cluster &cluster,
            const StageEstimateOptions &options)
      : function(function), outline(function), cluster(cluster), options(options) {}

  Result<StageEstimate> run();

private:
  struct Candidate {
    Mesh mesh;
    std::unique_ptr<ShardingProblem> problem; ///< kept for the limit, and for the plan
    std::vector<int32_t> choice;
    double stepUs = std::numeric_limits<double>::infinity();
    int64_t peakBytes = 0;
    Status status;
  };

  std::vector<Mesh> meshes() const;
  double stepUs(const ShardingProblem &problem, ArrayRef<int32_t> choice) const;
  /// Finds the candidate's choice under `solveLimit`; 0: none.
  Status solve(Candidate &one, int64_t solveLimit) const;

  func::FuncOp function;
  StepOutline outline;
  const ::autopar::Cluster &cluster;
  const StageEstimateOptions &options;
  ::autopar::Schedule schedule;
  const ::autopar::SearchEngine *engine = nullptr;
  ChainCut cut;
  int64_t limit = 0;
};

std::vector<Mesh> Estimator::meshes() const {
  if (std::vector<::autopar::MeshAxis> axes = options.constraints.mesh(); !axes.empty())
    return {Mesh::over("mesh", axes)};
  int64_t devices = cluster.deviceCount() / options.stages;
  std::vector<Mesh> found;
  auto isNear = [&](const Mesh &mesh) {
    double ratio = static_cast<double>(innermost(mesh)) / static_cast<double>(options.near);
    return options.near == 0 || (ratio <= 2 && ratio >= 0.5);
  };
  for (Mesh &mesh : meshCandidates(cluster, devices))
    if (devices <= 16 || (mesh.axes.size() <= 2 && isNear(mesh)))
      found.push_back(std::move(mesh));
  return found;
}

/// The slowest stage sets the pace; the first micro-batch goes through all of them.
double Estimator::stepUs(const ShardingProblem &problem, ArrayRef<int32_t> choice) const {
  auto [once, each] = problem.onceAndEachUs(choice);
  auto parts = static_cast<double>(schedule.microBatches);
  if (parts == 1) // one stage after the other
    return once + cut.messagesUs;
  return once / static_cast<double>(options.stages) +
         each / parts * ((parts - 1) * cut.slowestShare + 1) + cut.messagesUs;
}

Status Estimator::solve(Candidate &one, int64_t solveLimit) const {
  if (!one.problem) {
    one.problem = std::make_unique<ShardingProblem>(outline, schedule, std::vector<Mesh>{one.mesh},
                                                    cluster, options.stages, cut.slowestShare);
    AUTOPAR_RETURN_IF_ERROR(one.problem->status());
    AUTOPAR_RETURN_IF_ERROR(constrain(*one.problem, options.constraints));
    if (::autopar::fewestBytes(one.problem->graph()) > limit)
      return Status::badInput("no sharding fits");
  }
  one.problem->graph().memoryLimitBytes = solveLimit;
  ::autopar::SearchOptions search;
  search.seed = options.seed;
  search.workUnits = kWorkUnits;
  search.rough = true;
  Result<std::vector<::autopar::Solution>> found = engine->search(one.problem->graph(), search);
  if (!found)
    return found.status();
  one.choice = std::move(found->front().choice);
  one.peakBytes = found->front().peakBytes;
  one.stepUs = stepUs(*one.problem, one.choice);
  return Status::ok();
}

Result<StageEstimate> Estimator::run() {
  limit = options.memoryLimit ? options.memoryLimit : cluster.mostUsableBytes();
  Result<::autopar::Schedule> own = scheduleOf(function);
  if (!own)
    return own.status();
  schedule = own.take();
  Result<const ::autopar::SearchEngine *> found = ::autopar::findSearchEngine(options.engine);
  if (!found)
    return found.status();
  engine = *found;
  if (options.stages > 1) {
    OpsOfStages ops(function);
    if (static_cast<int64_t>(ops.forward.size()) < options.stages)
      return Status::badInput("has fewer operations than stages");
    bool trains = !ops.later.empty();
    auto table = ::autopar::makeSchedule("1f1b", options.stages, options.stages,
                                         schedule.microBatches, trains);
    if (!table)
      return table.status();
    SmallVector<SmallVector<int64_t>> devices(options.stages);
    for (int64_t device = 0; device < cluster.deviceCount(); ++device)
      devices[device * options.stages / cluster.deviceCount()].push_back(device);
    // What is short of memory here may yet be recomputed.
    auto chain = ForwardChain(function, ops.forward, cluster, trains)
                     .cut(chainMeshes(cluster, devices, options.memoryLimit), *table);
    if (!chain)
      return chain.status();
    cut = chain.take();
  }
  std::vector<Candidate> candidates;
  for (Mesh &mesh : meshes())
    candidates.emplace_back().mesh = std::move(mesh);
  parallelFor(function->getContext(), 0, candidates.size(), [&](size_t i) {
    Candidate &one = candidates[i];
    one.status = solve(one, 0);
    if (!one.status.isOk() || one.stepUs >= options.boundUs)
      one.problem.reset();
  });
  std::vector<std::pair<double, size_t>> order; // of equally fast meshes the one with fewer axes
  for (auto [index, one] : llvm::enumerate(candidates))
    order.emplace_back(one.stepUs, index);
  llvm::sort(order);
  if (options.leastUs && !order.empty())
    *options.leastUs = order.front().first;
  Candidate *best = nullptr;
  Status problem = Status::badInput("nothing is faster than what is known");
  for (auto [unlimitedUs, index] : order) {
    Candidate &one = candidates[index];
    double bound = best ? best->stepUs : options.boundUs;
    if (!one.status.isOk() || unlimitedUs >= bound) {
      if (!one.status.isOk() && !best)
        problem = one.status;
      break; // those after it are no faster
    }
    if (one.peakBytes > limit)
      one.status = solve(one, limit);
    if (!one.status.isOk())
      problem = one.status;
    else if (one.stepUs < bound)
      best = &one;
  }
  if (!best)
    return problem;
  StageEstimate estimate{best->stepUs, best->problem->toPlan(best->choice)};
  estimate.plan.believed.peakBytes = {best->peakBytes};
  return estimate;
}

} // namespace

int64_t mlir::autopar::innermost(const Mesh &mesh) {
  return mesh.axes.size() > 1 ? mesh.axes.back().size : 1;
}

Result<StageEstimate> mlir::autopar::estimateStages(func::FuncOp function,
                                                    const ::autopar::Cluster &cluster,
                                                    const StageEstimateOptions &options) {
  return Estimator(function, cluster, options).run();
}
