// SPDX-License-Identifier: Apache-2.0
// Times, bytes at every place, and the places worth asking the dynamic program about. Work and
// memory of a stage are taken to be shared evenly by its devices: no sharding needs less, so a cut
// that does not fit here never fits.
#include "ForwardChain.h"

#include "Cost/OpTime.h"
#include "Cost/StepOutline.h"
#include "Stages/OpsOfStages.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Planner/StageCut.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/Sharding.h"

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Result;
using ::autopar::Schedule;

/// Devices of a type beyond which sub-meshes are whole nodes, or equal parts of one.
static constexpr int64_t kAllSizes = 16;
/// What part of the devices of a type the smallest mesh has where sizes are parts.
static constexpr int64_t kMostParts = 16;
/// Of its work, what a stage takes at the least, however little is said to be beside it.
static constexpr double kLeastOfWork = 0.1;
/// Of a stage's work, what it may do while it waits for a message and the one back: a third of it
/// are gradients of weights, which nobody waits for.
static constexpr double kMeanwhile = 1.0 / 3;

ForwardChain::ForwardChain(func::FuncOp function, ArrayRef<Operation *> ops,
                           const ::autopar::Cluster &cluster, bool trains, bool recomputes)
    : ops(ops), cluster(cluster) {
  findTimes(trains);
  findCrossings(trains);
  // What the parts of a loss hand on goes both ways.
  lossBegin = static_cast<int32_t>(ops.size());
  if (trains && llvm::any_of(ops, isLibraryContraction))
    while (!isLibraryContraction(ops[lossBegin - 1]))
      --lossBegin;
  findMemory(function, trains && !recomputes);
}

void ForwardChain::findTimes(bool trains) {
  for (const ::autopar::NodeGroup &group : cluster.nodes) {
    const ::autopar::DeviceType *device = cluster.findDeviceType(group.deviceType);
    std::vector<double> &list = times[device];
    if (!list.empty())
      continue;
    list.push_back(0);
    for (Operation *op : ops)
      list.push_back(list.back() + (trains ? 3 : 1) * wholeTimeUs(op, *device));
  }
}

/// What a cut in front of each operation sends: values, and their gradients.
void ForwardChain::findCrossings(bool trains) {
  DenseMap<Operation *, size_t> position;
  for (auto [index, op] : llvm::enumerate(ops))
    position[op] = index;
  crossing.assign(ops.size() + 1, 0);
  for (auto [index, op] : llvm::enumerate(ops))
    for (Value value : op->getResults()) {
      size_t last = index;
      for (Operation *user : value.getUsers())
        if (auto it = position.find(user); it != position.end())
          last = std::max(last, it->second);
      for (size_t place = index + 1; place <= last; ++place)
        crossing[place] += tensorBytes(tensorTypeOf(value)) * (trains ? 2 : 1);
    }
}

/// A parameter is where it is read first, with its gradient, where one adds up, and its state.
void ForwardChain::findMemory(func::FuncOp function, bool keeps) {
  Block &block = function.getBody().front();
  MicroBatches microBatches(block);
  StagePhases phases(block);
  double trained = 0, others = 0;
  for (BlockArgument argument : function.getArguments())
    if (isDonated(function, argument))
      (isParameter(argument) ? trained : others) +=
          static_cast<double>(tensorBytes(tensorTypeOf(argument)));
  double copies = 1 + (microBatches.count() > 1 ? 1 : 0) + (trained > 0 ? others / trained : 0);
  DenseSet<Value> seen;
  std::function<double(Value)> heldFor = [&](Value value) -> double {
    if (!seen.insert(value).second)
      return 0;
    double bytes = 0;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      if (isParameter(argument))
        bytes = static_cast<double>(tensorBytes(tensorTypeOf(value))) *
                (isDonated(function, argument) ? copies : 1);
      return bytes;
    }
    for (Value operand : value.getDefiningOp()->getOperands())
      bytes += heldFor(operand);
    return bytes;
  };
  for (Operation *op : ops) // what is on the chain is nobody's parameter
    seen.insert(op->getResults().begin(), op->getResults().end());
  DenseSet<Value> isSaved;
  std::function<int64_t(Value)> savedFor = [&](Value value) -> int64_t {
    Operation *op = value.getDefiningOp();
    if (!op || !isSaved.insert(value).second)
      return 0;
    if (!livesInUsers(op))
      return tensorBytes(tensorTypeOf(value));
    int64_t bytes = 0; // computed again from its operands
    for (Value operand : op->getOperands())
      bytes += savedFor(operand);
    return bytes;
  };
  state.push_back(0);
  saved.push_back(0);
  for (Operation *op : ops) {
    double held = 0;
    int64_t waits = 0;
    for (Value operand : op->getOperands())
      held += heldFor(operand);
    for (Value result : op->getResults())
      if (keeps &&
          llvm::any_of(result.getUsers(), [&](Operation *user) { return phases.isBackward(user); }))
        waits += savedFor(result);
    state.push_back(state.back() + static_cast<int64_t>(held));
    saved.push_back(saved.back() + waits);
  }
}

