// SPDX-License-Identifier: Apache-2.0
// The pass autopar-search: for every mesh that fits the cluster, a cost graph and a solution; the
// cheapest one becomes the plan. The IR is only read.
#include "Cost/ModuleCluster.h"
#include "DescribeChoice.h"
#include "KeptProblems.h"
#include "MeshCandidates.h"
#include "SearchConstraints.h"
#include "ShardingProblem.h"
#include "Stages/StagePhases.h"
#include "autopar/Base/Utf8.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Planner/RandomChoice.h"
#include "autopar/Planner/SearchEngine.h"
#include "autopar/Transforms/SearchHandoff.h"
#include "autopar/Transforms/StageEstimate.h"
#include "mlir/IR/Threading.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <mutex>
#include <thread>

namespace mlir::autopar {
#define GEN_PASS_DEF_SEARCHPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Mesh;

/// "data=4,tensor=2"
static FailureOr<Mesh> parseMesh(StringRef text, Operation *op) {
  std::vector<::autopar::MeshAxis> axes;
  SmallVector<StringRef> parts;
  text.split(parts, ',');
  int64_t ranks = 1;
  for (StringRef part : parts) {
    auto [name, size] = part.split('=');
    int64_t extent;
    if (name.empty() || !::autopar::isUtf8(name) || size.getAsInteger(10, extent) || extent < 1)
      return op->emitError() << "mesh \"" << text << "\": expected name=size, got \"" << part
                             << "\"";
    if (extent > ::autopar::kMostDevices / ranks)
      return op->emitError() << "mesh \"" << text << "\": expected at most "
                             << ::autopar::kMostDevices << " ranks";
    ranks *= extent;
    axes.push_back({name.str(), extent});
  }
  return Mesh::over("mesh", axes);
}

namespace {

/// From a start there is less to search.
constexpr int64_t kUnitsFromStart = 25;

struct SearchPass : mlir::autopar::impl::SearchPassBase<SearchPass> {
  using Base::Base;
  SearchPass(const SearchPassOptions &options, SearchHandoff &handoff)
      : Base(options), handoff(&handoff) {}

  void runOnOperation() override {
    if (failed(search()))
      signalPassFailure();
  }

private:
  int64_t workUnits = 0; ///< per mesh
  int threads = 1;       ///< per mesh
  int64_t limit = 0;     ///< bytes per device
  ::autopar::Schedule schedule;
  ::autopar::Constraints demands;
  std::optional<ComputedAgain> again;
  SearchHandoff *handoff = nullptr;

  FailureOr<Cluster> readCluster() {
    ::autopar::Result<Cluster> result = clusterOf(getOperation(), cluster);
    if (!result)
      return emitError(getOperation().getLoc()) << result.status().message();
    return result.take();
  }

  /// A choice of meshes: one for each that stages take turns on.
  using Meshes = std::vector<Mesh>;

  /// The devices of `mesh` are numbers of `devices`.
  static Mesh onDevices(Mesh mesh, ArrayRef<int64_t> devices) {
    for (int64_t &device : mesh.devices)
      device = devices[device];
    return mesh;
  }

  /// Every mesh that stages take turns on has devices, and the cluster has these.
  LogicalResult verifyDevices(func::FuncOp function, ArrayRef<SmallVector<int64_t>> meshes,
                              int64_t count) {
    if (static_cast<int64_t>(meshes.size()) != schedule.meshes)
      return function.emitOpError() << "'" << kStageDevicesAttribute << "' has the devices of "
                                    << meshes.size() << " meshes; expected " << schedule.meshes;
    for (ArrayRef<int64_t> devices : meshes) {
      if (devices.empty())
        return function.emitOpError() << "has " << meshes.size() << " stage meshes on " << count
                                      << " devices; expected at least one device for each";
      for (int64_t device : devices)
        if (device >= count)
          return function.emitOpError() << "'" << kStageDevicesAttribute << "' names device "
                                        << device << ", the cluster has " << count;
    }
    return success();
  }

