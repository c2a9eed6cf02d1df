// SPDX-License-Identifier: Apache-2.0
// Every mesh is first solved without a memory limit, which is fast and never slower than with one:
// meshes are then solved under the limit, as they are and with what may be computed again, in that
// order, until the next one cannot win.
#include "MeshSolver.h"

#include "MeshCandidates.h"
#include "SearchConstraints.h"

#include "mlir/IR/Threading.h"

#include <map>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Mesh;
using ::autopar::Result;
using ::autopar::Status;

namespace mlir::autopar {
struct SolvedMesh {
  FoundSharding found;    ///< without a limit
  int64_t leastBytes = 0; ///< that a choice holds
  Status status;
  std::optional<Result<FoundSharding>> limited; ///< none: not yet asked for
  bool isTight = false;                         ///< `limited` is as fast as lower limits make it
};

struct SolvedMeshes {
  std::map<std::pair<size_t, std::string>, SolvedMesh> meshes; ///< by group of stages and shape
};
} // namespace mlir::autopar

namespace {

/// What is searched per mesh, in the units of SearchOptions.
constexpr int64_t kWorkUnits = 60;
/// In times of the limit: up to this, what every choice holds may fit all the same.
constexpr double kRough = 1.5;

struct Candidate {
  Mesh mesh;
  SolvedMesh *solved = nullptr;
  bool isNew = false; ///< not yet solved
  FoundSharding found;
};

} // namespace

std::shared_ptr<SolvedMeshes> mlir::autopar::makeSolvedMeshes() {
  return std::make_shared<SolvedMeshes>();
}

MeshSolver::MeshSolver(func::FuncOp function, const ::autopar::Cluster &cluster,
                       const StageEstimateOptions &options, const ::autopar::Schedule &schedule,
                       const ::autopar::SearchEngine &engine, double messagesUs)
    : function(function), outline(function), cluster(cluster), options(options), schedule(schedule),
      engine(engine), messagesUs(messagesUs),
      solved(options.solved ? options.solved : makeSolvedMeshes()) {}

std::vector<Mesh> MeshSolver::meshes(const StageGroup &group) const {
  auto onGroup = [&](std::vector<::autopar::MeshAxis> axes) {
    Mesh mesh = Mesh::over("mesh", std::move(axes));
    mesh.devices = group.devices;
    return std::vector<Mesh>{std::move(mesh)};
  };
  if (options.shares == DeviceShares::Given)
    return onGroup(options.constraints.meshes()[group.stages.front()]);
  if (std::vector<::autopar::MeshAxis> axes = options.constraints.mesh(); !axes.empty())
    return onGroup(std::move(axes));
  auto devices = static_cast<int64_t>(group.devices.size());
  std::vector<Mesh> found;
  auto isNear = [&](const Mesh &mesh) {
    double ratio = static_cast<double>(innermost(mesh)) / static_cast<double>(options.near);
    return options.near == 0 || (ratio <= 2 && ratio >= 0.5);
  };
  for (Mesh &mesh : meshCandidates(cluster, devices))
    if (devices <= 16 || (mesh.axes.size() <= 2 && isNear(mesh)))
      found.push_back(std::move(mesh));
  for (Mesh &mesh : found)
    for (int64_t &device : mesh.devices)
      device = group.devices[device];
  return found;
}

/// The slowest stage sets the pace; under 1F1B it waits while the first micro-batch goes through
/// all others.
double MeshSolver::stepUs(const StageGroup &group, const FoundSharding &found) const {
  auto parts = static_cast<double>(schedule.microBatches);
  if (parts == 1) // one stage after the other
    return found.onceUs * group.share + messagesUs;
  return found.onceUs / static_cast<double>(options.stages) +
         found.eachUs / parts *
             (parts * group.largestShare + options.bubble * (group.share - group.largestShare)) +
         messagesUs;
}

const ComputedAgain *MeshSolver::againOf(ComputesAgain what) const {
  if (what == ComputesAgain::Nothing)
    return nullptr;
  auto index = static_cast<size_t>(what);
  std::call_once(isMade[index],
                 [&] { again[index].emplace(outline, cluster.typeOfDevice(0), what); });
  return &*again[index];
}

