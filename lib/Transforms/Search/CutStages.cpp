// SPDX-License-Identifier: Apache-2.0
// The pass autopar-cut-stages: every operation gets a pipeline stage, every value that changes
// stage an autopar.transfer. The forward pass is cut where the slowest stage is fastest;
// derivatives follow what they are derivatives of, updates follow their parameters.
#include "Cost/ModuleCluster.h"
#include "Cost/OpTime.h"
#include "ForwardChain.h"
#include "Stages/DevicesOfStages.h"
#include "Stages/OpsOfStages.h"
#include "Stages/StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/VerifyStep.h"
#include "autopar/Plan/Constraints.h"
#include "autopar/Plan/Plan.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Sharding.h"
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

static int64_t bytesOf(Value value) { return tensorBytes(tensorTypeOf(value)); }

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

class Cutter {
public:
  /// `devices` are those of each mesh; none: what is fastest.
  Cutter(func::FuncOp function, const Cluster &cluster, llvm::StringMap<int64_t> planned,
         llvm::StringMap<int64_t> demanded, const ::autopar::Schedule &schedule,
         SmallVector<SmallVector<int64_t>> devices, int64_t memoryLimit, bool recomputes)
      : function(function), block(function.getBody().front()), cluster(cluster),
        planned(std::move(planned)), demanded(std::move(demanded)), schedule(schedule),
        stageCount(schedule.stages), memoryLimit(memoryLimit), recomputes(recomputes),
        devices(std::move(devices)), builder(function.getContext()), ops(function) {}

  LogicalResult run() {
    for (BlockArgument argument : function.getArguments())
      if (IntegerAttr pinned = pinnedStage(function, argument)) {
        if (pinned.getInt() < 0 || pinned.getInt() >= stageCount)
          return function.emitOpError()
                 << "argument \"" << nameOfArgument(argument) << "\" is on stage "
                 << pinned.getInt() << " of " << stageCount;
        stageOf[argument] = pinned.getInt();
      }
    if (failed(placeForward()))
      return failure();
    placeLater();
    auto attributes = SignatureAttributes::ofArguments(function);
    for (BlockArgument argument : function.getArguments())
      if (!isOnNone(argument))
        attributes.set(argument.getArgNumber(), kStageAttribute,
                       builder.getI64IntegerAttr(stageOf.lookup_or(argument, 0)));
    attributes.write();
    findComputedAgain();
    insertTransfers();
    setStageDevices(function, devices);
    function->removeAttr(kStagePaceAttribute);
    function->removeAttr(kStageExtraAttribute);
    function->removeAttr(kStageBytesAttribute);
    return success();
  }

private:
  bool isOnNone(Value value) const { return ops.isOnNone(value); }

