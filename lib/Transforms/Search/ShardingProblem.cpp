// SPDX-License-Identifier: Apache-2.0
// Builds the nodes of the cost graph of a function on a mesh: arguments, operations and results,
// what each may choose, and what that takes and holds. Lists of shardings are interned, so that a
// layer's copies share them. What lies between two nodes is in ShardingEdges.cpp.
#include "ShardingProblem.h"

#include "RestingShare.h"

#include "Cost/BalancedAttention.h"
#include "Cost/OpTime.h"
#include "Cost/RepeatedBlocks.h"
#include "Stages/StepPhase.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/AtLoad.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"
#include "autopar/Transforms/SearchHandoff.h"

using namespace mlir;
using namespace mlir::autopar;

/// All ways to lay a complete tensor on the mesh.
static SmallVector<TensorSharding> enumerateShardings(RankedTensorType type, const MeshAxes &mesh) {
  ShardingRule rule;
  rule.results.emplace_back(type.getRank());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    rule.addFactor({}, {dim}, type.getDimSize(dim));
  SmallVector<TensorSharding> shardings;
  for (const FactorAxes &axes : enumerateStrategies(rule, mesh))
    shardings.push_back(resultSharding(rule, axes, 0));
  return shardings;
}

//===-- Construction -------------------------------------------------------------------------===//

ShardingProblem::ShardingProblem(const StepOutline &outline, const ::autopar::Schedule &schedule,
                                 std::vector<::autopar::Mesh> ownMeshes,
                                 const ::autopar::Cluster &cluster, double assumedInFlight,
                                 double largestShare, const ComputedAgain *again,
                                 double waitedShare)
    : outline(outline), function(outline.getFunction()), meshes(std::move(ownMeshes)),
      cluster(cluster), pipeline(outline, schedule, meshes, cluster),
      assumedInFlight(assumedInFlight), largestShare(largestShare),
      isWaitedShareGiven(waitedShare > 0), again(again) {
  addSites();
  for (Site &site : sites) {
    site.leftShare = findLeftShare(site);
    site.waitedShare = waitedShare > 0 ? waitedShare : site.leftShare;
  }
  addArguments();
  for (size_t position = 0; position < operations().size(); ++position)
    addOperation(position);
  addResults();
  addFollowers();
  markRepeatedBlocks();
}

void ShardingProblem::addSites() {
  SmallVector<MeshAxes> all;
  auto addSite = [&](const MeshAxes &axes, const ::autopar::Mesh &mesh) {
    Site &site = sites.emplace_back();
    site.axes = axes;
    site.mesh = &mesh;
    site.device = &cluster.slowestOf(mesh.devices);
    site.kinds.resize(outline.kindCount());
  };
  for (const ::autopar::Mesh &mesh : meshes) {
    MeshAxes &axes = all.emplace_back();
    axes.symbol = FlatSymbolRefAttr::get(function.getContext(), mesh.name);
    for (const ::autopar::MeshAxis &axis : mesh.axes) {
      axes.names.push_back(axis.name);
      axes.sizes.push_back(axis.size);
    }
    const ::autopar::DeviceType *device = &cluster.slowestOf(mesh.devices);
    auto found = llvm::find_if(sites, [&](const Site &site) {
      return site.axes.sizes == axes.sizes && site.device == device;
    });
    siteNumbers.push_back(found - sites.begin());
    if (found == sites.end())
      addSite(axes, mesh);
  }
  stageMeshes = StageMeshes(all);
  if (sites.size() > 1)
    addSite(meshAxes(), meshes.front());
}

/// Parameters are gathered ahead (autopar-gather-ahead), and gradients reduced, while other things
/// compute: only what that does not hide is waited for. A quarter is counted at the least. What
/// stands beside something else waits, first gathers and last reductions hide behind nothing, and
/// without a price everything would be split. Where all that could be moved takes longer than what
/// computes, what is left over.
double ShardingProblem::findLeftShare(Site &site) {
  // A row of a schedule is short: what its first kernels read has nothing to hide behind.
  if (site.device->communicatesWhileIdle || meshes.size() > 1 || largestShare < 1)
    return 1;
  AxisList all =
      llvm::to_vector<2>(llvm::seq<int8_t>(0, static_cast<int8_t>(site.axes.sizes.size())));
  const ::autopar::MeshGroup &group = groupOf(all, site);
  double computeUs = 0, movedUs = 0;
  std::vector<double> known(outline.kindCount(), -1);
  for (auto [position, entry] : llvm::enumerate(operations())) {
    Operation *op = entry.first;
    auto runs = static_cast<double>(outline.microBatches().runsOf(op));
    double &us = known[outline.kindOf(position)];
    if (isa<HoldOp>(op)) {
      if (us < 0)
        us = ::autopar::collectiveTimeUs(
            ::autopar::CollectiveKind::AllGather,
            static_cast<double>(tensorBytes(tensorTypeOf(op->getResult(0)))), group);
      movedUs += op->hasAttr(MicroBatches::everyTime) ? runs * us : us;
    } else if (!livesInUsers(op)) {
      if (us < 0)
        us = wholeTimeUs(op, *site.device) / static_cast<double>(site.mesh->deviceCount());
      computeUs += runs * us;
    }
  }
  return movedUs > 0 ? std::clamp(1 - computeUs / movedUs, kLeastWaitedShare, 1.0) : 1;
}

