// SPDX-License-Identifier: Apache-2.0
// One walk over the block in the order in which it will run.
#include "autopar/Transforms/RecomputeProblem.h"

#include "Cost/KernelTime.h"
#include "Cost/OpTime.h"
#include "Cost/RepeatedBlocks.h"
#include "ShareGathers.h"
#include "SplitKernels.h"
#include "Stages/Recompute.h"
#include "Stages/StagePhases.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/MicroBatches.h"
#include "autopar/Transforms/Sharding.h"
#include "llvm/ADT/StringMap.h"

#include <map>
#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::RecomputeOp;
using ::autopar::RecomputeProblem;
using ::autopar::RecomputeValue;
using ::autopar::StagePhase;

/// Buffers are placed at multiples of this.
static constexpr int64_t kAlignment = 64;

StringRef mlir::autopar::wholeOf(StringRef id) {
  id.consume_back(kReshardSuffix);
  id = id.substr(0, id.rfind(kScaledInfix));
  return id.substr(0, id.find(kGroupedInfix)); // of a part of the groups, of one of them
}

static int64_t bufferBytes(Value value) {
  int64_t bytes = tensorBytes(tensorTypeOf(value));
  if (auto result = dyn_cast<OpResult>(value)) {
    SmallVector<RankedTensorType> types;
    for (Value other : result.getOwner()->getResults())
      types.push_back(tensorTypeOf(other));
    bytes = bytesOf(result.getOwner(), result.getResultNumber(), types);
  }
  return llvm::alignTo(std::max<int64_t>(bytes, 1), kAlignment);
}

namespace {

/// What the programs of all meshes have in common.
struct Step {
  explicit Step(func::FuncOp function)
      : shared(shareGathers(function)), microBatches(function.getBody().front()), stages(function),
        phases(function.getBody().front()) {
    Block &block = function.getBody().front();
    findWhatRunsAtLoad(block);
    // The next value of a donated argument is stored over it.
    for (auto [value, donor] :
         llvm::zip(block.getTerminator()->getOperands(), donorsOfResults(function)))
      (donor ? inPlace : returned).insert(value);
    for (Operation &op : llvm::reverse(block.without_terminator()))
      if (microBatches.phaseOf(&op) == MicroBatchPhase::Before &&
          llvm::any_of(op.getUsers(), [&](Operation *user) {
            return microBatches.phaseOf(user) == MicroBatchPhase::Each || forAll.contains(user);
          }))
        forAll.insert(&op);
  }

  SmallVector<Operation *> shared; ///< gathers that serve both passes
  MicroBatches microBatches;
  Stages stages;
  StagePhases phases;
  DenseSet<Value> returned, inPlace; ///< by the function; stored over an argument
  DenseSet<Operation *> forAll; ///< runs once, read in every micro-batch, or by something that is
  DenseSet<Operation *> atLoad; ///< runs once, before the first step

private:
  /// Operations on parameters that keep their values, and on what is made of these.
  void findWhatRunsAtLoad(Block &block) {
    auto isKnown = [&](Value value) {
      return isFixedParameter(value) || atLoad.contains(value.getDefiningOp());
    };
    for (Operation &op : block.without_terminator())
      if (llvm::any_of(op.getOperands(), isKnown) &&
          llvm::all_of(op.getOperands(),
                       [&](Value operand) {
                         Operation *source = operand.getDefiningOp();
                         return isKnown(operand) ||
                                (source && source->hasTrait<OpTrait::ConstantLike>());
                       }) &&
          mayRunAtLoad(&op))
        atLoad.insert(&op);
  }
};

class MeshProgram {
public:
  MeshProgram(func::FuncOp function, const Step &step, const ::autopar::Schedule &schedule,
              int32_t mesh, const ::autopar::Mesh &devices, const ::autopar::Cluster &cluster,
              Target target, function_ref<bool(Operation *)> isKnown)
      : function(function), block(function.getBody().front()), schedule(schedule), mesh(mesh),
        isKnown(isKnown), times(cluster, devices, /*convolves=*/target == Target::Cpu),
        microBatches(step.microBatches), stages(step.stages), phases(step.phases),
        shared(step.shared), returned(step.returned), inPlace(step.inPlace), forAll(step.forAll),
        atLoad(step.atLoad) {}

  RecomputeProblem run() {
    addArguments();
    for (Operation &op : block.without_terminator())
      add(&op);
    order();
    return std::move(problem);
  }

private:
  bool isOn(int64_t stage) const { return schedule.meshOf(std::max<int64_t>(stage, 0)) == mesh; }

