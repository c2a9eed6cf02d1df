// SPDX-License-Identifier: Apache-2.0
// The pass autopar-cut-stages: every operation gets a pipeline stage, every value that changes
// stage an autopar.transfer. The forward pass is cut where the slowest stage is fastest;
// derivatives follow what they are derivatives of, updates follow their parameters.
#include "autopar/Cost/CostModel.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Plan/Schedule.h"
#include "autopar/Planner/StageCut.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
#include "autopar/Transforms/Stages.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringMap.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_CUTSTAGESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Cluster;
using ::autopar::Plan;
using ::autopar::Result;
using ::autopar::Status;

static int64_t bytesOf(Value value) {
  RankedTensorType type = tensorTypeOf(value);
  return type.getNumElements() * ::autopar::byteSize(dataTypeOf(type.getElementType()));
}

/// Whether an operation gives more bytes than it takes and is cheap: rather than its result, its
/// operands are sent.
static bool isExpansion(Operation *op) {
  auto cost = dyn_cast_or_null<CostOpInterface>(op);
  if (!cost || !cost.isLight() || op->getNumResults() != 1)
    return false;
  int64_t taken = 0;
  for (Value operand : op->getOperands())
    taken += bytesOf(operand);
  return taken < bytesOf(op->getResult(0));
}

/// What it takes to have a value on another stage.
static int64_t bytesToSend(Value value) {
  Operation *op = value.getDefiningOp();
  if (!isExpansion(op))
    return bytesOf(value);
  int64_t bytes = 0;
  for (Value operand : op->getOperands())
    bytes += bytesToSend(operand);
  return bytes;
}

namespace {

/// The part of the forward pass that is cut: operations in order, without those that are on no
/// stage.
class ForwardChain {
public:
  ForwardChain(ArrayRef<Operation *> ops, const Cluster &cluster, int64_t ranksPerStage,
               bool trains)
      : ops(ops) {
    const ::autopar::DeviceType &device = cluster.typeOfDevice(0);
    times.push_back(0);
    for (Operation *op : ops)
      times.push_back(times.back() +
                      (trains ? 3 : 1) * timeUs(op, device) / static_cast<double>(ranksPerStage));
    findCrossings(trains);
    const ::autopar::Link &link = cluster.linkOfDevice(0, cluster.levels.size() - 1);
    for (int64_t bytes : crossing)
      transfers.push_back(bytes == 0 ? 0
                                     : link.latencyUs + 1e6 * static_cast<double>(bytes) /
                                                            static_cast<double>(ranksPerStage) /
                                                            link.bytesPerSecond);
  }

  /// The first operation of each stage but the first.
  Result<std::vector<int32_t>> cut(int32_t stages, int64_t microBatches) const {
    std::vector<int32_t> places = placesToCut(stages);
    ::autopar::StageCutProblem problem;
    problem.layers = static_cast<int32_t>(places.size()) - 1;
    problem.devices = {stages};
    problem.subMeshes = {{"mesh", {1}, 0}};
    problem.useAllDevices = true;
    problem.leastStages = problem.mostStages = stages;
    problem.microBatches = microBatches;
    problem.inFlight = ::autopar::inFlight1F1B(microBatches);
    problem.cost = [&](int32_t begin, int32_t end, int32_t) {
      int32_t first = places[begin], last = places[end];
      return ::autopar::StageCost{times[last] - times[first] + transfers[first] + transfers[last],
                                  0, 0, 0};
    };
    Result<::autopar::StageCut> found = ::autopar::cutStages(problem);
    if (!found)
      return found.status();
    std::vector<int32_t> cuts;
    for (const ::autopar::CutStage &stage : found->stages)
      if (stage.begin > 0)
        cuts.push_back(places[stage.begin]);
    return cuts;
  }

private:
  static double timeUs(Operation *op, const ::autopar::DeviceType &device) {
    auto types = [](auto values) {
      SmallVector<RankedTensorType> list;
      for (Value value : values)
        list.push_back(tensorTypeOf(value));
      return list;
    };
    auto cost = dyn_cast<CostOpInterface>(op);
    double flops = cost ? cost.getFlops(types(op->getOperands()), types(op->getResults())) : 0;
    double bytes = 0;
    for (Value value : op->getResults())
      bytes += static_cast<double>(bytesOf(value));
    if (!cost || !cost.isLight())
      for (Value value : op->getOperands())
        bytes += static_cast<double>(bytesOf(value));
    ::autopar::DataType type = dataTypeOf(
        tensorTypeOf(op->getNumOperands() ? op->getOperand(0) : op->getResult(0)).getElementType());
    return ::autopar::opTimeUs(flops, bytes, type, device);
  }