  FailureOr<SmallVector<Meshes>> readMeshes(const Cluster &machine, func::FuncOp function) {
    SmallVector<SmallVector<int64_t>> devices = stageDevices(function, machine.deviceCount());
    if (failed(verifyDevices(function, devices, machine.deviceCount())))
      return failure();
    if (!meshShape.empty())
      return parseMeshes(devices);
    SmallVector<Meshes> found;
    bool isEqual = llvm::all_of(
        devices, [&](const auto &own) { return own.size() == devices.front().size(); });
    if (!isEqual)
      return unequalMeshes(machine, devices);
    for (const Mesh &mesh : meshCandidates(machine, devices.front().size())) {
      Meshes &one = found.emplace_back();
      for (ArrayRef<int64_t> own : devices)
        one.push_back(onDevices(mesh, own));
    }
    return found;
  }

  /// "data=2": of all stages; "data=1/data=2,tensor=2": of each.
  FailureOr<SmallVector<Meshes>> parseMeshes(ArrayRef<SmallVector<int64_t>> devices) {
    SmallVector<StringRef> texts;
    StringRef(meshShape).split(texts, '/');
    if (texts.size() == 1)
      texts.resize(devices.size(), texts.front());
    if (texts.size() != devices.size())
      return emitError(getOperation().getLoc())
             << "mesh \"" << meshShape << "\" is " << texts.size() << " meshes, the stages have "
             << devices.size();
    ::autopar::Plan shapes; // axes that only some of them have are of size 1 for the others
    for (auto [text, own] : llvm::zip_equal(texts, devices)) {
      FailureOr<Mesh> mesh = parseMesh(text, getOperation());
      if (failed(mesh))
        return failure();
      if (mesh->deviceCount() != static_cast<int64_t>(own.size()))
        return emitError(getOperation().getLoc())
               << "mesh \"" << text << "\" has " << mesh->deviceCount() << " ranks, "
               << (schedule.meshes > 1 ? "a stage" : "the cluster") << " has " << own.size();
      shapes.meshes.push_back(onDevices(*mesh, own));
      if (schedule.meshes > 1)
        shapes.meshes.back().name = "m" + std::to_string(shapes.meshes.size() - 1);
      shapes.stages.push_back({"", shapes.meshes.back().name, {}});
    }
    ::autopar::Result<Meshes> meshes = shapes.stageMeshes();
    if (!meshes)
      return emitError(getOperation().getLoc()) << "mesh: " << meshes.status().message();
    return SmallVector<Meshes>{meshes.take()};
  }

  /// Meshes of two axes; the inner one is of one size wherever that divides a mesh.
  static SmallVector<Meshes> unequalMeshes(const Cluster &machine,
                                           ArrayRef<SmallVector<int64_t>> devices) {
    std::set<int64_t> inner;
    for (ArrayRef<int64_t> own : devices)
      for (int64_t size = 1; size <= static_cast<int64_t>(own.size()); ++size)
        if (own.size() % size == 0)
          inner.insert(size);
    SmallVector<Meshes> found;
    for (int64_t size : inner) {
      Meshes &one = found.emplace_back();
      for (ArrayRef<int64_t> own : devices) {
        int64_t count = own.size(), fits = count % size == 0 ? size : 1;
        one.push_back(onDevices(Mesh::over("mesh", {{"x", count / fits}, {"y", fits}}), own));
      }
    }
    return found;
  }

