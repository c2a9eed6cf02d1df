// SPDX-License-Identifier: Apache-2.0
// Every mesh is first solved without a memory limit, which is fast and never slower than with one:
// meshes are then solved under the limit, as they are and with what may be computed again, in that
// order, until the next one cannot win.
#include "autopar/Transforms/StageEstimate.h"

#include "ForwardChain.h"
#include "MeshCandidates.h"
#include "SearchConstraints.h"
#include "ShardingProblem.h"
#include "Stages/OpsOfStages.h"
#include "Stages/StagePhases.h"
#include "autopar/Planner/SearchEngine.h"
#include "mlir/IR/Threading.h"

#include <array>
#include <map>
#include <mutex>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Mesh;
using ::autopar::Result;
using ::autopar::Status;

namespace {

/// A mesh's sharding.
struct Found {
  std::vector<int32_t> choice;
  double onceUs = 0, eachUs = 0;                           ///< of the whole function
  double againUs = 0;                                      ///< of both: what is computed again
  double stepUs = std::numeric_limits<double>::infinity(); ///< if no other group took any time
  int64_t peakBytes = 0;
  ComputesAgain again = ComputesAgain::Nothing;
};

struct SolvedMesh {
  Found found;            ///< without a limit
  int64_t leastBytes = 0; ///< that a choice holds
  Status status;
  std::optional<Result<Found>> limited; ///< none: not yet asked for
  bool isTight = false;                 ///< `limited` is as fast as lower limits make it
};

} // namespace

namespace mlir::autopar {
struct SolvedMeshes {
  std::map<std::pair<size_t, std::string>, SolvedMesh> meshes; ///< by group of stages and shape
};
} // namespace mlir::autopar

namespace {

/// What is searched per mesh, in the units of SearchOptions.
constexpr int64_t kWorkUnits = 60;
/// Equal stages whose slowest takes this much longer than their mean are balanced.
constexpr double kBalanced = 1.03;
/// Of a step of equal stages, what others have to be faster than.
constexpr double kWorth = 0.98;
/// In times of the limit: up to this, what every choice holds may fit all the same.
constexpr double kRough = 1.5;

class Estimator {
public:
  Estimator(func::FuncOp function, const ::autopar::Cluster &cluster,
            const StageEstimateOptions &options)
      : function(function), outline(function), cluster(cluster), options(options),
        solved(options.solved ? options.solved : makeSolvedMeshes()) {}

  Result<StageEstimate> run();

private:
  /// Stages on as many devices of the same type; the slowest stands for all of them.
  struct Group {
    std::vector<int64_t> devices; ///< of the slowest
    SmallVector<size_t> stages;
    double largestShare = 1, share = 1; ///< of all work: the slowest's, and of all together
    double waiting = 1; ///< of all work, that of the stage that holds the most micro-batches of it
    int64_t limit = 0;  ///< bytes per device
  };
  struct Candidate {
    Mesh mesh;
    SolvedMesh *solved = nullptr;
    bool isNew = false; ///< not yet solved
    Found found;
  };

  std::vector<ChainMesh> equalMeshes() const;
  Result<ChainCut> cutGiven() const;
  void scaleMemory(std::vector<ChainMesh> &meshes) const;
  Status cutChain();
  Result<ChainCut> shareDevices() const;
  std::vector<Group> groupsOf(const ChainCut &own) const;
  std::vector<Mesh> meshes(const Group &group) const;
  double stepUs(const Group &group, const Found &found) const;
  double stepUs(ArrayRef<Group> groups, ArrayRef<Candidate> best) const;
  const ComputedAgain *againOf(ComputesAgain what) const; ///< null: of nothing
  Result<std::unique_ptr<ShardingProblem>> makeProblem(const Group &group, const Mesh &mesh,
                                                       ComputesAgain what) const;
  Result<Found> search(const Group &group, ShardingProblem &problem, int64_t searchLimit,
                       bool unfolds = true) const;
  SolvedMesh solveUnlimited(const Group &group, const Mesh &mesh) const;
  Result<Found> solveLimited(const Group &group, const Mesh &mesh) const;
  Result<Found> searchRecomputed(const Group &group, ShardingProblem &problem,
                                 ShardingProblem &keptProblem, ComputesAgain what,
                                 double limitShare, bool unfolds) const;
  Status tighten(const Group &group, const Mesh &mesh, Found &best) const;
  Result<Candidate> solve(size_t number, const Group &group) const;
  void keepPace(std::vector<Group> &groups, ArrayRef<Candidate> best);