Result<std::unique_ptr<ShardingProblem>>
MeshSolver::makeProblem(const StageGroup &group, const Mesh &mesh, ComputesAgain what) const {
  auto problem = std::make_unique<ShardingProblem>(outline, schedule, std::vector<Mesh>{mesh},
                                                   cluster, group.waiting / group.largestShare,
                                                   group.largestShare, againOf(what));
  AUTOPAR_RETURN_IF_ERROR(problem->status());
  AUTOPAR_RETURN_IF_ERROR(constrain(*problem, options.constraints));
  return problem;
}

Result<FoundSharding> MeshSolver::search(const StageGroup &group, ShardingProblem &problem,
                                         int64_t searchLimit, bool unfolds) const {
  problem.graph().memoryLimitBytes = searchLimit;
  ::autopar::SearchOptions search;
  search.seed = options.seed;
  search.workUnits = kWorkUnits;
  search.rough = true;
  search.bounds = false;
  search.unfolds = unfolds;
  Result<::autopar::Solution> solution = engine.search(problem.graph(), search);
  if (!solution)
    return solution.status();
  FoundSharding found;
  found.choice = std::move(solution->choice);
  found.peakBytes = solution->peakBytes;
  std::tie(found.onceUs, found.eachUs) = problem.onceAndEachUs(found.choice);
  found.stepUs = stepUs(group, found);
  return found;
}

/// What can never fit is not searched. What a stage holds, and a program needs of it, is a guess.
SolvedMesh MeshSolver::solveUnlimited(const StageGroup &group, const Mesh &mesh) const {
  SolvedMesh solved;
  auto problem = makeProblem(group, mesh, ComputesAgain::Nothing);
  if (!problem) {
    solved.status = problem.status();
    return solved;
  }
  solved.leastBytes = ::autopar::fewestBytes((*problem)->graph());
  if (solved.leastBytes > group.limit && options.recomputes) {
    auto least = makeProblem(group, mesh, ComputesAgain::Layers);
    if (!least) {
      solved.status = least.status();
      return solved;
    }
    solved.leastBytes = ::autopar::fewestBytes((*least)->graph());
  }
  if (static_cast<double>(solved.leastBytes) > kRough * static_cast<double>(group.limit)) {
    solved.status = Status::badInput("no sharding fits");
    return solved;
  }
  Result<FoundSharding> found = search(group, **problem, 0);
  if (found)
    solved.found = found.take();
  else
    solved.status = found.status();
  return solved;
}

/// The fastest that fits. Layers are searched one by one where none of the ways has a solution of
/// equal ones: what fits only so is far slower than what computes more again.
Result<FoundSharding> MeshSolver::solveLimited(const StageGroup &group, const Mesh &mesh) const {
  auto kept = makeProblem(group, mesh, ComputesAgain::Nothing);
  if (!kept)
    return kept.status();
  for (bool unfolds : {false, true}) {
    Result<FoundSharding> best = search(group, **kept, group.limit, unfolds);
    for (ComputesAgain what : {ComputesAgain::Cheap, ComputesAgain::Layers}) {
      if (!options.recomputes)
        break;
      auto problem = makeProblem(group, mesh, what);
      if (!problem)
        return problem.status();
      Result<FoundSharding> found =
          searchRecomputed(group, **problem, **kept, what, /*limitShare=*/1, unfolds);
      if (found && (!best || found->stepUs < best->stepUs))
        best = std::move(found);
    }
    if (best || unfolds)
      return best;
  }
  llvm_unreachable("the last round returns");
}

/// Of what the sharding was searched with, the part that makes it fit is computed again: as if all
/// of it freed as much for its time.
Result<FoundSharding> MeshSolver::searchRecomputed(const StageGroup &group,
                                                   ShardingProblem &problem,
                                                   ShardingProblem &keptProblem, ComputesAgain what,
                                                   double limitShare, bool unfolds) const {
  auto limit = static_cast<double>(group.limit);
  Result<FoundSharding> found =
      search(group, problem, static_cast<int64_t>(limitShare * limit), unfolds);
  if (!found)
    return found;
  auto [onceUs, eachUs] = keptProblem.onceAndEachUs(found->choice);
  auto kept =
      static_cast<double>(::autopar::evaluate(keptProblem.graph(), found->choice).peakBytes);
  double missing = kept - limit, freed = kept - static_cast<double>(found->peakBytes);
  double share = missing <= 0 ? 0 : std::min(1.0, missing / freed);
  found->againUs = share * (found->onceUs - onceUs + found->eachUs - eachUs);
  found->onceUs = onceUs + share * (found->onceUs - onceUs);
  found->eachUs = eachUs + share * (found->eachUs - eachUs);
  found->stepUs = stepUs(group, *found);
  found->again = what;
  return found;
}