  LogicalResult search() {
    ModuleOp module = getOperation();
    auto function = module.lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return emitError(module.getLoc(), "expected a function @main of one block to shard");
    if (failed(verifyWholeStep(function)))
      return failure();
    FailureOr<Cluster> machine = readCluster();
    if (failed(machine) || failed(readDemands()))
      return failure();
    if (!(waitedShare >= 0 && waitedShare <= 1))
      return emitError(module.getLoc())
             << "waited-share: expected a share from 0 to 1, got " << waitedShare;
    std::optional<ComputesAgain> what = computesAgainFromName(computesAgain);
    if (!what)
      return emitError(module.getLoc())
             << "computes-again: expected nothing, cheap or layers, got \"" << computesAgain
             << "\"";
    bool keeps = handoff && handoff->kept && *what == ComputesAgain::Nothing;
    KeptProblems own;
    KeptProblems &kept = (keeps ? *handoff->kept : own).of(function, std::move(*machine), madeOf());
    const StepOutline &outline = *kept.outline;
    ::autopar::Result<::autopar::Schedule> order =
        scheduleOf(function, outline.stages(), outline.microBatches(), outline.phases());
    if (!order)
      return function.emitOpError() << order.status().message();
    schedule = order.take();
    FailureOr<SmallVector<Meshes>> meshes = readMeshes(kept.cluster, function);
    if (failed(meshes))
      return failure();
    limit = memoryLimit ? int64_t(memoryLimit) : kept.cluster.mostUsableBytes();
    kept.problems.resize(meshes->size());
    if (*what != ComputesAgain::Nothing)
      again.emplace(outline, kept.cluster.typeOfDevice(0), *what);
    return searchOver(*meshes, kept, keeps);
  }

  /// What problems are made of beside the function.
  std::string madeOf() const {
    return llvm::formatv("{0};{1};{2};{3}", cluster.getValue(), meshShape.getValue(),
                         constraints.getValue(), memoryLimit.getValue())
        .str();
  }

  LogicalResult readDemands() {
    auto demanded = ::autopar::Constraints::parse("constraints", constraints);
    if (!demanded)
      return emitError(getOperation().getLoc()) << demanded.status().message();
    demands = demanded.take();
    if (::autopar::Status status = demands.checkOfShardings(); !status.isOk())
      return emitError(getOperation().getLoc()) << status.message();
    return success();
  }

  bool isUnlikely(size_t mesh, size_t meshes) const {
    if (!handoff || handoff->knownMeshUs.size() != meshes)
      return false;
    const std::vector<double> &us = handoff->knownMeshUs;
    return us[mesh] >= kUnlikely * *llvm::min_element(us);
  }

  /// Delivers the best choice of all meshes; of the first one where several are as good. `keeps`:
  /// problems of meshes that may be the best where others are waited for stay.
  LogicalResult searchOver(ArrayRef<Meshes> meshes, KeptProblems &kept, bool keeps) {
    const StepOutline &outline = *kept.outline;
    const Cluster &machine = kept.cluster;
    // One budget for all meshes: a cluster of many shapes is searched no longer than one of few.
    workUnits = std::max<int64_t>(100, 1500 / static_cast<int64_t>(meshes.size()));
    // Meshes are independent; the threads that they leave idle go to the engine.
    unsigned cores = getContext().isMultithreadingEnabled()
                         ? std::max(1u, std::thread::hardware_concurrency())
                         : 1;
    threads = std::max<size_t>(1, cores / meshes.size());
    std::vector<::autopar::Status> problems(meshes.size());
    std::vector<int64_t> leastBytes(meshes.size(), std::numeric_limits<int64_t>::max());
    std::vector<double> stepUs(meshes.size(), std::numeric_limits<double>::infinity());
    std::optional<Found> best;
    size_t bestMesh = 0;
    std::mutex mutex;
    // Those that are on unlikely meshes are not asked again.
    bool keepsAll = keeps && !handoff->knownMeshUs.empty();
    auto dropOthers = [&] {
      double least = *llvm::min_element(stepUs);
      for (auto [i, us] : llvm::enumerate(stepUs))
        if (i != bestMesh && std::isfinite(us) && (!keeps || us >= kUnlikely * least) && !keepsAll)
          kept.problems[i].reset();
    };
    // The last ones have the most axes and take longest: begun first, so that nobody waits for one.
    parallelFor(&getContext(), 0, meshes.size(), [&](size_t number) {
      size_t i = meshes.size() - 1 - number;
      if (isUnlikely(i, meshes.size()))
        return;
      ::autopar::Result<Found> found =
          solve(outline, meshes[i], machine, leastBytes[i], kept.problems[i]);
      if (!found) {
        problems[i] = found.status();
        kept.problems[i].reset();
        return;
      }
      std::lock_guard lock(mutex);
      stepUs[i] = found->stepUs;
      if (!best || std::pair(found->stepUs, i) <= std::pair(best->stepUs, bestMesh)) {
        best = found.take();
        bestMesh = i;
      }
      dropOthers();
    });
    if (best && handoff)
      handoff->meshUs = std::move(stepUs);
    if (best)
      return deliver(*best, kept.problems[bestMesh], keeps);
    size_t least = llvm::min_element(leastBytes) - leastBytes.begin();
    return explainFailure(outline, meshes[least], machine, problems[least], leastBytes[least]);
  }

