// SPDX-License-Identifier: Apache-2.0
// The function is cut as a chain, stages on devices that are alike get the mesh that is fastest for
// the slowest of them, and where meshes turn out not to be as fast as the cut took them for, it is
// made again.
#include "autopar/Transforms/StageEstimate.h"

#include "ForwardChain.h"
#include "MeshSolver.h"
#include "Stages/OpsOfStages.h"
#include "Stages/StagePhases.h"

#include <map>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Mesh;
using ::autopar::Result;
using ::autopar::Status;

namespace {

/// Equal stages whose slowest takes this much longer than their mean are balanced.
constexpr double kBalanced = 1.03;
/// Of a step of equal stages, what others have to be faster than.
constexpr double kWorth = 0.98;

class Estimator {
public:
  Estimator(func::FuncOp function, const ::autopar::Cluster &cluster,
            const StageEstimateOptions &options)
      : function(function), cluster(cluster), options(options) {}

  Result<StageEstimate> run();

private:
  std::vector<ChainMesh> equalMeshes() const;
  Result<ChainCut> cutGiven() const;
  void scaleMemory(std::vector<ChainMesh> &meshes) const;
  Status cutChain();
  Result<ChainCut> shareDevices() const;
  std::vector<StageGroup> groupsOf(const ChainCut &own) const;
  double stepUs(ArrayRef<StageGroup> groups, ArrayRef<MeshSolver::Best> best) const;
  void keepPace(std::vector<StageGroup> &groups, ArrayRef<MeshSolver::Best> best);

  func::FuncOp function;
  const ::autopar::Cluster &cluster;
  const StageEstimateOptions &options;
  ::autopar::Schedule schedule;
  std::optional<OpsOfStages> ops;
  std::optional<ForwardChain> chain; ///< of several stages
  ::autopar::Schedule table;         ///< of them
  ChainCut cut;
};

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
  auto choose = [&](MeshSizes sizes) {
    return chain->choose(options.memoryLimit, table, sizes, options.memoryShare);
  };
  auto found = choose(isAny ? MeshSizes::Any : MeshSizes::Parts);
  if (!found)
    return found.status();
  if (equal && found->missingBytes >= equal->missingBytes && found->timeUs > kWorth * equal->timeUs)
    return Status::badInput("equal stages are as fast");
  if (isAny) {
    auto parts = choose(MeshSizes::Parts);
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
std::vector<StageGroup> Estimator::groupsOf(const ChainCut &own) const {
  std::vector<StageGroup> groups;
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
      StageGroup &group = groups.emplace_back();
      group.largestShare = group.share = group.waiting = 0;
      group.limit = mesh.memoryBytes;
    }
    StageGroup &group = groups[it->second];
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

double Estimator::stepUs(ArrayRef<StageGroup> groups, ArrayRef<MeshSolver::Best> best) const {
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

/// Cuts again where meshes take as long as was found, if that is faster.
void Estimator::keepPace(std::vector<StageGroup> &groups, ArrayRef<MeshSolver::Best> best) {
  std::vector<ChainMesh> meshes = cut.meshes;
  auto parts = static_cast<double>(schedule.microBatches);
  for (auto [group, one] : llvm::zip_equal(groups, best))
    for (size_t stage : group.stages)
      meshes[stage].pace = one.found.eachUs / parts / cut.wholeUs[stage];
  Result<ChainCut> found = chain->cut(meshes, table);
  if (!found || found->missingBytes > cut.missingBytes)
    return;
  std::vector<StageGroup> again = groupsOf(*found);
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
  AUTOPAR_RETURN_IF_ERROR(cutChain());
  MeshSolver solver(function, cluster, options, schedule, **found, cut.messagesUs);
  std::vector<StageGroup> groups = groupsOf(cut);
  std::vector<MeshSolver::Best> best;
  for (auto [number, group] : llvm::enumerate(groups)) {
    Result<MeshSolver::Best> one = solver.solve(number, group);
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
    const MeshSolver::Best &one = best[number];
    if (one.found.stepUs > best[slowest].found.stepUs)
      slowest = number;
    estimate.again = std::max(estimate.again, one.found.again);
    for (size_t stage : group.stages) {
      Mesh &mesh = estimate.meshes[stage] = one.mesh;
      mesh.devices.assign(cut.meshes[stage].devices.begin(), cut.meshes[stage].devices.end());
    }
  }
  const MeshSolver::Best &chosen = best[slowest];
  auto problem = solver.makeProblem(groups[slowest], chosen.mesh, ComputesAgain::Nothing);
  if (!problem)
    return problem.status();
  estimate.plan = (*problem)->toPlan(chosen.found.choice);
  estimate.plan.believed.peakBytes = {chosen.found.peakBytes};
  return estimate;
}

} // namespace

Result<StageEstimate> mlir::autopar::estimateStages(func::FuncOp function,
                                                    const ::autopar::Cluster &cluster,
                                                    const StageEstimateOptions &options) {
  return Estimator(function, cluster, options).run();
}