  /// What is on no stage is made where it is read.
  bool isHere(Operation *op) const {
    if (schedule.meshes == 1)
      return true;
    int64_t stage = stages.of(op);
    if (stage != Stages::kNone)
      return isOn(stage);
    SmallVector<Operation *> worklist{op};
    DenseSet<Operation *> seen;
    while (!worklist.empty())
      for (Operation *user : worklist.pop_back_val()->getUsers()) {
        if (stages.of(user) != Stages::kNone ? isOn(stages.of(user)) && !isa<TransferOp>(user)
                                             : false)
          return true;
        if (stages.of(user) == Stages::kNone && seen.insert(user).second)
          worklist.push_back(user);
      }
    return false;
  }

  /// Whether nothing of a parameter stays but what is made of it at load.
  bool goesAtLoad(BlockArgument argument) const {
    return isFixedParameter(argument) && !argument.use_empty() &&
           llvm::all_of(argument.getUsers(), [&](Operation *user) {
             return atLoad.contains(user) && !isLookedThrough(user);
           });
  }

  /// Parameters, state and inputs are there all the time, but for what lies in host memory.
  void addArguments() {
    for (BlockArgument argument : function.getArguments()) {
      if (goesAtLoad(argument))
        continue;
      int64_t stage = stages.of(argument);
      bool isRead =
          llvm::any_of(argument.getUsers(), [&](Operation *user) { return isHere(user); });
      if (stage == Stages::kNone ? isRead || schedule.meshes == 1 : isOn(stage))
        (isOnHost(argument) ? problem.hostBytes : problem.constantBytes) += bufferBytes(argument);
    }
  }

  /// Rows of the schedule by stage and phase, and those that receive for them ahead. Without stages
  /// a micro-batch is one row.
  int32_t rowOf(int32_t stage, StagePhase phase) const {
    return schedule.stages == 1 ? 0 : 3 * stage + static_cast<int32_t>(phase);
  }
  static constexpr int32_t kUnknown = -2;       ///< until it is known who reads it
  static constexpr int32_t kReceived = 1 << 20; ///< and the row that reads it, once that is known

  int32_t rowOf(Operation *op) const {
    if (microBatches.count() == 1 && schedule.stages == 1)
      return RecomputeOp::kBefore;
    if (microBatches.phaseOf(op) == MicroBatchPhase::After)
      return RecomputeOp::kAfter;
    if (microBatches.phaseOf(op) == MicroBatchPhase::Before && microBatches.count() > 1)
      return forAll.contains(op) ? RecomputeOp::kBefore : RecomputeOp::kAfter;
    int64_t stage = stages.of(op);
    if (stage == Stages::kNone)
      return schedule.stages == 1 ? 0 : kUnknown;
    auto own = static_cast<int32_t>(stage);
    return isa<TransferOp>(op) ? kReceived : rowOf(own, phases.of(op));
  }

  /// The rows of the schedule that have work, each behind what is received by then; operations in
  /// the order in which their rows first run.
  void order() {
    std::set<int32_t> used;
    for (const RecomputeOp &op : problem.ops)
      used.insert(op.row);
    std::vector<int32_t> rows;
    for (const ::autopar::ScheduleRow &row : schedule.rows[mesh])
      if (int32_t number = rowOf(row.stage, row.phase); used.count(number))
        if (schedule.stages > 1 || row.phase == StagePhase::Forward)
          rows.push_back(number);
    placeByReaders(turnsOf(rows));
    for (const RecomputeOp &op : problem.ops)
      used.insert(op.row);
    size_t received = 0;
    for (size_t row = 0; row < rows.size(); ++row) {
      for (; received < std::min(rows.size(), row + 1 + schedule.receivesAhead); ++received)
        if (int32_t ahead = kReceived + rows[received]; used.count(ahead))
          problem.order.push_back(ahead);
      problem.order.push_back(rows[row]);
    }
    std::map<int32_t, size_t> turns = turnsOf(problem.order);
    std::vector<std::pair<size_t, size_t>> places;
    for (auto [index, op] : llvm::enumerate(problem.ops))
      places.emplace_back(turns.at(op.row), index);
    llvm::sort(places);
    std::vector<RecomputeOp> ops;
    for (auto [turn, index] : places)
      ops.push_back(std::move(problem.ops[index]));
    problem.ops = std::move(ops);
  }

  static std::map<int32_t, size_t> turnsOf(ArrayRef<int32_t> rows) {
    std::map<int32_t, size_t> turns{{RecomputeOp::kBefore, 0}, {RecomputeOp::kAfter, SIZE_MAX}};
    for (int32_t row : rows)
      turns.try_emplace(row, turns.size());
    return turns;
  }