double ForwardChain::messageUs(int32_t place, size_t ranks) const {
  if (crossing[place] == 0)
    return 0;
  const ::autopar::Link &link = cluster.linkOfDevice(0, cluster.levels.size() - 1);
  return link.latencyUs + 1e6 * static_cast<double>(crossing[place]) / static_cast<double>(ranks) /
                              link.bytesPerSecond;
}

/// A sub-mesh, as far as a stage's costs depend on it.
struct mlir::autopar::ChainShape {
  const ::autopar::DeviceType *device;
  size_t devices;
  double messageShare = 1; ///< of a message that work hides, what a micro-batch waits; 1: none does
  double pace = 1, extraUs = 0, bytesPerUs = 0;
  bool operator==(const ChainShape &) const = default;
};

/// A problem and what its sub-meshes are.
struct mlir::autopar::ChainProblem {
  ::autopar::StageCutProblem problem;
  SmallVector<ChainShape> shapes; ///< of the sub-meshes
};

/// Operations [begin, end), shared evenly.
double ForwardChain::workUs(int32_t begin, int32_t end, const ChainShape &shape) const {
  const std::vector<double> &list = times.at(shape.device);
  return (list[end] - list[begin]) / static_cast<double>(shape.devices);
}

/// The same as a stage.
double ForwardChain::stageUs(int32_t begin, int32_t end, const ChainShape &shape) const {
  double us = shape.pace * workUs(begin, end, shape);
  us = std::max(kLeastOfWork * us, us + shape.extraUs);
  double before = messageUs(begin, shape.devices), behind = messageUs(end, shape.devices);
  double waits = shape.messageShare * (before + behind);
  return us + std::max(waits, std::max(before, behind) - kMeanwhile * us);
}

/// Where a mesh has other work while a message is on its way, a step waits for it once, as it fills
/// and drains; else every micro-batch does.
static double messageShareOf(const ::autopar::DeviceType &device, const Schedule &schedule) {
  bool hides =
      (schedule.splitsBackward || schedule.receivesAhead > 1) && !device.communicatesWhileIdle;
  return hides ? 1.0 / schedule.microBatches : 1;
}

ChainShape ForwardChain::shapeOf(const ChainMesh &mesh, const Schedule &schedule) const {
  const ::autopar::DeviceType &device =
      cluster.slowestOf(std::vector<int64_t>(mesh.devices.begin(), mesh.devices.end()));
  return {&device,
          mesh.devices.size(),
          messageShareOf(device, schedule),
          mesh.pace,
          mesh.extraUs * schedule.meshes / schedule.stages,
          mesh.bytesPerUs};
}

void ForwardChain::addStage(ChainCut &cut, int32_t begin, int32_t end,
                            const ChainShape &shape) const {
  double all = times.at(shape.device).back();
  cut.shares.push_back(all > 0 ? workUs(begin, end, {shape.device, 1}) / all : 0);
  cut.wholeUs.push_back(all / static_cast<double>(shape.devices));
  if (begin == 0)
    return;
  cut.places.push_back(begin);
  cut.messagesUs += messageUs(begin, shape.devices);
}

/// Micro-batches in flight: never fewer than with fewer stages behind, which the program relies on.
static std::function<int64_t(int32_t)> inFlightOf(const Schedule &schedule) {
  std::vector<int64_t> most;
  for (int32_t after = 0; after < schedule.stages; ++after)
    most.push_back(std::max<int64_t>(most.empty() ? 1 : most.back(),
                                     schedule.mostInFlight(schedule.stages - 1 - after)));
  return [most](int32_t after) {
    return most[std::min<size_t>(static_cast<size_t>(after), most.size() - 1)];
  };
}