  /// What a cut in front of each operation sends: values, and their gradients.
  void findCrossings(bool trains) {
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
          crossing[place] += bytesOf(value) * (trains ? 2 : 1);
      }
  }

  /// The ends, and the places where little is sent: no worse than those around them. At most about
  /// 200 of them, the cheapest first.
  std::vector<int32_t> placesToCut(int32_t stages) const {
    constexpr size_t most = 200;
    int32_t end = static_cast<int32_t>(ops.size());
    std::vector<int32_t> places;
    for (int32_t place = 1; place < end; ++place)
      if (crossing[place] <= crossing[place - 1] && crossing[place] < crossing[place + 1])
        places.push_back(place);
    if (static_cast<int32_t>(places.size()) + 1 < stages) {
      places.clear();
      for (int32_t place = 1; place < end; ++place)
        places.push_back(place);
    }
    llvm::sort(places, [&](int32_t a, int32_t b) {
      return std::pair(crossing[a], a) < std::pair(crossing[b], b);
    });
    if (places.size() > std::max<size_t>(most, stages))
      places.resize(std::max<size_t>(most, stages));
    places.push_back(0);
    places.push_back(end);
    llvm::sort(places);
    return places;
  }

  ArrayRef<Operation *> ops;
  std::vector<double> times;     ///< of the operations before each place
  std::vector<int64_t> crossing; ///< bytes at each place
  std::vector<double> transfers; ///< microseconds at each place
};

class Cutter {
public:
  Cutter(func::FuncOp function, const Cluster &cluster, const Plan *plan, int64_t stages,
         int64_t meshes)
      : function(function), block(function.getBody().front()), cluster(cluster), plan(plan),
        stageCount(stages), meshes(meshes), builder(function.getContext()) {}

  LogicalResult run() {
    for (BlockArgument argument : function.getArguments())
      if (IntegerAttr pinned = pinnedStage(argument)) {
        if (pinned.getInt() < 0 || pinned.getInt() >= stageCount)
          return function.emitOpError()
                 << "argument \"" << nameOfArgument(argument) << "\" is on stage "
                 << pinned.getInt() << " of " << stageCount;
        stageOf[argument] = pinned.getInt();
      }
    bool isBehindForward = false;
    for (Operation &op : block.without_terminator()) {
      bool isFree =
          llvm::all_of(op.getOperands(), [&](Value operand) { return isOnNone(operand); });
      if (isFree) {
        free.insert(&op);
        continue;
      }
      isBehindForward = isBehindForward || getOpId(&op).contains("/vjp");
      (isBehindForward ? later : forward).push_back(&op);
    }
    if (failed(placeForward()))
      return failure();
    placeLater();
    for (BlockArgument argument : function.getArguments())
      if (!isOnNone(argument))
        function.setArgAttr(argument.getArgNumber(), kStageAttribute,
                            builder.getI64IntegerAttr(stageOf.lookup_or(argument, 0)));
    insertTransfers();
    return success();
  }

private:
  /// Inputs, control words, and what depends on nothing else.
  bool isOnNone(Value value) {
    if (Operation *op = value.getDefiningOp())
      return free.contains(op);
    auto argument = cast<BlockArgument>(value);
    return !isParameter(argument) && !isDonated(argument) && !pinnedStage(argument);
  }

  bool isDonated(BlockArgument argument) {
    return function.getArgAttr(argument.getArgNumber(), "autopar.donated") != nullptr;
  }