/// What is on no stage may be made on any mesh, so it has to fit all of them.
const ShardingProblem::Layouts &ShardingProblem::layoutsOf(RankedTensorType type, int64_t stage) {
  auto [known, isNew] = layouts.try_emplace({type.getAsOpaquePointer(), stage});
  if (!isNew)
    return known->second;
  SmallVector<TensorSharding> found = enumerateShardings(type, siteOf(stage).axes);
  auto fits = [&](const TensorSharding &sharding, const MeshAxes &mesh) {
    return llvm::all_of(llvm::zip_equal(type.getShape(), sharding.dims), [&](auto pair) {
      auto [extent, axes] = pair;
      int64_t shards = mesh.shards(axes);
      return shards == 1 || (shards - 1) * shardExtent(extent, shards) < extent;
    });
  };
  if (stage == Stages::kNone)
    llvm::erase_if(found, [&](const TensorSharding &sharding) {
      return llvm::any_of(sites, [&](const Site &site) { return !fits(sharding, site.axes); });
    });
  for (const TensorSharding &sharding : found)
    known->second.bytes.push_back(tensorBytes(localType(type, sharding, siteOf(stage).axes)));
  known->second.list = intern(std::move(found));
  return known->second;
}

bool ShardingProblem::changesShape(TransferOp op) const {
  int64_t from = stageOf(op.getInput());
  return from != Stages::kNone &&
         !stageMeshes.areAlike(stageMeshes.numberOf(from), stageMeshes.numberOf(op.getStage()));
}

void ShardingProblem::reserve(int32_t mesh, int64_t bytes) {
  ::autopar::CostNode node;
  node.id = "reserved";
  node.strategies.emplace_back().liveBytes = bytes;
  node.live.push_back({mesh * outline.timePoints(), (mesh + 1) * outline.timePoints()});
  followed.push_back(costGraph.addNode(std::move(node)));
  if (!costGraph.blocks.empty())
    costGraph.blocks.emplace_back(); // in none
}

int32_t ShardingProblem::memberId(const TensorSharding &sharding) {
  std::string key;
  for (const AxisList &dim : sharding.dims) {
    key.append(dim.begin(), dim.end());
    key += '\x7f';
  }
  key.append(sharding.partial.begin(), sharding.partial.end());
  key += static_cast<char>('\x40' + static_cast<int>(sharding.reduction));
  return memberIds.try_emplace(std::move(key), memberIds.size()).first->second;
}

int32_t ShardingProblem::intern(SmallVector<TensorSharding> list) {
  SmallVector<int32_t> members;
  for (const TensorSharding &sharding : list)
    members.push_back(memberId(sharding));
  auto [it, isNew] = listIds.try_emplace(members, lists.size());
  if (isNew) {
    lists.push_back(std::move(list));
    listMembers.push_back(std::move(members));
  }
  return it->second;
}

/// Meshes have a memory each: with stages, each has a stretch of time points of its own.
::autopar::LiveInterval ShardingProblem::onMesh(Value value, ::autopar::LiveInterval live) const {
  int64_t shift = pipeline.meshOf(value) * outline.timePoints();
  return {live.begin + shift, live.end + shift};
}