/// Where much is computed again, shardings that hold less may be faster, and the search of the
/// first saw no use in them: under lower and lower limits, while that pays.
Status MeshSolver::tighten(const StageGroup &group, const Mesh &mesh, FoundSharding &best) const {
  auto kept = makeProblem(group, mesh, ComputesAgain::Nothing);
  auto problem = makeProblem(group, mesh, ComputesAgain::Layers);
  if (!kept || !problem)
    return kept ? problem.status() : kept.status();
  for (double share = kTighter;
       share >= kTightest && best.againUs > kDearAgain * (best.onceUs + best.eachUs);
       share *= kTighter) {
    Result<FoundSharding> found =
        searchRecomputed(group, **problem, **kept, ComputesAgain::Layers, share, false);
    if (!found || found->stepUs >= best.stepUs)
      break;
    best = found.take();
  }
  return Status::ok();
}

Result<MeshSolver::Best> MeshSolver::solve(size_t number, const StageGroup &group) const {
  std::vector<Candidate> candidates;
  for (Mesh &mesh : meshes(group)) {
    auto [known, isNew] =
        solved->meshes.try_emplace({number, ::autopar::shapeText({mesh})}, SolvedMesh());
    candidates.push_back({std::move(mesh), &known->second, isNew, {}});
  }
  parallelFor(function->getContext(), 0, candidates.size(), [&](size_t i) {
    Candidate &one = candidates[i];
    if (one.isNew)
      *one.solved = solveUnlimited(group, one.mesh);
    one.found = one.solved->found;
  });
  int64_t leastBytes = std::numeric_limits<int64_t>::max();
  for (const Candidate &one : candidates)
    if (one.solved->leastBytes > group.limit)
      leastBytes = std::min(leastBytes, one.solved->leastBytes);
  if (leastBytes < std::numeric_limits<int64_t>::max() &&
      llvm::none_of(candidates, [](const Candidate &one) { return one.solved->status.isOk(); })) {
    if (options.leastBytes)
      *options.leastBytes = leastBytes;
    return Status::badInput("no sharding fits: a device holds about " + std::to_string(leastBytes) +
                            " bytes by the estimate");
  }
  std::vector<std::pair<double, size_t>> order; // of equally fast meshes the one with fewer axes
  for (auto [index, one] : llvm::enumerate(candidates))
    order.emplace_back(one.found.stepUs, index);
  llvm::sort(order);
  if (options.leastUs && !order.empty())
    *options.leastUs = std::isfinite(*options.leastUs)
                           ? std::max(*options.leastUs, order.front().first)
                           : order.front().first;
  Candidate *best = nullptr, *nearest = nullptr;
  Status problem = Status::badInput("nothing is faster than what is known");
  for (auto [unlimitedUs, index] : order) {
    Candidate &one = candidates[index];
    double most = best ? best->found.stepUs : std::max(options.boundUs, options.nearUs);
    if (!one.solved->status.isOk() || unlimitedUs >= most) {
      if (!one.solved->status.isOk() && !best)
        problem = one.solved->status;
      break; // those after it are no faster
    }
    bool fits = one.found.peakBytes <= group.limit;
    double bound = best || fits ? most : options.boundUs;
    if (unlimitedUs >= bound)
      continue;
    Status status;
    if (!fits) {
      std::optional<Result<FoundSharding>> &limited = one.solved->limited;
      if (!limited)
        limited = solveLimited(group, one.mesh);
      status = limited->status();
      if (status.isOk())
        one.found = **limited;
    }
    if (status.isOk()) {
      if (!nearest || one.found.stepUs < nearest->found.stepUs)
        nearest = &one;
      if (one.found.stepUs < bound)
        best = &one;
      continue;
    }
    problem = status;
    if (options.unfitUs)
      *options.unfitUs = std::min(*options.unfitUs, unlimitedUs);
  }
  if (nearest && nearest->found.againUs > 0) {
    if (!std::exchange(nearest->solved->isTight, true))
      AUTOPAR_RETURN_IF_ERROR(tighten(group, nearest->mesh, **nearest->solved->limited));
    nearest->found = **nearest->solved->limited;
    if (nearest->found.stepUs < (best ? best->found.stepUs : options.boundUs))
      best = nearest;
  }
  if (!best)
    return problem;
  return Best{std::move(best->mesh), std::move(best->found)};
}