  /// The stage that an argument already says it is on.
  IntegerAttr pinnedStage(BlockArgument argument) {
    return function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), kStageAttribute);
  }

  void place(Operation *op, int64_t stage) {
    for (Value result : op->getResults())
      stageOf[result] = stage;
    placed[op] = stage;
    byId[getOpId(op)] = stage;
    // An argument lives where it is first needed.
    for (Value operand : op->getOperands())
      if (isa<BlockArgument>(operand) && !isOnNone(operand))
        stageOf.try_emplace(operand, stage);
  }

  LogicalResult placeForward() {
    if (static_cast<int64_t>(forward.size()) < stageCount)
      return function.emitOpError()
             << "has " << forward.size() << " operations to put on " << stageCount
             << " pipeline stages; expected at least one for each";
    if (plan && !plan->stages.front().ops.empty())
      return placeByPlan();
    Result<std::vector<int32_t>> cuts =
        ForwardChain(forward, cluster, std::max<int64_t>(1, cluster.deviceCount() / meshes),
                     !later.empty())
            .cut(stageCount, MicroBatches(block).count());
    if (!cuts)
      return function.emitOpError() << "stages: " << cuts.status().message();
    int64_t stage = 0;
    for (auto [position, op] : llvm::enumerate(forward)) {
      if (stage < static_cast<int64_t>(cuts->size()) &&
          static_cast<int32_t>(position) == (*cuts)[stage])
        ++stage;
      place(op, stage);
    }
    return success();
  }

  /// Operations that the plan does not name stay with the one before them.
  LogicalResult placeByPlan() {
    llvm::StringMap<int64_t> planned;
    for (auto [stage, entry] : llvm::enumerate(plan->stages))
      for (const std::string &op : entry.ops)
        planned[op] = stage;
    int64_t stage = 0;
    for (Operation *op : forward) {
      auto it = planned.find(getOpId(op));
      if (it != planned.end() && it->second < stage)
        for (Value operand : op->getOperands())
          if (stageOf.lookup_or(operand, 0) > it->second && operand.getDefiningOp())
            return op->emitOpError()
                   << "is planned on stage " << it->second << ", but reads \""
                   << getOpId(operand.getDefiningOp()) << "\" of stage " << stageOf.lookup(operand);
      stage = it != planned.end() ? it->second : stage;
      place(op, stage);
    }
    return success();
  }

  /// What reads only state that nobody has placed yet goes where its result is used.
  void placeLater() {
    SmallVector<Operation *> waiting;
    for (Operation *op : later) {
      if (int64_t stage = stageByData(op); stage != Stages::kNone)
        place(op, stage);
      else
        waiting.push_back(op);
    }
    for (Operation *op : llvm::reverse(waiting)) {
      int64_t stage = stageCount - 1;
      for (Operation *user : op->getUsers())
        if (auto it = placed.find(user); it != placed.end())
          stage = it->second;
      place(op, stage);
    }
  }

  /// A derivative is where its operation is; anything else where most of its data is, of equals the
  /// first stage.
  int64_t stageByData(Operation *op) {
    StringRef id = getOpId(op);
    StringRef base = id.take_front(id.find("/vjp"));
    auto known = byId.find(base);
    if (base.size() < id.size() && !id.contains("/vjp.sum") && known != byId.end())
      return known->second;
    int64_t best = Stages::kNone, most = -1;
    for (Value operand : op->getOperands()) {
      auto it = stageOf.find(operand);
      if (it == stageOf.end())
        continue;
      int64_t bytes = bytesToSend(operand);
      if (bytes > most || (bytes == most && it->second < best)) {
        best = it->second;
        most = bytes;
      }
    }
    return best;
  }

  void insertTransfers() {
    SmallVector<Operation *> ops = llvm::to_vector(llvm::concat<Operation *>(forward, later));
    for (Operation *op : ops)
      for (OpOperand &operand : op->getOpOperands())
        moveTo(operand, placed.lookup(op));
    // The next value of an argument is where the argument is.
    for (OpOperand &operand : block.getTerminator()->getOpOperands()) {
      auto name =
          function.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), "autopar.name");
      for (BlockArgument argument : function.getArguments())
        if (name && isDonated(argument) &&
            function.getArgAttr(argument.getArgNumber(), "autopar.name") == name)
          moveTo(operand, stageOf.lookup_or(argument, 0));
    }
  }

  void moveTo(OpOperand &operand, int64_t stage) {
    builder.setInsertionPoint(operand.getOwner());
    operand.set(on(operand.get(), stage, operand.getOwner()->getLoc()));
  }

  /// A value on a stage: as it is, made there, or sent.
  Value on(Value value, int64_t stage, Location loc) {
    auto it = stageOf.find(value);
    if (it == stageOf.end() || it->second == stage)
      return value;
    if (Value moved = elsewhere.lookup({value, stage}))
      return moved;
    Operation *made;
    if (Operation *op = value.getDefiningOp(); isExpansion(op)) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, on(operand, stage, loc));
      made = builder.clone(*op, mapping);
    } else {
      made = TransferOp::create(builder, loc, value.getType(), value, stage);
    }
    setOpId(made, nameOf(value) + "/to." + Twine(stage));
    elsewhere[{value, stage}] = made->getResult(0);
    return made->getResult(0);
  }

  static std::string nameOf(Value value) {
    if (Operation *op = value.getDefiningOp())
      return getOpId(op).str();
    return nameOfArgument(cast<BlockArgument>(value));
  }

  func::FuncOp function;
  Block &block;
  const Cluster &cluster;
  const Plan *plan; ///< whose stages are taken; may be null
  int64_t stageCount, meshes;
  OpBuilder builder;
  DenseSet<Operation *> free;              ///< on no stage
  SmallVector<Operation *> forward, later; ///< all others
  DenseMap<Value, int64_t> stageOf;
  DenseMap<Operation *, int64_t> placed;
  llvm::StringMap<int64_t> byId;
  DenseMap<std::pair<Value, int64_t>, Value> elsewhere; ///< values that are needed on another stage
};