void ShardingProblem::addArguments() {
  for (BlockArgument argument : function.getArguments()) {
    auto type = tensorTypeOf(argument);
    bool isParameter = function.getArgAttr(argument.getArgNumber(), "autopar.origin") ||
                       function.getArgAttr(argument.getArgNumber(), "autopar.donated");
    ::autopar::CostNode node;
    node.id = planNameOfArgument(function, argument.getArgNumber());
    const Layouts &layouts = layoutsOf(type, stageOf(argument));
    double share = !isParameter                 ? 1
                   : isFixedParameter(argument) ? largestShare * restingShare(argument)
                                                : largestShare;
    double hostBytesPerUs = siteOf(stageOf(argument)).device->hostLink.bytesPerSecond / 1e6;
    for (int64_t bytes : layouts.bytes) {
      ::autopar::Strategy strategy;
      if (isOnHost(argument)) { // the window that is on the device is small beside the rest
        strategy.timeUs = static_cast<double>(bytes) / hostBytesPerUs;
        node.strategies.push_back(strategy);
        continue;
      }
      bool isEverywhere = isParameter && pipeline.meshes() == 1;
      (isEverywhere ? strategy.persistentBytes : strategy.liveBytes) =
          share == 1 ? bytes : static_cast<int64_t>(share * static_cast<double>(bytes));
      node.strategies.push_back(strategy);
    }
    if (!isParameter)
      node.live.push_back(onMesh(argument, outline.liveOf(argument)));
    else if (pipeline.meshes() > 1)
      node.live.push_back(onMesh(argument, {0, outline.timePoints()}));
    sources[argument] = {costGraph.addNode(std::move(node)), layouts.list};
    argumentLists.push_back(layouts.list);
    strategies.push_back(nullptr);
  }
}

/// Whether the result takes no memory: computed inside its users, and no table of numbers, or made
/// part by part.
static bool takesNoMemory(Operation *op, const ::autopar::DeviceType &device) {
  return (livesInUsers(op) && (!op->hasTrait<OpTrait::ConstantLike>() || isSplat(op))) ||
         (device.cudaChip == 0 && isMadeInParts(op));
}

double ShardingProblem::opTimeUs(Operation *op, const ShardingRule &rule,
                                 const FactorAxes &factorAxes, const KernelTraffic &traffic,
                                 Site &site) {
  if (livesInUsers(op) || isa<HoldOp>(op))
    return 0;
  SmallVector<RankedTensorType> operands, results;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(
        localType(tensorTypeOf(operand), operandSharding(rule, factorAxes, index), site.axes));
  for (OpResult result : op->getResults())
    results.push_back(localType(tensorTypeOf(result),
                                resultSharding(rule, factorAxes, result.getResultNumber()),
                                site.axes));
  double us = mlir::autopar::opTimeUs(op, operands, results, traffic, *site.device);
  if (std::optional<int64_t> rows = triangleRowsFactor(op, rule))
    if (const AxisList &axes = factorAxes[*rows]; !axes.empty())
      us = std::min(us, balancedAttentionUs(op, operands, results, site.axes.shards(axes),
                                            *site.device, groupOf(axes, site))
                            .value_or(us));
  return us;
}

ShardingProblem::OpKind ShardingProblem::makeKind(Operation *op, int64_t stage) {
  OpKind kind;
  ShardingRule rule = shardingRuleOf(op);
  Site &site = siteOf(stage);
  kind.choices = enumerateStrategies(rule, site.axes);
  if (sites.size() > 1 && stage == Stages::kNone)
    llvm::erase_if(kind.choices, [&](const FactorAxes &choice) {
      return !stageMeshes.isLegal(rule, choice, stage);
    });
  if (isSplat(op))
    kind.choices.truncate(1);
  KernelTraffic traffic = kernelTrafficOf(op);
  for (const FactorAxes &choice : kind.choices) {
    ::autopar::Strategy strategy;
    double us = opTimeUs(op, rule, choice, traffic, site);
    strategy.timeUs =
        std::isinf(us) ? ::autopar::kForbidden : outline.microBatches().runsOf(op) * us;
    SmallVector<RankedTensorType> results;
    for (OpResult result : op->getResults())
      results.push_back(localType(
          tensorTypeOf(result), resultSharding(rule, choice, result.getResultNumber()), site.axes));
    kind.resultBytes.resize(results.size());
    for (unsigned number = 0; number < results.size(); ++number)
      kind.resultBytes[number].push_back(
          takesNoMemory(op, *site.device) ? 0 : bytesOf(op, number, results));
    strategy.liveBytes = kind.resultBytes.front().back();
    kind.strategies.push_back(std::move(strategy));
  }
  kind.fixedResults = rule.fixedResults;
  if (auto hold = dyn_cast<HoldOp>(op)) {
    kind.operands = hold.getUnreduced() ? Change::Reduction : Change::CopyOrNone;
    if (kind.operands == Change::CopyOrNone && takesOver(hold))
      kind.operands = Change::Any;
    if (kind.operands == Change::CopyOrNone)
      addUnchanged(kind);
  }
  for (unsigned number = 0; number < op->getNumOperands(); ++number) {
    SmallVector<TensorSharding> wanted;
    for (const FactorAxes &choice : kind.choices)
      wanted.push_back(operandSharding(rule, choice, number));
    kind.operandLists.push_back(intern(std::move(wanted)));
  }
  for (unsigned number = 0; number < op->getNumResults(); ++number) {
    SmallVector<TensorSharding> given;
    for (const FactorAxes &choice : kind.choices)
      given.push_back(resultSharding(rule, choice, number));
    kind.resultLists.push_back(intern(std::move(given)));
  }
  return kind;
}