  /// What is on no stage is made in the first row that reads it, what another mesh sends is
  /// received for that row.
  void placeByReaders(const std::map<int32_t, size_t> &turns) {
    std::vector<int32_t> firstReader(problem.values.size(), RecomputeOp::kAfter);
    auto makeEarlier = [&](int32_t &row, int32_t other) {
      if (turns.at(other) < turns.at(row))
        row = other;
    };
    for (RecomputeOp &op : llvm::reverse(problem.ops)) {
      if (bool isReceived = op.row == kReceived; isReceived || op.row == kUnknown) {
        op.row = RecomputeOp::kAfter;
        for (int32_t value : op.writes)
          makeEarlier(op.row, firstReader[value]);
        bool isScheduled = op.row != RecomputeOp::kBefore && op.row != RecomputeOp::kAfter;
        if (isReceived) {
          op.row += isScheduled ? kReceived : 0;
          continue;
        }
      }
      for (int32_t value : op.reads)
        makeEarlier(firstReader[value], op.row);
    }
  }

  int32_t addValue(Value value, bool fromStart = false, bool toEnd = false) {
    RecomputeValue entry;
    entry.bytes = bufferBytes(value);
    entry.fromStart = fromStart;
    entry.toEnd = toEnd;
    problem.values.push_back(entry);
    return places[value] = static_cast<int32_t>(problem.values.size()) - 1;
  }

  void add(Operation *op) {
    if (!isHere(op)) {
      // Whoever sends reads here.
      if (auto transfer = dyn_cast<TransferOp>(op);
          transfer && places.contains(transfer.getInput())) {
        RecomputeOp send;
        read(transfer.getInput(), send);
        Operation *producer = transfer.getInput().getDefiningOp();
        send.isBackward = phases.isBackward(producer);
        send.row = rowOf(producer);
        problem.ops.push_back(send);
      }
      return;
    }
    if (op->hasTrait<OpTrait::ConstantLike>())
      return;
    if (isLookedThrough(op) || (isa<TransferOp>(op) && places.contains(op->getOperand(0)))) {
      if (auto place = places.find(op->getOperand(0)); place != places.end())
        for (Value result : op->getResults())
          places[result] = place->second;
      return;
    }
    RecomputeOp entry;
    entry.id = getOpId(op).str();
    entry.isBackward = phases.isBackward(op) && !forAll.contains(op);
    entry.row = rowOf(op);
    for (Value operand : op->getOperands())
      read(operand, entry);
    for (Value result : op->getResults()) {
      if (inPlace.contains(result))
        continue;
      bool isSum = llvm::any_of(result.getUsers(), llvm::IsaPred<CarryOp>);
      bool fromStart = isa<CarriedOp, StackMicroBatchesOp>(op) || atLoad.contains(op);
      bool toEnd =
          isSum || atLoad.contains(op) || isa<StackMicroBatchesOp>(op) || returned.contains(result);
      if (isa<CarryOp>(op))
        continue; // the sum that it hands on
      entry.writes.push_back(addValue(result, fromStart, toEnd));
    }
    bool isOfEach = microBatches.count() == 1 || microBatches.runsOf(op) > 1;
    entry.mayRecompute = !entry.isBackward && isOfEach && mayRecompute(op) && isKnown(op) &&
                         llvm::none_of(op->getResults(), [&](Value result) {
                           return returned.contains(result) || inPlace.contains(result);
                         });
    bool isShared = llvm::is_contained(shared, op);
    double us = entry.mayRecompute || isShared
                    ? static_cast<double>(microBatches.runsOf(op)) * times.us(op)
                    : 0;
    entry.timeUs = entry.mayRecompute ? us : 0;
    problem.sharedUs += isShared ? us : 0;
    problem.ops.push_back(std::move(entry));
  }

  void read(Value value, RecomputeOp &entry) {
    auto place = places.find(value);
    if (place != places.end() && !llvm::is_contained(entry.reads, place->second))
      entry.reads.push_back(place->second);
  }

  func::FuncOp function;
  Block &block;
  const ::autopar::Schedule &schedule;
  int32_t mesh;
  function_ref<bool(Operation *)> isKnown;
  KernelTime times;
  const MicroBatches &microBatches;
  const Stages &stages;
  const StagePhases &phases;
  ArrayRef<Operation *> shared;
  const DenseSet<Value> &returned, &inPlace;
  const DenseSet<Operation *> &forAll, &atLoad;
  RecomputeProblem problem;
  DenseMap<Value, int32_t> places;
};

} // namespace

/// An id that several operations have names none of them; and what stands behind the first
/// derivative belongs to the update, which nothing waits for.
static void dropUnfit(RecomputeProblem &problem) {
  llvm::StringMap<int> count;
  for (const RecomputeOp &op : problem.ops)
    ++count[op.id];
  bool isForward = true;
  for (RecomputeOp &op : problem.ops) {
    isForward &= !op.isBackward;
    op.mayRecompute &= isForward && count[op.id] == 1;
  }
}