  void place(Operation *op, int64_t stage) {
    for (Value result : op->getResults())
      stageOf[result] = stage;
    placed[op] = stage;
    byId[getOpId(op)] = stage;
    // An argument, and what is made of arguments alone, lives where it is first needed.
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (!producer && !isOnNone(operand))
        stageOf.try_emplace(operand, stage);
      else if (ops.ofParameters.contains(producer) && !placed.contains(producer))
        place(producer, stage);
    }
  }

  LogicalResult placeForward() {
    if (static_cast<int64_t>(ops.forward.size()) < stageCount)
      return function.emitOpError()
             << "has " << ops.forward.size() << " operations to put on " << stageCount
             << " pipeline stages; expected at least one for each";
    ForwardChain chain(function, ops.forward, cluster, !ops.later.empty(), recomputes);
    if (!demanded.empty()) {
      std::vector<int32_t> stages = demandedStages();
      std::vector<int32_t> known;
      llvm::copy_if(stages, std::back_inserter(known), [](int32_t stage) { return stage >= 0; });
      if (llvm::is_sorted(known))
        chain.demandStages(std::move(stages));
      else
        takeDemands(stages);
    }
    if (!planned.empty() && !devices.empty())
      return placeByPlan();
    Result<ChainCut> cut = devices.empty() ? chain.choose(memoryLimit, schedule)
                                           : chain.cut(meshesOf(devices), schedule);
    if (!cut && !demanded.empty())
      return function.emitOpError() << "stages: no cut into " << stageCount
                                    << " stages, each with an operation, has every operation on "
                                       "the stage that is demanded";
    if (!cut)
      return function.emitOpError() << "stages: " << cut.status().message();
    SmallVector<double> workUs(schedule.meshes, 0);
    for (auto [stage, share] : llvm::enumerate(cut->shares))
      workUs[schedule.meshOf(stage)] += share * cut->wholeUs[stage];
    function->setAttr(kStageWorkAttribute, builder.getDenseF64ArrayAttr(workUs));
    devices.clear();
    for (const ChainMesh &mesh : cut->meshes)
      devices.push_back(mesh.devices);
    if (!planned.empty())
      return placeByPlan();
    int64_t stage = 0;
    for (auto [position, op] : llvm::enumerate(ops.forward)) {
      if (stage < static_cast<int64_t>(cut->places.size()) &&
          static_cast<int32_t>(position) == cut->places[stage])
        ++stage;
      place(op, stage);
    }
    return success();
  }

  std::vector<ChainMesh> meshesOf(ArrayRef<SmallVector<int64_t>> parts) const {
    std::vector<ChainMesh> meshes = chainMeshes(cluster, parts, memoryLimit);
    if (auto paces = function->getAttrOfType<DenseF64ArrayAttr>(kStagePaceAttribute))
      for (auto [mesh, pace] : llvm::zip(meshes, paces.asArrayRef()))
        mesh.pace = pace;
    if (auto extra = function->getAttrOfType<DenseF64ArrayAttr>(kStageExtraAttribute))
      for (auto [mesh, us] : llvm::zip(meshes, extra.asArrayRef()))
        mesh.extraUs = us;
    if (auto bytes = function->getAttrOfType<DenseF64ArrayAttr>(kStageBytesAttribute))
      for (auto [mesh, perUs] : llvm::zip(meshes, bytes.asArrayRef()))
        mesh.bytesPerUs = perUs;
    return meshes;
  }

  /// The stage that is demanded of each operation of the forward pass; -1: none. What a demand
  /// names has its parts with it: `fc/add` goes with `fc`.
  std::vector<int32_t> demandedStages() const {
    std::vector<int32_t> stages;
    for (Operation *op : ops.forward) {
      StringRef id = getOpId(op);
      auto known = demanded.find(id);
      while (known == demanded.end() && id.contains('/')) {
        id = id.take_front(id.rfind('/'));
        known = demanded.find(id);
      }
      stages.push_back(known == demanded.end() ? -1 : static_cast<int32_t>(known->second));
    }
    return stages;
  }

  /// Branches beside each other are no chain: what is demanded is followed like a plan.
  void takeDemands(ArrayRef<int32_t> stages) {
    for (auto [op, stage] : llvm::zip_equal(ops.forward, stages))
      if (stage >= 0)
        planned[getOpId(op)] = stage;
  }

  /// Operations that the plan does not name stay with the one before them.
  LogicalResult placeByPlan() {
    int64_t stage = 0;
    for (Operation *op : ops.forward) {
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
    for (Operation *op : ops.later) {
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
  /// first stage. Derivatives only go back: a sum of them is on the first of their stages.
  int64_t stageByData(Operation *op) {
    StringRef id = getOpId(op);
    StringRef base = id.take_front(id.find("/vjp"));
    bool isDerivative = base.size() < id.size();
    auto known = byId.find(base);
    if (isDerivative && !id.contains("/vjp.sum") && known != byId.end())
      return known->second;
    int64_t best = Stages::kNone, most = -1, last = stageCount;
    for (Value operand : op->getOperands()) {
      auto it = stageOf.find(operand);
      if (it == stageOf.end())
        continue;
      int64_t bytes = bytesToSend(operand);
      if (bytes > most || (bytes == most && it->second < best)) {
        best = it->second;
        most = bytes;
      }
      Operation *producer = operand.getDefiningOp();
      if (isDerivative && producer && getOpId(producer).contains("/vjp"))
        last = std::min(last, it->second);
    }
    return std::min(best, last);
  }

  /// Normalizations that derivatives compute again, casts of them, and what these are made of.
  void findComputedAgain() {
    for (Operation *op : ops.forward)
      forwardById[getOpId(op)] = op;
    for (Operation *op : ops.later)
      if (isa<NormalizeAgainOp>(op))
        againOf[op->getResult(0)] = op->getResult(0);
      else if (Value first = isa<CastOp>(op) ? againOf.lookup(op->getOperand(0)) : Value())
        againOf[op->getResult(0)] = first;
  }

  Operation *forwardOf(Value again) const {
    StringRef id = getOpId(again.getDefiningOp());
    id.consume_back("/vjp.again");
    return forwardById.lookup(id);
  }

  /// What is computed again from the input of its stage would go against the direction of
  /// derivatives: a later stage reads what the forward pass has sent it.
  Value forwardOn(Value again, int64_t stage, Location loc) {
    if (Operation *op = forwardOf(again); op && op->getResult(0).getType() == again.getType())
      return on(op->getResult(0), stage, loc);
    // Where a pass has its casts inside of the normalization.
    Value forward = on(forwardOf(againOf.lookup(again))->getResult(0), stage, loc);
    auto cast = CastOp::create(builder, loc, again.getType(), forward);
    return remember(again, stage, cast);
  }

  void insertTransfers() {
    SmallVector<Operation *> all = llvm::to_vector(ops.ofParameters);
    llvm::append_range(all, ops.forward);
    llvm::append_range(all, ops.later);
    for (Operation *op : all)
      for (OpOperand &operand : op->getOpOperands())
        moveTo(operand, placed.lookup(op));
    // The next value of an argument is where the argument is.
    for (auto [operand, donor] :
         llvm::zip(block.getTerminator()->getOpOperands(), donorsOfResults(function)))
      if (donor)
        moveTo(operand, stageOf.lookup_or(donor, 0));
    for (Operation *op : llvm::reverse(ops.later))
      if (againOf.contains(op->getResult(0)) && op->use_empty())
        op->erase();
  }

  void moveTo(OpOperand &operand, int64_t stage) {
    builder.setInsertionPoint(operand.getOwner());
    operand.set(on(operand.get(), stage, operand.getOwner()->getLoc()));
  }

  /// A value on a stage: as it is, made there, or sent.
  Value on(Value value, int64_t stage, Location loc) {
    auto it = stageOf.find(value);
    if (it == stageOf.end())
      return value;
    if (Value moved = elsewhere.lookup({value, stage}))
      return moved;
    if (Value again = againOf.lookup(value); again && stageOf.lookup(again) < stage)
      return forwardOn(value, stage, loc);
    if (it->second == stage)
      return value;
    // What came from elsewhere, held or not, is not sent on, but asked for where it was made.
    Value source = value;
    while (auto hold = source.getDefiningOp<HoldOp>())
      source = hold.getInput();
    if (auto sent = source.getDefiningOp<TransferOp>())
      return on(sent.getInput(), stage, loc);
    Operation *made;
    if (Operation *op = value.getDefiningOp(); isExpansion(op)) {
      IRMapping mapping;
      for (Value operand : op->getOperands())
        mapping.map(operand, on(operand, stage, loc));
      made = builder.clone(*op, mapping);
    } else {
      made = TransferOp::create(builder, loc, value.getType(), value, stage);
    }
    return remember(value, stage, made);
  }

  Value remember(Value value, int64_t stage, Operation *made) {
    setOpId(made, nameOf(value) + "/to." + Twine(stage));
    stageOf[made->getResult(0)] = stage;
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
  llvm::StringMap<int64_t> planned;  ///< stages of operations by a plan, by id
  llvm::StringMap<int64_t> demanded; ///< those that are demanded, whatever is best for others
  const ::autopar::Schedule &schedule;
  int64_t stageCount, memoryLimit;
  bool recomputes; ///< what waits for the backward pass may be computed again
  SmallVector<SmallVector<int64_t>> devices; ///< of each mesh
  OpBuilder builder;
  OpsOfStages ops;
  DenseMap<Value, int64_t> stageOf;
  DenseMap<Operation *, int64_t> placed;
  llvm::StringMap<int64_t> byId;
  llvm::StringMap<Operation *> forwardById;
  DenseMap<Value, Value> againOf; ///< the normalizations that values are, or are casts of
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
    llvm::StringMap<int64_t> planned;
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
      for (auto [stage, entry] : llvm::enumerate(plan->stages))
        for (const std::string &op : entry.ops)
          planned[op] = stage;
    }
    Result<::autopar::Constraints> demands =
        ::autopar::Constraints::parse("constraints", constraints);
    if (!demands)
      return refuse(demands.status());
    if (::autopar::Constraints shardings = demands->ofShardings(); plan && !shardings.empty())
      return refuse(Status::badInput("the plan \"" + planFile +
                                     "\" says every sharding; expected no demand on shardings "
                                     "beside it, got \"" +
                                     shardings.toText() + "\""));
    llvm::StringMap<int64_t> demanded;
    for (const auto &[op, stage] : demands->stages()) {
      if (stage >= stageCount)
        return refuse(
            demands->errorAt(op, "\"" + op + "\" is on stage " + std::to_string(stage) +
                                     (stageCount > 1 ? " of " + std::to_string(stageCount)
                                                     : ", which needs stages of at least 2")));
      (plan ? planned : demanded)[op] = stage;
    }
    if (stageCount < 2)
      return success();
    if (failed(verifyWholeStep(function)))
      return failure();
    Result<Cluster> machine = clusterOf(getOperation(), cluster);
    if (!machine)
      return refuse(machine.status());
    Result<SmallVector<SmallVector<int64_t>>> devices =
        devicesOfStages(function, plan, meshShape, meshCount, *machine);
    if (!devices)
      return refuse(devices.status());
    if (devices->empty() && stageCount != meshCount)
      return refuse(Status::badInput(std::to_string(machine->deviceCount()) + " devices are not " +
                                     std::to_string(meshCount) +
                                     " equal meshes for stages to take turns on; give the meshes "
                                     "(data=1/data=2)"));
    Block &block = function.getBody().front();
    auto table = ::autopar::makeSchedule(name, stageCount, meshCount, MicroBatches(block).count(),
                                         StagePhases(block).trains());
    if (!table)
      return refuse(table.status());
    if (failed(Cutter(function, *machine, std::move(planned), std::move(demanded), *table,
                      devices.take(), memoryLimit, recomputes)
                   .run()))
      return failure();
    Builder builder(function.getContext());
    function->setAttr(kScheduleAttribute, builder.getStringAttr(name));
    function->setAttr(kStageMeshesAttribute, builder.getI64IntegerAttr(meshCount));
    Stages cut(function);
    return success(succeeded(cut.verify()) &&
                   succeeded(StagePhases(block).verifyDirection(cut, MicroBatches(block))));
  }
};

} // namespace