/// A sub-mesh for each stage, so that a stage can be told from others: those of the first stage
/// before those of the second.
static void tellStages(ChainProblem &chain, int32_t stages) {
  std::vector<::autopar::SubMesh> any = std::move(chain.problem.subMeshes);
  SmallVector<ChainShape> shapes = chain.shapes;
  chain.problem.subMeshes.clear();
  chain.shapes.clear();
  for (int32_t stage = 0; stage < stages; ++stage) {
    for (::autopar::SubMesh mesh : any) {
      mesh.stagesAfter = stages - 1 - stage;
      chain.problem.subMeshes.push_back(std::move(mesh));
    }
    chain.shapes.append(shapes);
  }
}

/// Whether operations [begin, end) may be all of the stage: all that is demanded of it is there.
bool ForwardChain::mayBe(int32_t begin, int32_t end, int32_t stage) const {
  for (int32_t i = 0; i < static_cast<int32_t>(demanded.size()); ++i)
    if (demanded[i] >= 0 && (begin <= i && i < end) != (demanded[i] == stage))
      return false;
  return true;
}

/// Of a step: less than this is not worth stages that begin inside layers, of which a search finds
/// fewer alike.
static constexpr double kWorthFiner = 0.01;

/// The best cut where little is sent, and then beside it.
Result<ChainCut> ForwardChain::refined(int32_t stages, SolveAt solve) const {
  std::vector<int32_t> places = placesToCut(stages);
  Result<ChainCut> found = solve(places);
  if (!found || isRough)
    return found;
  std::vector<int32_t> finer = placesBeside(found->places, places, stages);
  if (llvm::includes(places, finer))
    return found;
  Result<ChainCut> next = solve(finer);
  bool isBetter = next && std::pair(next->missingBytes, next->timeUs) <
                              std::pair(found->missingBytes, (1 - kWorthFiner) * found->timeUs);
  return isBetter ? std::move(next) : std::move(found);
}

Result<ChainCut> ForwardChain::solve(ChainProblem &chain, const Schedule &schedule) const {
  size_t kinds = chain.problem.subMeshes.size();
  if (!demanded.empty() && chain.problem.subMeshes.front().stagesAfter < 0)
    tellStages(chain, schedule.stages);
  return refined(schedule.stages,
                 [&](ArrayRef<int32_t> places) { return solveAt(places, chain, kinds, schedule); });
}

Result<ChainCut> ForwardChain::solveAt(ArrayRef<int32_t> places, ChainProblem &chain, size_t kinds,
                                       const Schedule &schedule) const {
  ::autopar::StageCutProblem &problem = chain.problem;
  problem.layers = static_cast<int32_t>(places.size()) - 1;
  problem.useAllDevices = true;
  problem.leastStages = problem.mostStages = schedule.stages;
  problem.microBatches = schedule.microBatches;
  problem.inFlight = inFlightOf(schedule);
  problem.cost = [&](int32_t begin, int32_t end, int32_t mesh) {
    const ChainShape &shape = chain.shapes[mesh];
    auto ranks = static_cast<int64_t>(shape.devices);
    int32_t first = places[begin], last = places[end];
    if (!demanded.empty() &&
        !mayBe(first, last, schedule.stages - 1 - problem.subMeshes[mesh].stagesAfter))
      return ::autopar::StageCost{::autopar::kForbidden, 0, 0, 0};
    ::autopar::StageCost cost;
    cost.timeUs = stageUs(first, last, shape);
    if (shape.bytesPerUs > 0) {
      cost.stateBytes = static_cast<int64_t>(shape.bytesPerUs * workUs(first, last, shape));
    } else {
      cost.stateBytes = (state[last] - state[first]) / ranks;
      cost.savedBytes = (saved[last] - saved[first]) / ranks;
    }
    return cost;
  };
  Result<::autopar::StageCut> found = ::autopar::cutStages(problem);
  if (!found)
    return found.status();
  ChainCut cut;
  for (const ::autopar::CutStage &stage : found->stages) {
    addStage(cut, places[stage.begin], places[stage.end], chain.shapes[stage.subMesh]);
    cut.subMeshes.push_back(stage.subMesh % static_cast<int32_t>(kinds));
  }
  cut.timeUs = found->timeUs;
  cut.missingBytes = found->missingBytes;
  return cut;
}