  /// A mesh's choice.
  struct Found {
    ::autopar::Solution solution;
    double stepUs = 0;
  };

  /// `keeps`: who takes the plan may ask later for what is to be said of it.
  LogicalResult deliver(const Found &found, std::shared_ptr<ShardingProblem> made, bool keeps) {
    ModuleOp module = getOperation();
    ShardingProblem &problem = *made;
    const ::autopar::Solution &solution = found.solution;
    ::autopar::Plan plan = problem.toPlan(solution.choice);
    plan.believed.stepUs = found.stepUs;
    plan.believed.engine = solution.engine;
    if (engine != "random") {
      // The bound is one of the sum over all stages.
      plan.believed.lowerBoundUs = problem.hasStages() ? 0 : solution.lowerBoundUs;
      plan.believed.peakBytes = {solution.peakBytes};
      plan.believed.stoppedBy = std::string(::autopar::name(solution.stoppedBy));
    }
    if (!planFile.empty())
      if (::autopar::Status status = plan.save(planFile); !status.isOk())
        return emitError(module.getLoc()) << status.message();
    if (!handoff) {
      module->setAttr("autopar.plan", StringAttr::get(module.getContext(), plan.toJson()));
      return success();
    }
    handoff->describe = [made, kept = handoff->kept, choice = solution.choice] {
      made->wait(0); // others may have searched it meanwhile
      return describeChoice(*made, choice);
    };
    if (!keeps || problem.hasStages())
      if (::autopar::Status status = handoff->describeNow(); !status.isOk())
        return emitError(module.getLoc()) << status.message();
    handoff->plan = std::move(plan);
    handoff->waitedShare = problem.waitedShare();
    handoff->overlapsParts = problem.overlapsParts();
    return success();
  }

  /// What the step would take on the mesh that needs the least memory, if it had that much.
  LogicalResult explainFailure(const StepOutline &outline, const Meshes &meshes,
                               const Cluster &machine, const ::autopar::Status &problem,
                               int64_t leastBytes) {
    InFlightDiagnostic error = emitError(getOperation().getLoc())
                               << "no plan found: " << problem.message();
    if (!demands.empty())
      error << "; demanded is " << demands.toText();
    if (leastBytes == std::numeric_limits<int64_t>::max())
      return error;
    limit = leastBytes;
    std::shared_ptr<ShardingProblem> made;
    ::autopar::Result<Found> found = solve(outline, meshes, machine, leastBytes, made);
    if (!found)
      return error;
    return error << llvm::formatv("; with {0} bytes a step takes about {1:f1} ms on mesh {2}",
                                  found->solution.peakBytes, found->stepUs / 1e3,
                                  ::autopar::shapeText(meshes))
                        .str();
  }