::autopar::Result<std::vector<RecomputeProblem>>
mlir::autopar::recomputeProblems(func::FuncOp function, const ::autopar::Plan &plan,
                                 const ::autopar::Cluster &cluster, Target target,
                                 function_ref<bool(Operation *)> isKnown) {
  ::autopar::Result<::autopar::Schedule> schedule = scheduleOf(function);
  if (!schedule)
    return schedule.status();
  ::autopar::Result<std::vector<::autopar::Mesh>> meshes = plan.stageMeshes();
  if (!meshes)
    return meshes.status();
  // A kernel that runs again may begin with what it stored.
  for (SplitKernel &kernel : splitKernels(function, target, [](auto, auto) { return true; }))
    kernel.whole.erase();
  Step step(function);
  std::vector<RecomputeProblem> problems;
  for (int32_t mesh = 0; mesh < schedule->meshes; ++mesh) {
    problems.push_back(
        MeshProgram(function, step, *schedule, mesh, (*meshes)[mesh], cluster, target, isKnown)
            .run());
    dropUnfit(problems.back());
    problems.back().layers = layersOf(problems.back());
  }
  return problems;
}

/// How far behind the start of a period layers are cut: where those of their operations that write
/// what the next layer reads, and so are not computed again, write the least. `candidates` are the
/// operations that the stretch is of.
static size_t bestCut(const RecomputeProblem &problem, ArrayRef<int32_t> candidates,
                      const Stretch &stretch) {
  std::vector<int32_t> lastReader(problem.values.size(), -1);
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (!problem.ops[i].isBackward)
      for (int32_t value : problem.ops[i].reads)
        lastReader[value] = static_cast<int32_t>(i);
  auto handedOn = [&](int32_t cut) {
    int64_t bytes = 0;
    for (int32_t i : candidates.take_while([&](int32_t candidate) { return candidate < cut; })) {
      ArrayRef<int32_t> writes = problem.ops[i].writes;
      if (llvm::any_of(writes, [&](int32_t value) { return lastReader[value] >= cut; }))
        for (int32_t value : writes)
          bytes += problem.values[value].bytes;
    }
    return bytes;
  };
  size_t middle = stretch.start + stretch.copies / 2 * stretch.period, best = 0;
  int64_t least = std::numeric_limits<int64_t>::max();
  for (size_t behind = 0; behind < stretch.period; ++behind)
    if (int64_t bytes = handedOn(candidates[middle + behind]); bytes < least) {
      least = bytes;
      best = behind;
    }
  return best;
}

std::vector<std::vector<int32_t>> mlir::autopar::layersOf(const RecomputeProblem &problem) {
  // Operations that take and write the same are of one kind.
  std::map<std::pair<double, std::vector<int64_t>>, size_t> numbers;
  std::vector<size_t> kinds;
  std::vector<int32_t> forward;
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const RecomputeOp &op = problem.ops[i];
    if (!op.mayRecompute)
      continue;
    std::vector<int64_t> bytes;
    for (int32_t value : op.writes)
      bytes.push_back(problem.values[value].bytes);
    kinds.push_back(numbers.try_emplace({op.timeUs, bytes}, numbers.size()).first->second);
    forward.push_back(static_cast<int32_t>(i));
  }
  Stretch stretch = longestRepetition(kinds);
  std::vector<std::vector<int32_t>> layers;
  if (stretch.copies < 2)
    stretch = {0, forward.size(), forward.empty() ? 0u : 1u};
  size_t cut = stretch.copies < 2 ? 0 : bestCut(problem, forward, stretch);
  // What stands before the first cut is a layer too.
  size_t ahead = cut == 0 ? 0 : stretch.period - cut;
  std::vector<int64_t> layerOf(problem.ops.size(), -1), producer(problem.values.size(), -1);
  layers.resize(stretch.copies + (cut == 0 ? 0 : 1));
  std::vector<char> isHandedOn(problem.ops.size(), 0);
  for (size_t i = stretch.start; i < stretch.end(); ++i)
    layerOf[forward[i]] = static_cast<int64_t>((i - stretch.start + ahead) / stretch.period);
  for (size_t i = 0; i < problem.ops.size(); ++i) {
    const RecomputeOp &op = problem.ops[i];
    for (int32_t value : op.writes)
      producer[value] = static_cast<int64_t>(i);
    for (int32_t value : op.reads)
      if (!op.isBackward && layerOf[producer[value]] != layerOf[i])
        isHandedOn[producer[value]] = 1;
  }
  for (size_t i = 0; i < problem.ops.size(); ++i)
    if (layerOf[i] >= 0 && !isHandedOn[i] && problem.ops[i].mayRecompute)
      layers[layerOf[i]].push_back(static_cast<int32_t>(i));
  return layers;
}