/// In front of the strategies that copy the operand, those that take it as it lies.
void ShardingProblem::addUnchanged(OpKind &kind) {
  SmallVector<FactorAxes> choices = kind.choices;
  std::vector<::autopar::Strategy> copies = kind.strategies;
  for (::autopar::Strategy &strategy : kind.strategies)
    strategy.liveBytes = 0;
  llvm::append_range(kind.choices, choices);
  llvm::append_range(kind.strategies, copies);
  std::vector<int64_t> &bytes = kind.resultBytes.front(); // a hold has one result
  bytes.insert(bytes.begin(), choices.size(), 0);
}

/// How many times a result is held at once. An assumed stage holds its share of what lives for a
/// step, and of what waits for the backward pass that of each micro-batch in flight; what lives
/// within a layer is on one stage as a whole.
double ShardingProblem::copiesOf(OpResult result) const {
  Operation *op = result.getOwner();
  bool waits = again ? again->waitsForBackward(result) : outline.waitsForBackward(result);
  if (largestShare == 1)
    return waits ? static_cast<double>(pipeline.inFlight(op)) : 1;
  const MicroBatches &microBatches = outline.microBatches();
  if (microBatches.runsOf(op) == 1 || MicroBatches::joins(op))
    return largestShare;
  return waits ? largestShare * std::min(assumedInFlight, static_cast<double>(microBatches.count()))
               : 1;
}

void ShardingProblem::addLives(::autopar::CostNode &node, OpResult result) const {
  if (!again) {
    node.live.push_back(onMesh(result, outline.liveOf(result)));
    return;
  }
  for (::autopar::LiveInterval live : again->livesOf(result))
    node.live.push_back(onMesh(result, live));
}

void ShardingProblem::checkMeasured(Operation *op, const OpKind &kind) {
  bool isKnown = llvm::any_of(kind.strategies, [](const ::autopar::Strategy &strategy) {
    return !::autopar::isForbidden(strategy.timeUs);
  });
  if (isKnown || !problem.isOk())
    return;
  RankedTensorType least;
  ShardingRule rule = shardingRuleOf(op);
  const Site &site = siteOf(outline.stages().of(op));
  for (const FactorAxes &choice : kind.choices)
    if (RankedTensorType type =
            localType(tensorTypeOf(op->getOperand(0)), operandSharding(rule, choice, 0), site.axes);
        !least || type.getNumElements() < least.getNumElements())
      least = type;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "\"" << operations()[outline.positionOf(op)].second
      << "\" was measured on none of the sizes that it has on mesh ";
  llvm::interleave(
      site.mesh->axes, out,
      [&](const ::autopar::MeshAxis &axis) { out << axis.name << "=" << axis.size; }, ",");
  out << ": it reads " << least << " at the least, " << least.getDimSize(0)
      << " samples at a time; measure that, or use more micro-batches";
  problem = ::autopar::Status::badInput(text);
}

void ShardingProblem::addOperation(size_t position) {
  auto &[op, id] = operations()[position];
  int64_t stage = outline.stages().of(op), near = stage;
  std::optional<OpKind> &known = siteOf(stage).kinds[outline.kindOf(position)];
  if (!known)
    known = makeKind(op, stage);
  const OpKind &kind = *known;
  checkMeasured(op, kind);
  ::autopar::CostNode node;
  node.id = id;
  node.strategies = kind.strategies;
  addLives(node, op->getResult(0));
  // What is made narrower at load is counted with the parameter.
  if (double copies = narrowsAtLoad(op) ? 0 : copiesOf(op->getResult(0)); copies != 1)
    for (::autopar::Strategy &strategy : node.strategies)
      strategy.liveBytes = static_cast<int64_t>(copies * static_cast<double>(strategy.liveBytes));
  if (isAgain(op))
    for (::autopar::Strategy &strategy : node.strategies)
      strategy.timeUs = std::min(2 * strategy.timeUs, ::autopar::kForbidden);
  int32_t index = costGraph.addNode(std::move(node));
  Change change = kind.operands;
  int64_t target = Stages::kNone;
  if (auto transfer = dyn_cast<TransferOp>(op)) {
    // What is sent is resharded where it is.
    if (int64_t from = stageOf(transfer.getInput()); from != Stages::kNone)
      near = from;
    if (changesShape(transfer)) {
      change = Change::Send;
      target = stage;
    }
  }
  int64_t runs = op->hasAttr(MicroBatches::everyTime) ? outline.microBatches().runsOf(op) : 1;
  if (auto hold = dyn_cast<HoldOp>(op); hold && isAgain(op) && !again->isGatheredAnyway(hold))
    runs *= 2;
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    if (!isSplat(operand.getDefiningOp()))
      connect(operand, index, kind.operandLists[number], near, change,
              change == Change::Send && isFixed(operand) ? 0 : runs, target, isAgain(op));
  for (OpResult result : op->getResults())
    sources[result] = {index, kind.resultLists[result.getResultNumber()],
                       llvm::is_contained(kind.fixedResults, result.getResultNumber())};
  strategies.push_back(&kind.choices);
}