Result<ChainCut> ForwardChain::solveTurns(ArrayRef<ChainMesh> meshes,
                                          const Schedule &schedule) const {
  SmallVector<ChainShape> shapes;
  for (const ChainMesh &mesh : meshes)
    shapes.push_back(shapeOf(mesh, schedule));
  return refined(schedule.stages,
                 [&](ArrayRef<int32_t> places) { return solveTurnsAt(places, shapes, schedule); });
}

Result<ChainCut> ForwardChain::solveTurnsAt(ArrayRef<int32_t> places, ArrayRef<ChainShape> shapes,
                                            const Schedule &schedule) const {
  ::autopar::TurnCutProblem problem;
  problem.layers = static_cast<int32_t>(places.size()) - 1;
  problem.stages = schedule.stages;
  problem.meshes = schedule.meshes;
  problem.microBatches = schedule.microBatches;
  // Many stages are on meshes of one shape, and asked for again and again.
  SmallVector<size_t> firstAlike;
  for (const ChainShape &shape : shapes)
    firstAlike.push_back(llvm::find(shapes, shape) - shapes.begin());
  constexpr double unknown = -1;
  std::vector<std::vector<double>> known(shapes.size()); // by the first mesh that is alike
  problem.timeUs = [&](int32_t begin, int32_t end, int32_t stage) {
    int32_t first = places[begin], last = places[end];
    if (!demanded.empty() && !mayBe(first, last, stage))
      return ::autopar::kForbidden;
    size_t mesh = firstAlike[schedule.meshOf(stage)];
    if (known[mesh].empty())
      known[mesh].assign(places.size() * places.size(), unknown);
    double &us = known[mesh][begin * places.size() + end];
    if (us == unknown)
      us = stageUs(first, last, shapes[mesh]);
    return us;
  };
  Result<::autopar::TurnCut> found = ::autopar::cutTurns(problem);
  if (!found)
    return found.status();
  ChainCut cut;
  for (auto [stage, begin] : llvm::enumerate(found->begins)) {
    bool isLast = stage + 1 == found->begins.size();
    int32_t mesh = schedule.meshOf(static_cast<int32_t>(stage));
    addStage(cut, places[begin], isLast ? places.back() : places[found->begins[stage + 1]],
             shapes[mesh]);
    cut.subMeshes.push_back(mesh);
  }
  cut.timeUs = found->timeUs;
  return cut;
}

Result<ChainCut> ForwardChain::cut(ArrayRef<ChainMesh> meshes, const Schedule &schedule) const {
  if (schedule.stages > schedule.meshes) {
    Result<ChainCut> found = solveTurns(meshes, schedule);
    if (found)
      found->meshes.assign(meshes.begin(), meshes.end());
    return found;
  }
  ChainProblem chain;
  auto isFirst = [&](const ChainMesh &mesh) {
    return shapeOf(mesh, schedule) == shapeOf(meshes.front(), schedule) &&
           mesh.memoryBytes == meshes.front().memoryBytes;
  };
  // Each mesh counts as one device.
  chain.problem.devices = {schedule.stages};
  bool areEqual = llvm::all_of(meshes, isFirst);
  for (int32_t s = 0; s < (areEqual ? 1 : schedule.stages); ++s) {
    chain.shapes.push_back(shapeOf(meshes[s], schedule));
    chain.problem.subMeshes.push_back(
        {"mesh", {1}, meshes[s].memoryBytes, areEqual ? -1 : schedule.stages - 1 - s});
  }
  Result<ChainCut> found = solve(chain, schedule);
  if (found)
    found->meshes.assign(meshes.begin(), meshes.end());
  return found;
}

