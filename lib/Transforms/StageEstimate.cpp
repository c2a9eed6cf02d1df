// SPDX-License-Identifier: Apache-2.0
// Every mesh is first solved without a memory limit, which is fast and never slower than with one:
// meshes are then solved under the limit, as they are and with what may be computed again, in that
// order, until the next one cannot win.
#include "autopar/Transforms/StageEstimate.h"

#include "ForwardChain.h"
#include "MeshCandidates.h"
#include "OpsOfStages.h"
#include "SearchConstraints.h"
#include "ShardingProblem.h"
#include "StagePhases.h"
#include "autopar/Planner/SearchEngine.h"
#include "mlir/IR/Threading.h"

#include <array>
#include <mutex>

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
  /// A mesh's sharding.
  struct Found {
    std::vector<int32_t> choice;
    double stepUs = std::numeric_limits<double>::infinity();
    int64_t peakBytes = 0;
    ComputesAgain again = ComputesAgain::Nothing;
  };
  struct Candidate {
    Mesh mesh;
    std::unique_ptr<ShardingProblem> problem; ///< kept for the limit, and for the plan
    Found found;
    Status status;
  };

  std::vector<Mesh> meshes() const;
  double stepUs(const ShardingProblem &problem, ArrayRef<int32_t> choice) const;
  const ComputedAgain *againOf(ComputesAgain what) const; ///< null: of nothing
  Result<std::unique_ptr<ShardingProblem>> makeProblem(const Mesh &mesh, ComputesAgain what) const;
  Result<Found> search(ShardingProblem &problem, int64_t searchLimit) const;
  Status solveUnlimited(Candidate &one) const;
  Status solveLimited(Candidate &one) const;
  Result<Found> solveRecomputed(const Candidate &one, ComputesAgain what) const;

  func::FuncOp function;
  StepOutline outline;
  const ::autopar::Cluster &cluster;
  const StageEstimateOptions &options;
  ::autopar::Schedule schedule;
  const ::autopar::SearchEngine *engine = nullptr;
  ChainCut cut;
  int64_t limit = 0;
  /// By what is computed again, made when it is asked for.
  mutable std::array<std::optional<ComputedAgain>, 3> again;
  mutable std::array<std::once_flag, 3> isMade;
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

/// The slowest stage sets the pace; under 1F1B it waits while the first micro-batch goes through
/// all others.
double Estimator::stepUs(const ShardingProblem &problem, ArrayRef<int32_t> choice) const {
  auto [once, each] = problem.onceAndEachUs(choice);
  auto parts = static_cast<double>(schedule.microBatches);
  if (parts == 1) // one stage after the other
    return once + cut.messagesUs;
  return once / static_cast<double>(options.stages) +
         each / parts * (parts * cut.slowestShare + options.bubble * (1 - cut.slowestShare)) +
         cut.messagesUs;
}

const ComputedAgain *Estimator::againOf(ComputesAgain what) const {
  if (what == ComputesAgain::Nothing)
    return nullptr;
  auto index = static_cast<size_t>(what);
  std::call_once(isMade[index],
                 [&] { again[index].emplace(outline, cluster.typeOfDevice(0), what); });
  return &*again[index];
}

Result<std::unique_ptr<ShardingProblem>> Estimator::makeProblem(const Mesh &mesh,
                                                                ComputesAgain what) const {
  auto problem =
      std::make_unique<ShardingProblem>(outline, schedule, std::vector<Mesh>{mesh}, cluster,
                                        options.stages, cut.slowestShare, againOf(what));
  AUTOPAR_RETURN_IF_ERROR(problem->status());
  AUTOPAR_RETURN_IF_ERROR(constrain(*problem, options.constraints));
  return problem;
}