  std::shared_ptr<ShardingProblem> makeProblem(const StepOutline &outline, const Meshes &meshes,
                                               const Cluster &machine,
                                               const ComputedAgain *recomputed, double waited) {
    auto problem = std::make_shared<ShardingProblem>(outline, schedule, meshes, machine, 1, 1.0,
                                                     recomputed, waited);
    problem->graph().memoryLimitBytes = limit;
    // A mesh of smaller devices has less of it.
    for (auto [number, mesh] : llvm::enumerate(meshes))
      if (int64_t usable = machine.usableBytes(mesh.devices); !memoryLimit && usable < limit)
        problem->reserve(number, limit - usable);
    return problem;
  }

  /// Makes the problem, or counts anew what a kept one waits for.
  ::autopar::Status pose(std::shared_ptr<ShardingProblem> &kept, const StepOutline &outline,
                         const Meshes &meshes, const Cluster &machine) {
    if (kept && !kept->overlapsParts()) {
      kept->wait(waitedShare);
      return ::autopar::Status::ok();
    }
    kept = makeProblem(outline, meshes, machine, again ? &*again : nullptr, waitedShare);
    AUTOPAR_RETURN_IF_ERROR(kept->status());
    return constrain(*kept, demands);
  }

  /// `leastBytes` gets the least memory of a choice that was found, where nothing fits; `kept` what
  /// the choice is one of.
  ::autopar::Result<Found> solve(const StepOutline &outline, const Meshes &meshes,
                                 const Cluster &machine, int64_t &leastBytes,
                                 std::shared_ptr<ShardingProblem> &kept) {
    Found found;
    AUTOPAR_RETURN_IF_ERROR(pose(kept, outline, meshes, machine));
    const ShardingProblem &problem = *kept;
    if (engine == "random") {
      ::autopar::Result<std::vector<int32_t>> choice = ::autopar::drawChoice(problem.graph(), seed);
      if (!choice)
        return choice.status();
      found.solution.choice = choice.take();
      found.solution.engine = "random";
      return timed(std::move(found), *kept);
    }
    ::autopar::Result<const ::autopar::SearchEngine *> method = ::autopar::findSearchEngine(engine);
    if (!method)
      return method.status();
    ::autopar::SearchOptions options;
    options.seed = seed;
    options.threads = threads;
    options.workUnits = workUnits;
    options.bounds = !problem.hasStages() && !again && waitedShare == 0; // else it is dropped
    if (handoff && handoff->start) {
      options.start = problem.choiceOf(*handoff->start);
      options.workUnits = std::min(workUnits, kUnitsFromStart);
    }
    options.leastBytes = leastMemory ? &leastBytes : nullptr;
    ::autopar::Result<::autopar::Solution> solution = (*method)->search(problem.graph(), options);
    if (!solution)
      return solution.status();
    found.solution = solution.take();
    if (again || waitedShare > 0) { // what it is when nothing is, and by what computes
      if (again || kept->overlapsParts())
        kept = makeProblem(outline, meshes, machine, nullptr, 0);
      else
        kept->wait(0);
      found.solution.peakBytes =
          ::autopar::evaluate(kept->graph(), found.solution.choice).peakBytes;
      found.solution.lowerBoundUs = 0;
    }
    return timed(std::move(found), *kept);
  }

  static ::autopar::Result<Found> timed(Found found, const ShardingProblem &problem) {
    ::autopar::Result<double> stepUs = problem.stepUs(found.solution.choice);
    if (!stepUs)
      return stepUs.status();
    found.stepUs = *stepUs;
    return found;
  }
};

} // namespace

std::shared_ptr<KeptProblems> mlir::autopar::makeKeptProblems() {
  return std::make_shared<KeptProblems>();
}

std::unique_ptr<Pass> mlir::autopar::createSearchPass(const SearchPassOptions &options,
                                                      SearchHandoff &handoff) {
  return std::make_unique<SearchPass>(options, handoff);
}