/// The next value of a donated argument lies as the argument does: it gets no choice of its own.
void ShardingProblem::addResults() {
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto type = tensorTypeOf(operand.get());
    if (BlockArgument donor = outline.donorOf(operand.getOperandNumber())) {
      int32_t argument = donor.getArgNumber(), list = argumentLists[argument];
      if (operand.get() != donor)
        connect(operand.get(), argument, list, stageOf(donor));
      resultLists.push_back(list);
      resultNodes.push_back(argument);
      continue;
    }
    ::autopar::CostNode node;
    node.id = planNameOfResult(function, operand.getOperandNumber());
    int32_t list = layoutsOf(type, stageOf(operand.get())).list;
    node.strategies.resize(lists[list].size());
    int32_t index = costGraph.addNode(std::move(node));
    connect(operand.get(), index, list, stageOf(operand.get()));
    resultLists.push_back(list);
    resultNodes.push_back(index);
    strategies.push_back(nullptr);
  }
}

/// Results of an operation live differently long: all but the first get nodes of their own, with no
/// choice of their own.
void ShardingProblem::addFollowers() {
  firstFollower = static_cast<int32_t>(costGraph.nodes.size());
  std::map<size_t, int32_t> diagonals; // matrices by extent
  for (auto [position, entry] : llvm::enumerate(operations())) {
    Operation *op = entry.first;
    const OpKind &kind = *siteOf(outline.stages().of(op)).kinds[outline.kindOf(position)];
    auto leader = static_cast<int32_t>(argumentLists.size() + position);
    for (OpResult result : op->getResults().drop_front()) {
      const std::vector<int64_t> &bytes = kind.resultBytes[result.getResultNumber()];
      if (llvm::all_of(bytes, [](int64_t own) { return own == 0; }))
        continue;
      double copies = copiesOf(result);
      ::autopar::CostNode node;
      node.id = entry.second + "#" + std::to_string(result.getResultNumber());
      addLives(node, result);
      for (int64_t own : bytes) {
        ::autopar::Strategy &strategy = node.strategies.emplace_back();
        strategy.liveBytes = static_cast<int64_t>(copies * static_cast<double>(own));
      }
      size_t count = bytes.size();
      auto [diagonal, isNew] = diagonals.try_emplace(count, 0);
      if (isNew) {
        std::vector<double> matrix(count * count, ::autopar::kForbidden);
        for (size_t i = 0; i < count; ++i)
          matrix[i * count + i] = 0;
        diagonal->second = costGraph.addMatrix(std::move(matrix));
      }
      costGraph.addEdge(leader, costGraph.addNode(std::move(node)), diagonal->second);
      followed.push_back(leader);
    }
  }
}

//===-- Repeated blocks ----------------------------------------------------------------------===//

void ShardingProblem::markRepeatedBlocks() {
  OperationSequence sequence;
  sequence.firstNode = function.getNumArguments();
  StepPhase phases;
  StringRef phase = "forward";
  sequence.phases.push_back(0);
  for (size_t i = 0; i < operations().size(); ++i) {
    Operation *op = operations()[i].first;
    sequence.kinds.push_back(
        (outline.kindOf(i) * sites.size() + siteNumberOf(outline.stages().of(op))) * 2 +
        (isAgain(op) ? 1 : 0));
    StringRef before = std::exchange(phase, phases.of(op));
    if (phase != before)
      sequence.phases.push_back(i);
  }
  costGraph.blocks = findRepeatedBlocks(costGraph, sequence);
}