struct CutStagesPass : mlir::autopar::impl::CutStagesPassBase<CutStagesPass> {
  using Base::Base;

  void runOnOperation() override {
    if (failed(cut()))
      signalPassFailure();
  }

private:
  LogicalResult refuse(const Status &status) {
    return getOperation().emitError() << "stages: " << status.message();
  }

  LogicalResult cut() {
    auto function = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!function || function.isExternal() || !function.getBody().hasOneBlock())
      return getOperation().emitError("expected a function @main of one block to cut into stages");
    std::optional<Plan> plan;
    int64_t stageCount = stages, meshCount = meshes ? meshes : stages;
    std::string name = schedule;
    if (!planFile.empty()) {
      Result<Plan> loaded = Plan::load(planFile);
      if (!loaded)
        return refuse(loaded.status());
      plan = loaded.take();
      stageCount = plan->stages.size();
      meshCount = plan->meshes.size();
      name = plan->schedule;
    }
    if (stageCount < 2)
      return success();
    Result<Cluster> machine = Cluster::load(cluster);
    if (!machine)
      return refuse(machine.status());
    if (machine->deviceCount() % meshCount)
      return refuse(Status::badInput(std::to_string(machine->deviceCount()) +
                                     " devices cannot be shared equally by the meshes of " +
                                     std::to_string(meshCount) + " stages"));
    int64_t microBatches = MicroBatches(function.getBody().front()).count();
    bool trains = !BackwardOps(function.getBody().front()).empty();
    Result<::autopar::Schedule> table =
        ::autopar::makeSchedule(name, stageCount, meshCount, microBatches, trains);
    if (!table)
      return refuse(table.status());
    if (failed(Cutter(function, *machine, plan ? &*plan : nullptr, stageCount, meshCount).run()))
      return failure();
    Builder builder(function.getContext());
    function->setAttr(kScheduleAttribute, builder.getStringAttr(name));
    function->setAttr(kStageMeshesAttribute, builder.getI64IntegerAttr(meshCount));
    return Stages(function).verify();
  }
};

} // namespace