  func::FuncOp function;
  StepOutline outline;
  const ::autopar::Cluster &cluster;
  const StageEstimateOptions &options;
  std::shared_ptr<SolvedMeshes> solved;
  ::autopar::Schedule schedule;
  const ::autopar::SearchEngine *engine = nullptr;
  std::optional<OpsOfStages> ops;
  std::optional<ForwardChain> chain; ///< of several stages
  ::autopar::Schedule table;         ///< of them
  ChainCut cut;
  /// By what is computed again, made when it is asked for.
  mutable std::array<std::optional<ComputedAgain>, 3> again;
  mutable std::array<std::once_flag, 3> isMade;
};

std::vector<Mesh> Estimator::meshes(const Group &group) const {
  if (options.shares == DeviceShares::Given) {
    Mesh mesh = Mesh::over("mesh", options.constraints.meshes()[group.stages.front()]);
    mesh.devices = group.devices;
    return {std::move(mesh)};
  }
  if (std::vector<::autopar::MeshAxis> axes = options.constraints.mesh(); !axes.empty())
    return {Mesh::over("mesh", axes)};
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
double Estimator::stepUs(const Group &group, const Found &found) const {
  auto parts = static_cast<double>(schedule.microBatches);
  if (parts == 1) // one stage after the other
    return found.onceUs * group.share + cut.messagesUs;
  return found.onceUs / static_cast<double>(options.stages) +
         found.eachUs / parts *
             (parts * group.largestShare + options.bubble * (group.share - group.largestShare)) +
         cut.messagesUs;
}

double Estimator::stepUs(ArrayRef<Group> groups, ArrayRef<Candidate> best) const {
  auto parts = static_cast<double>(schedule.microBatches);
  double once = 0, slowest = 0, all = 0, inOrder = 0;
  for (auto [group, one] : llvm::zip_equal(groups, best)) {
    once = std::max(once, one.found.onceUs);
    inOrder += one.found.onceUs * group.share;
    slowest = std::max(slowest, one.found.eachUs / parts * group.largestShare);
    all += one.found.eachUs / parts * group.share;
  }
  if (parts == 1)
    return inOrder + cut.messagesUs;
  return once / static_cast<double>(options.stages) + parts * slowest +
         options.bubble * (all - slowest) + cut.messagesUs;
}

const ComputedAgain *Estimator::againOf(ComputesAgain what) const {
  if (what == ComputesAgain::Nothing)
    return nullptr;
  auto index = static_cast<size_t>(what);
  std::call_once(isMade[index],
                 [&] { again[index].emplace(outline, cluster.typeOfDevice(0), what); });
  return &*again[index];
}

Result<std::unique_ptr<ShardingProblem>>
Estimator::makeProblem(const Group &group, const Mesh &mesh, ComputesAgain what) const {
  auto problem = std::make_unique<ShardingProblem>(outline, schedule, std::vector<Mesh>{mesh},
                                                   cluster, group.waiting / group.largestShare,
                                                   group.largestShare, againOf(what));
  AUTOPAR_RETURN_IF_ERROR(problem->status());
  AUTOPAR_RETURN_IF_ERROR(constrain(*problem, options.constraints));
  return problem;
}

Result<Found> Estimator::search(const Group &group, ShardingProblem &problem, int64_t searchLimit,
                                bool unfolds) const {
  problem.graph().memoryLimitBytes = searchLimit;
  ::autopar::SearchOptions search;
  search.seed = options.seed;
  search.workUnits = kWorkUnits;
  search.rough = true;
  search.bounds = false;
  search.unfolds = unfolds;
  Result<::autopar::Solution> solution = engine->search(problem.graph(), search);
  if (!solution)
    return solution.status();
  Found found;
  found.choice = std::move(solution->choice);
  found.peakBytes = solution->peakBytes;
  std::tie(found.onceUs, found.eachUs) = problem.onceAndEachUs(found.choice);
  found.stepUs = stepUs(group, found);
  return found;
}

/// What can never fit is not searched. What a stage holds, and a program needs of it, is a guess.
SolvedMesh Estimator::solveUnlimited(const Group &group, const Mesh &mesh) const {
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
  Result<Found> found = search(group, **problem, 0);
  if (found)
    solved.found = found.take();
  else
    solved.status = found.status();
  return solved;
}

/// The fastest that fits. Layers are searched one by one where none of the ways has a solution of
/// equal ones: what fits only so is far slower than what computes more again.
Result<Found> Estimator::solveLimited(const Group &group, const Mesh &mesh) const {
  auto kept = makeProblem(group, mesh, ComputesAgain::Nothing);
  if (!kept)
    return kept.status();
  for (bool unfolds : {false, true}) {
    Result<Found> best = search(group, **kept, group.limit, unfolds);
    for (ComputesAgain what : {ComputesAgain::Cheap, ComputesAgain::Layers}) {
      if (!options.recomputes)
        break;
      auto problem = makeProblem(group, mesh, what);
      if (!problem)
        return problem.status();
      Result<Found> found =
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
Result<Found> Estimator::searchRecomputed(const Group &group, ShardingProblem &problem,
                                          ShardingProblem &keptProblem, ComputesAgain what,
                                          double limitShare, bool unfolds) const {
  auto limit = static_cast<double>(group.limit);
  Result<Found> found = search(group, problem, static_cast<int64_t>(limitShare * limit), unfolds);
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
Status Estimator::tighten(const Group &group, const Mesh &mesh, Found &best) const {
  auto kept = makeProblem(group, mesh, ComputesAgain::Nothing);
  auto problem = makeProblem(group, mesh, ComputesAgain::Layers);
  if (!kept || !problem)
    return kept ? problem.status() : kept.status();
  for (double share = kTighter;
       share >= kTightest && best.againUs > kDearAgain * (best.onceUs + best.eachUs);
       share *= kTighter) {
    Result<Found> found =
        searchRecomputed(group, **problem, **kept, ComputesAgain::Layers, share, false);
    if (!found || found->stepUs >= best.stepUs)
      break;
    best = found.take();
  }
  return Status::ok();
}

/// As the dynamic program shares them. BadInput where equal stages, or parts, are as good.
Result<ChainCut> Estimator::shareDevices() const {
  std::optional<ChainCut> equal;
  if (cluster.nodes.size() == 1 && cluster.deviceCount() % options.stages == 0) {
    auto found = chain->cut(equalMeshes(), table);
    if (!found)
      return found.status();
    equal = found.take();
    double slowest = *llvm::max_element(equal->shares);
    if (slowest * static_cast<double>(options.stages) < kBalanced)
      return Status::badInput("equal stages are balanced");
  }
  bool isAny = options.shares == DeviceShares::Any;
  auto found = chain->choose(options.memoryLimit, table, isAny ? MeshSizes::Any : MeshSizes::Parts);
  if (!found)
    return found.status();
  if (equal && found->missingBytes >= equal->missingBytes && found->timeUs > kWorth * equal->timeUs)
    return Status::badInput("equal stages are as fast");
  scaleMemory(found->meshes);
  if (isAny) {
    auto parts = chain->choose(options.memoryLimit, table, MeshSizes::Parts);
    if (parts && parts->timeUs == found->timeUs)
      return Status::badInput("parts of nodes are as fast");
  }
  return found;
}

std::vector<ChainMesh> Estimator::equalMeshes() const {
  SmallVector<SmallVector<int64_t>> devices(options.stages);
  for (int64_t device = 0; device < cluster.deviceCount(); ++device)
    devices[device * options.stages / cluster.deviceCount()].push_back(device);
  std::vector<ChainMesh> meshes = chainMeshes(cluster, devices, options.memoryLimit);
  scaleMemory(meshes);
  return meshes;
}

Result<ChainCut> Estimator::cutGiven() const {
  SmallVector<SmallVector<int64_t>> devices;
  int64_t next = 0;
  for (const std::vector<::autopar::MeshAxis> &axes : options.constraints.meshes()) {
    int64_t count = Mesh::over("mesh", axes).deviceCount();
    devices.push_back(llvm::to_vector(llvm::seq(next, next + count)));
    next += count;
  }
  if (next != cluster.deviceCount())
    return Status::badInput("the meshes that are demanded have " + std::to_string(next) +
                            " devices together, the cluster has " +
                            std::to_string(cluster.deviceCount()));
  std::vector<ChainMesh> meshes = chainMeshes(cluster, devices, options.memoryLimit);
  scaleMemory(meshes);
  return chain->cut(meshes, table);
}

void Estimator::scaleMemory(std::vector<ChainMesh> &meshes) const {
  for (ChainMesh &mesh : meshes)
    mesh.memoryBytes =
        static_cast<int64_t>(options.memoryShare * static_cast<double>(mesh.memoryBytes));
}

Status Estimator::cutChain() {
  if (options.stages == 1) {
    cut.shares = {1};
    cut.meshes = equalMeshes();
    return Status::ok();
  }
  ops.emplace(function);
  if (static_cast<int64_t>(ops->forward.size()) < options.stages)
    return Status::badInput("has fewer operations than stages");
  bool trains = !ops->later.empty();
  auto rows = ::autopar::makeSchedule("1f1b", options.stages, options.stages, schedule.microBatches,
                                      trains);
  if (!rows)
    return rows.status();
  table = rows.take();
  bool isEqual = options.shares == DeviceShares::Equal;
  // What is short of memory here may yet be recomputed.
  chain.emplace(function, ops->forward, cluster, trains, !isEqual && options.recomputes);
  chain->cutRoughly();
  Result<ChainCut> found = isEqual ? chain->cut(equalMeshes(), table)
                           : options.shares == DeviceShares::Given ? cutGiven()
                                                                   : shareDevices();
  if (!found)
    return found.status();
  cut = found.take();
  return Status::ok();
}

/// In the order of their first stages.
std::vector<Estimator::Group> Estimator::groupsOf(const ChainCut &own) const {
  std::vector<Group> groups;
  std::map<std::tuple<const ::autopar::DeviceType *, size_t, int64_t, std::string>, size_t> numbers;
  std::vector<std::vector<::autopar::MeshAxis>> given;
  if (options.shares == DeviceShares::Given)
    given = options.constraints.meshes();
  for (auto [stage, mesh] : llvm::enumerate(own.meshes)) {
    std::vector<int64_t> devices(mesh.devices.begin(), mesh.devices.end());
    int64_t level = cluster.levelBetween(devices.front(), devices.back());
    std::string shape = given.empty() ? "" : ::autopar::shapeText(given[stage]);
    auto [it, isNew] = numbers.try_emplace(
        {&cluster.slowestOf(devices), devices.size(), level, std::move(shape)}, groups.size());
    double share = own.shares[stage];
    if (isNew) {
      Group &group = groups.emplace_back();
      group.largestShare = group.share = group.waiting = 0;
      group.limit = mesh.memoryBytes;
    }
    Group &group = groups[it->second];
    if (share > group.largestShare) {
      group.largestShare = share;
      group.devices = devices;
    }
    group.share += share;
    group.stages.push_back(stage);
    // The first stage has the most micro-batches in flight, the slowest the most of each.
    int64_t behind = options.stages - static_cast<int64_t>(stage);
    group.waiting =
        std::max(group.waiting, share * std::min<double>(behind, schedule.microBatches));
  }
  return groups;
}

/// The fastest mesh for which something fits.
Result<Estimator::Candidate> Estimator::solve(size_t number, const Group &group) const {
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
      std::optional<Result<Found>> &limited = one.solved->limited;
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
  return best ? Result<Candidate>(std::move(*best)) : problem;
}

/// Cuts again where meshes take as long as was found, if that is faster.
void Estimator::keepPace(std::vector<Group> &groups, ArrayRef<Candidate> best) {
  std::vector<ChainMesh> meshes = cut.meshes;
  auto parts = static_cast<double>(schedule.microBatches);
  for (auto [group, one] : llvm::zip_equal(groups, best))
    for (size_t stage : group.stages)
      meshes[stage].pace = one.found.eachUs / parts / cut.wholeUs[stage];
  Result<ChainCut> found = chain->cut(meshes, table);
  if (!found || found->missingBytes > cut.missingBytes)
    return;
  std::vector<Group> again = groupsOf(*found);
  double before = stepUs(groups, best);
  double messagesUs = std::exchange(cut.messagesUs, found->messagesUs);
  if (stepUs(again, best) >= before) {
    cut.messagesUs = messagesUs;
    return;
  }
  groups = std::move(again);
  cut = found.take();
}

Result<StageEstimate> Estimator::run() {
  Result<::autopar::Schedule> own = scheduleOf(function);
  if (!own)
    return own.status();
  schedule = own.take();
  Result<const ::autopar::SearchEngine *> found = ::autopar::findSearchEngine(options.engine);
  if (!found)
    return found.status();
  engine = *found;
  AUTOPAR_RETURN_IF_ERROR(cutChain());
  std::vector<Group> groups = groupsOf(cut);
  std::vector<Candidate> best;
  for (auto [number, group] : llvm::enumerate(groups)) {
    Result<Candidate> one = solve(number, group);
    if (!one)
      return one.status();
    best.push_back(one.take());
  }
  if (groups.size() > 1 && schedule.microBatches > 1)
    keepPace(groups, best);
  StageEstimate estimate;
  estimate.stepUs = stepUs(groups, best);
  if (estimate.stepUs >= std::max(options.boundUs, options.nearUs)) {
    if (options.leastUs)
      *options.leastUs = estimate.stepUs;
    return Status::badInput("nothing is faster than what is known");
  }
  estimate.meshes.resize(cut.meshes.size());
  if (groups.size() > 1)
    for (const ChainMesh &mesh : cut.meshes)
      estimate.paces.push_back(mesh.pace);
  size_t slowest = 0;
  for (auto [number, group] : llvm::enumerate(groups)) {
    const Candidate &one = best[number];
    if (one.found.stepUs > best[slowest].found.stepUs)
      slowest = number;
    estimate.again = std::max(estimate.again, one.found.again);
    for (size_t stage : group.stages) {
      Mesh &mesh = estimate.meshes[stage] = one.mesh;
      mesh.devices.assign(cut.meshes[stage].devices.begin(), cut.meshes[stage].devices.end());
    }
  }
  const Candidate &chosen = best[slowest];
  auto problem = makeProblem(groups[slowest], chosen.mesh, ComputesAgain::Nothing);
  if (!problem)
    return problem.status();
  estimate.plan = (*problem)->toPlan(chosen.found.choice);
  estimate.plan.believed.peakBytes = {chosen.found.peakBytes};
  return estimate;
}

} // namespace

std::shared_ptr<SolvedMeshes> mlir::autopar::makeSolvedMeshes() {
  return std::make_shared<SolvedMeshes>();
}

Result<StageEstimate> mlir::autopar::estimateStages(func::FuncOp function,
                                                    const ::autopar::Cluster &cluster,
                                                    const StageEstimateOptions &options) {
  return Estimator(function, cluster, options).run();
}