/// Whether a mesh of `size` of the `count` devices of a type may be.
static bool isSize(const ::autopar::Cluster &cluster, const ::autopar::DeviceType *type,
                   int64_t size, int64_t count, MeshSizes sizes) {
  if (sizes == MeshSizes::Any && count <= kAllSizes)
    return true;
  if (sizes == MeshSizes::Parts && size * kMostParts < count)
    return false;
  return llvm::any_of(cluster.nodes, [&](const ::autopar::NodeGroup &group) {
    int64_t perNode = group.devicesPerNode;
    if (cluster.findDeviceType(group.deviceType) != type)
      return false;
    bool isNodes = size % perNode == 0 && (sizes == MeshSizes::Any || count % size == 0);
    return isNodes || perNode % size == 0;
  });
}

/// Takes `size` of the free devices of each node: of the node with the least room for all of them,
/// or of those with the most.
static SmallVector<int64_t> takeDevices(std::map<int64_t, SmallVector<int64_t>> &freeOf,
                                        size_t size) {
  SmallVector<SmallVector<int64_t> *> nodes;
  for (auto &[node, own] : freeOf)
    nodes.push_back(&own);
  std::sort(nodes.begin(), nodes.end(), [&](const auto *a, const auto *b) {
    bool holdsA = a->size() >= size, holdsB = b->size() >= size;
    if (holdsA != holdsB)
      return holdsA;
    if (a->size() != b->size())
      return holdsA ? a->size() < b->size() : a->size() > b->size();
    return !a->empty() && a->front() < b->front();
  });
  SmallVector<int64_t> taken;
  for (SmallVector<int64_t> *own : nodes) {
    size_t count = std::min(own->size(), size - taken.size());
    taken.append(own->begin(), own->begin() + count);
    own->erase(own->begin(), own->begin() + count);
  }
  llvm::sort(taken);
  return taken;
}

Result<ChainCut> ForwardChain::choose(int64_t memoryBytes, const Schedule &schedule,
                                      MeshSizes sizes, double memoryShare) const {
  ChainProblem chain;
  // Devices by type, in the order of the cluster.
  std::vector<const ::autopar::DeviceType *> types;
  std::vector<SmallVector<int64_t>> devices;
  for (int64_t device = 0; device < cluster.deviceCount(); ++device) {
    const ::autopar::DeviceType *type = &cluster.typeOfDevice(device);
    size_t number = llvm::find(types, type) - types.begin();
    if (number == types.size()) {
      types.push_back(type);
      devices.emplace_back();
    }
    devices[number].push_back(device);
  }
  SmallVector<size_t> typeOf;
  for (auto [number, own] : llvm::enumerate(devices)) {
    auto count = static_cast<int64_t>(own.size());
    auto memory = static_cast<double>(memoryBytes ? memoryBytes : types[number]->usableBytes());
    for (int64_t size = 1; size <= count; ++size) {
      if (!isSize(cluster, types[number], size, count, sizes))
        continue;
      std::vector<int32_t> taken(types.size(), 0);
      taken[number] = static_cast<int32_t>(size);
      chain.problem.subMeshes.push_back(
          {types[number]->name, taken, static_cast<int64_t>(memoryShare * memory)});
      chain.shapes.push_back(
          {types[number], static_cast<size_t>(size), messageShareOf(*types[number], schedule)});
      typeOf.push_back(number);
    }
    chain.problem.devices.push_back(static_cast<int32_t>(count));
  }
  Result<ChainCut> found = solve(chain, schedule);
  if (!found)
    return found;
  std::vector<std::map<int64_t, SmallVector<int64_t>>> freeOf(types.size()); // by node
  for (auto [number, own] : llvm::enumerate(devices))
    for (int64_t device : own)
      freeOf[number][cluster.nodeOfDevice(device)].push_back(device);
  for (int32_t mesh : found->subMeshes)
    found->meshes.push_back({takeDevices(freeOf[typeOf[mesh]], chain.shapes[mesh].devices),
                             chain.problem.subMeshes[mesh].memoryBytes});
  return found;
}

std::vector<ChainMesh> mlir::autopar::chainMeshes(const ::autopar::Cluster &cluster,
                                                  ArrayRef<SmallVector<int64_t>> devices,
                                                  int64_t memoryBytes) {
  std::vector<ChainMesh> meshes;
  for (ArrayRef<int64_t> own : devices)
    meshes.push_back(
        {llvm::to_vector(own), memoryBytes ? memoryBytes : cluster.usableBytes(own.vec())});
  return meshes;
}