Result<Estimator::Found> Estimator::search(ShardingProblem &problem, int64_t searchLimit) const {
  problem.graph().memoryLimitBytes = searchLimit;
  ::autopar::SearchOptions search;
  search.seed = options.seed;
  search.workUnits = kWorkUnits;
  search.rough = true;
  Result<std::vector<::autopar::Solution>> solutions = engine->search(problem.graph(), search);
  if (!solutions)
    return solutions.status();
  Found found;
  found.choice = std::move(solutions->front().choice);
  found.peakBytes = solutions->front().peakBytes;
  found.stepUs = stepUs(problem, found.choice);
  return found;
}

/// What can never fit is not searched.
Status Estimator::solveUnlimited(Candidate &one) const {
  auto problem = makeProblem(one.mesh, ComputesAgain::Nothing);
  if (!problem)
    return problem.status();
  one.problem = problem.take();
  bool fits = ::autopar::fewestBytes(one.problem->graph()) <= limit;
  if (!fits && options.recomputes) {
    auto least = makeProblem(one.mesh, ComputesAgain::Layers);
    if (!least)
      return least.status();
    fits = ::autopar::fewestBytes((*least)->graph()) <= limit;
  }
  if (!fits)
    return Status::badInput("no sharding fits");
  Result<Found> found = search(*one.problem, 0);
  if (!found)
    return found.status();
  one.found = found.take();
  return Status::ok();
}

/// The fastest that fits.
Status Estimator::solveLimited(Candidate &one) const {
  Result<Found> best = search(*one.problem, limit);
  for (ComputesAgain what : {ComputesAgain::Cheap, ComputesAgain::Layers}) {
    if (!options.recomputes)
      break;
    Result<Found> found = solveRecomputed(one, what);
    if (found && (!best || found->stepUs < best->stepUs))
      best = std::move(found);
  }
  if (!best)
    return best.status();
  one.found = best.take();
  return Status::ok();
}

/// Of what the sharding was searched with, the part that makes it fit is computed again: as if all
/// of it freed as much for its time.
Result<Estimator::Found> Estimator::solveRecomputed(const Candidate &one,
                                                    ComputesAgain what) const {
  auto problem = makeProblem(one.mesh, what);
  if (!problem)
    return problem.status();
  Result<Found> found = search(**problem, limit);
  if (!found)
    return found;
  double keptUs = stepUs(*one.problem, found->choice);
  auto kept =
      static_cast<double>(::autopar::evaluate(one.problem->graph(), found->choice).peakBytes);
  double missing = kept - static_cast<double>(limit),
         freed = kept - static_cast<double>(found->peakBytes);
  double share = missing <= 0 ? 0 : std::min(1.0, missing / freed);
  found->stepUs = keptUs + share * (found->stepUs - keptUs);
  found->again = what;
  return found;
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
    one.status = solveUnlimited(one);
    if (!one.status.isOk() || one.found.stepUs >= options.boundUs)
      one.problem.reset();
  });
  std::vector<std::pair<double, size_t>> order; // of equally fast meshes the one with fewer axes
  for (auto [index, one] : llvm::enumerate(candidates))
    order.emplace_back(one.found.stepUs, index);
  llvm::sort(order);
  if (options.leastUs && !order.empty())
    *options.leastUs = order.front().first;
  Candidate *best = nullptr;
  Status problem = Status::badInput("nothing is faster than what is known");
  for (auto [unlimitedUs, index] : order) {
    Candidate &one = candidates[index];
    double bound = best ? best->found.stepUs : options.boundUs;
    if (!one.status.isOk() || unlimitedUs >= bound) {
      if (!one.status.isOk() && !best)
        problem = one.status;
      break; // those after it are no faster
    }
    if (one.found.peakBytes > limit)
      one.status = solveLimited(one);
    if (!one.status.isOk())
      problem = one.status;
    else if (one.found.stepUs < bound)
      best = &one;
  }
  if (!best)
    return problem;
  const Found &chosen = best->found;
  StageEstimate estimate{chosen.stepUs, best->problem->toPlan(chosen.choice), chosen.again};
  estimate.plan.believed.peakBytes = {chosen.peakBytes};
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
