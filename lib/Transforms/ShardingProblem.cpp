// SPDX-License-Identifier: Apache-2.0
// Builds the cost graph of a function on a mesh. Arguments, operations and results are nodes; edges
// carry the time of the resharding that two choices imply. Lists of shardings and matrices are
// interned, so that a layer's copies share them.
#include "ShardingProblem.h"

#include "OpTime.h"
#include "RepeatedBlocks.h"
#include "autopar/Cost/CostModel.h"
#include "autopar/Interfaces/ElementTypes.h"

using namespace mlir;
using namespace mlir::autopar;

SmallVector<TensorSharding> mlir::autopar::enumerateShardings(RankedTensorType type,
                                                              const MeshAxes &mesh) {
  ShardingRule rule;
  rule.results.emplace_back(type.getRank());
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    rule.addFactor({}, {dim}, type.getDimSize(dim));
  SmallVector<TensorSharding> shardings;
  for (const FactorAxes &axes : enumerateStrategies(rule, mesh))
    shardings.push_back(resultSharding(rule, axes, 0));
  return shardings;
}

//===-- Construction
//------------------------------------------------------------------------------===//

ShardingProblem::ShardingProblem(const StepOutline &outline, const ::autopar::Schedule &schedule,
                                 const ::autopar::Mesh &mesh, const ::autopar::Cluster &cluster,
                                 int64_t assumedStages, double largestShare)
    : outline(outline), function(outline.getFunction()), mesh(mesh), cluster(cluster),
      device(cluster.typeOfDevice(mesh.devices.front())), pipeline(outline, schedule, cluster),
      assumedStages(assumedStages), largestShare(largestShare), kinds(outline.kindCount()) {
  axes.symbol = FlatSymbolRefAttr::get(function.getContext(), mesh.name);
  for (const ::autopar::MeshAxis &axis : mesh.axes) {
    axes.names.push_back(axis.name);
    axes.sizes.push_back(axis.size);
  }
  addArguments();
  for (size_t position = 0; position < operations().size(); ++position)
    addOperation(position);
  addResults();
  addFollowers();
  markRepeatedBlocks();
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
    SmallVector<TensorSharding> shardings = enumerateShardings(type, axes);
    for (const TensorSharding &sharding : shardings) {
      int64_t bytes = bytesOf(localType(type, sharding, axes));
      ::autopar::Strategy strategy;
      bool isEverywhere = isParameter && pipeline.meshes() == 1;
      (isEverywhere ? strategy.persistentBytes : strategy.liveBytes) =
          isParameter ? static_cast<int64_t>(largestShare * static_cast<double>(bytes)) : bytes;
      node.strategies.push_back(strategy);
    }
    if (!isParameter)
      node.live.push_back(onMesh(argument, outline.liveOf(argument)));
    else if (pipeline.meshes() > 1)
      node.live.push_back(onMesh(argument, {0, outline.timePoints()}));
    int32_t list = intern(std::move(shardings));
    sources[argument] = {costGraph.addNode(std::move(node)), list};
    argumentLists.push_back(list);
    strategies.push_back(nullptr);
  }
}

/// Whether the result takes no memory: computed inside its users, and no table of numbers.
static bool takesNoMemory(Operation *op) {
  return livesInUsers(op) && (!op->hasTrait<OpTrait::ConstantLike>() || isSplat(op));
}

double ShardingProblem::opTimeUs(Operation *op, const ShardingRule &rule,
                                 const FactorAxes &factorAxes) const {
  if (livesInUsers(op) || isa<HoldOp>(op))
    return 0;
  SmallVector<RankedTensorType> operands, results;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(
        localType(tensorTypeOf(operand), operandSharding(rule, factorAxes, index), axes));
  for (OpResult result : op->getResults())
    results.push_back(localType(tensorTypeOf(result),
                                resultSharding(rule, factorAxes, result.getResultNumber()), axes));
  return mlir::autopar::opTimeUs(op, operands, results, device);
}

ShardingProblem::OpKind ShardingProblem::makeKind(Operation *op) {
  OpKind kind;
  ShardingRule rule = shardingRuleOf(op);
  kind.choices = enumerateStrategies(rule, axes);
  if (isSplat(op))
    kind.choices.truncate(1);
  for (const FactorAxes &choice : kind.choices) {
    ::autopar::Strategy strategy;
    double us = opTimeUs(op, rule, choice);
    strategy.timeUs =
        std::isinf(us) ? ::autopar::kForbidden : outline.microBatches().runsOf(op) * us;
    SmallVector<RankedTensorType> results;
    for (OpResult result : op->getResults())
      results.push_back(localType(tensorTypeOf(result),
                                  resultSharding(rule, choice, result.getResultNumber()), axes));
    kind.resultBytes.resize(results.size());
    for (unsigned number = 0; number < results.size(); ++number)
      kind.resultBytes[number].push_back(takesNoMemory(op) ? 0 : bytesOf(op, number, results));
    strategy.liveBytes = kind.resultBytes.front().back();
    kind.strategies.push_back(std::move(strategy));
  }
  kind.fixedResults = rule.fixedResults;
  if (auto hold = dyn_cast<HoldOp>(op)) {
    kind.operands = hold.getUnreduced() ? Change::Reduction : Change::CopyOrNone;
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

/// How many times a result is held at once. Of assumed stages the first holds most: its share of
/// what lives for a step, and of what waits for the backward pass as many shares as micro-batches
/// are in flight; what lives within a layer is on one stage as a whole.
double ShardingProblem::copiesOf(OpResult result) const {
  Operation *op = result.getOwner();
  bool waits = outline.waitsForBackward(result);
  if (assumedStages == 1)
    return waits ? static_cast<double>(pipeline.inFlight(op)) : 1;
  const MicroBatches &microBatches = outline.microBatches();
  if (microBatches.runsOf(op) == 1 || MicroBatches::joins(op))
    return largestShare;
  return waits ? largestShare * static_cast<double>(std::min(assumedStages, microBatches.count()))
               : 1;
}

void ShardingProblem::checkMeasured(Operation *op, const OpKind &kind) {
  bool isKnown = llvm::any_of(kind.strategies, [](const ::autopar::Strategy &strategy) {
    return !::autopar::isForbidden(strategy.timeUs);
  });
  if (isKnown || !problem.isOk())
    return;
  RankedTensorType least;
  ShardingRule rule = shardingRuleOf(op);
  for (const FactorAxes &choice : kind.choices)
    if (RankedTensorType type =
            localType(tensorTypeOf(op->getOperand(0)), operandSharding(rule, choice, 0), axes);
        !least || type.getNumElements() < least.getNumElements())
      least = type;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "\"" << operations()[outline.positionOf(op)].second
      << "\" was measured on none of the sizes that it has on mesh ";
  llvm::interleave(
      mesh.axes, out,
      [&](const ::autopar::MeshAxis &axis) { out << axis.name << "=" << axis.size; }, ",");
  out << ": it reads " << least << " at the least, " << least.getDimSize(0)
      << " samples at a time; measure that, or use more micro-batches";
  problem = ::autopar::Status::badInput(text);
}

void ShardingProblem::addOperation(size_t position) {
  auto &[op, id] = operations()[position];
  std::optional<OpKind> &known = kinds[outline.kindOf(position)];
  if (!known)
    known = makeKind(op);
  const OpKind &kind = *known;
  checkMeasured(op, kind);
  ::autopar::CostNode node;
  node.id = id;
  node.strategies = kind.strategies;
  node.live.push_back(onMesh(op->getResult(0), outline.liveOf(op->getResult(0))));
  if (double copies = copiesOf(op->getResult(0)); copies != 1)
    for (::autopar::Strategy &strategy : node.strategies)
      strategy.liveBytes = static_cast<int64_t>(copies * static_cast<double>(strategy.liveBytes));
  int32_t index = costGraph.addNode(std::move(node));
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    if (!isSplat(operand.getDefiningOp()))
      connect(operand, index, kind.operandLists[number], kind.operands,
              op->hasAttr(MicroBatches::everyTime) ? outline.microBatches().runsOf(op) : 1);
  for (OpResult result : op->getResults())
    sources[result] = {index, kind.resultLists[result.getResultNumber()],
                       llvm::is_contained(kind.fixedResults, result.getResultNumber())};
  strategies.push_back(&kind.choices);
}

/// The next value of a donated argument lies as the argument does: it gets no choice of its own.
void ShardingProblem::addResults() {
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto type = tensorTypeOf(operand.get());
    if (auto donor = outline.donorOf(operand.getOperandNumber())) {
      int32_t argument = *donor, list = argumentLists[argument];
      if (operand.get() != function.getArgument(argument))
        connect(operand.get(), argument, list);
      resultLists.push_back(list);
      resultNodes.push_back(argument);
      continue;
    }
    ::autopar::CostNode node;
    node.id = planNameOfResult(function, operand.getOperandNumber());
    SmallVector<TensorSharding> shardings = enumerateShardings(type, axes);
    node.strategies.resize(shardings.size());
    int32_t list = intern(std::move(shardings));
    int32_t index = costGraph.addNode(std::move(node));
    connect(operand.get(), index, list);
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
    const OpKind &kind = *kinds[outline.kindOf(position)];
    auto leader = static_cast<int32_t>(argumentLists.size() + position);
    for (OpResult result : op->getResults().drop_front()) {
      const std::vector<int64_t> &bytes = kind.resultBytes[result.getResultNumber()];
      if (llvm::all_of(bytes, [](int64_t own) { return own == 0; }))
        continue;
      double copies = copiesOf(result);
      ::autopar::CostNode node;
      node.id = entry.second + "#" + std::to_string(result.getResultNumber());
      node.live.push_back(onMesh(result, outline.liveOf(result)));
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

//===-- Edges
//-------------------------------------------------------------------------------------===//

const ::autopar::MeshGroup &ShardingProblem::groupOf(const AxisList &list) {
  std::vector<int8_t> key(list.begin(), list.end());
  auto it = groups.find(key);
  if (it == groups.end()) {
    std::vector<std::string> names;
    for (int8_t axis : list)
      names.push_back(axes.names[axis].str());
    it = groups.emplace(key, ::autopar::meshGroup(cluster, mesh, names)).first;
  }
  return it->second;
}

/// `bytes` gets what a rank holds of the larger side.
double ShardingProblem::stepTimeUs(RankedTensorType type, const TensorSharding &current,
                                   const ReshardStep &step, double &bytes) {
  using Kind = ReshardStep::Kind;
  using Collective = ::autopar::CollectiveKind;
  double before = bytesOf(localType(type, current, axes)),
         after = bytesOf(localType(type, step.after, axes));
  bytes = step.kind == Kind::AllGather ? after : before;
  const ::autopar::MeshGroup &group = groupOf(step.axes);
  switch (step.kind) {
  case Kind::AllReduce:
    return ::autopar::collectiveTimeUs(Collective::AllReduce, before, group);
  case Kind::ReduceScatter:
    return ::autopar::collectiveTimeUs(Collective::ReduceScatter, before, group);
  case Kind::AllGather:
    return ::autopar::collectiveTimeUs(Collective::AllGather, after, group);
  case Kind::AllToAll:
    return ::autopar::collectiveTimeUs(Collective::AllToAll, before, group);
  case Kind::Slice:
  case Kind::Mask:
    return ::autopar::opTimeUs(0, 2 * after, dataTypeOf(type.getElementType()), device) -
           device.launchUs;
  }
  llvm_unreachable("all kinds are listed");
}

double ShardingProblem::reshardTimeUs(RankedTensorType type, const TensorSharding &from,
                                      const TensorSharding &to) {
  double total = 0, bytes = 0;
  TensorSharding current = from;
  for (const ReshardStep &step : planReshard(type.getShape(), from, to, axes)) {
    total += stepTimeUs(type, current, step, bytes);
    current = step.after;
  }
  return total;
}

const TensorSharding &ShardingProblem::sourceOfEdge(size_t edge, ArrayRef<int32_t> choice) const {
  return lists[reshards[edge].from][choice[reshards[edge].node]];
}

void ShardingProblem::forEachStep(
    size_t edge, ArrayRef<int32_t> choice,
    function_ref<void(const ReshardStep &, double bytes, double us)> call) {
  if (edge >= reshards.size())
    return; // to a follower
  const Reshard &reshard = reshards[edge];
  auto type = tensorTypeOf(reshard.value);
  TensorSharding current = sourceOfEdge(edge, choice);
  const TensorSharding &to = lists[reshard.to][choice[costGraph.edges[edge].b]];
  for (const ReshardStep &step : planReshard(type.getShape(), current, to, axes)) {
    double bytes = 0, us = stepTimeUs(type, current, step, bytes);
    call(step, reshard.runs * bytes, reshard.runs * us);
    current = step.after;
  }
}

int32_t ShardingProblem::reshardMatrix(int32_t from, int32_t to, RankedTensorType type,
                                       int64_t runs, Change change) {
  auto [it, isNew] = matrices.try_emplace({type.getAsOpaquePointer(), from, to, runs, change}, 0);
  if (!isNew)
    return it->second;
  const SmallVector<TensorSharding> &rows = lists[from], &columns = lists[to];
  std::vector<double> matrix(rows.size() * columns.size());
  auto bytesOfAll = [&](ArrayRef<TensorSharding> list) {
    std::vector<int64_t> bytes;
    for (const TensorSharding &sharding : list)
      bytes.push_back(change == Change::Part ? bytesOf(localType(type, sharding, axes)) : 0);
    return bytes;
  };
  std::vector<int64_t> rowBytes = bytesOfAll(rows), columnBytes = bytesOfAll(columns);
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t column = 0; column < columns.size(); ++column) {
      int32_t before = listMembers[from][row], after = listMembers[to][column];
      double cost = before == after ? 0 : ::autopar::kForbidden;
      if (change != Change::None) {
        auto [known, missing] =
            reshardUs.try_emplace({type.getAsOpaquePointer(), before, after}, 0.0);
        if (missing)
          known->second = reshardTimeUs(type, rows[row], columns[column]);
        cost = runs * known->second;
      }
      // In the first half of the strategies the value stays where it is, in the second it moves.
      if (change == Change::CopyOrNone && (column < columns.size() / 2) != (before == after))
        cost = ::autopar::kForbidden;
      if (change == Change::Part && columnBytes[column] > rowBytes[row])
        cost = ::autopar::kForbidden;
      // Of equally dear places for a reduction the last one: micro-batches may then share it.
      if (change == Change::Reduction && rows[row].partial != columns[column].partial)
        cost += kLastPlace;
      matrix[row * columns.size() + column] = cost;
    }
  return it->second = costGraph.addMatrix(std::move(matrix));
}

/// A value of one micro-batch is resharded in every micro-batch; `runs` is how often its reader
/// asks for that.
void ShardingProblem::connect(Value from, int32_t toNode, int32_t toShardings, Change change,
                              int64_t runs) {
  Source source = sources.lookup(from);
  Operation *producer = from.getDefiningOp();
  if (producer && !MicroBatches::joins(producer))
    runs = std::max(runs, outline.microBatches().runsOf(producer));
  if (auto hold = dyn_cast_if_present<HoldOp>(producer); hold && !hold.getUnreduced())
    change = Change::Part;
  if (source.isFixed)
    change = Change::None;
  reshards.push_back({from, source.node, source.shardings, toShardings, runs});
  costGraph.addEdge(source.node, toNode,
                    reshardMatrix(source.shardings, toShardings, tensorTypeOf(from), runs, change));
}

//===-- Repeated blocks
//---------------------------------------------------------------------------===//

void ShardingProblem::markRepeatedBlocks() {
  OperationSequence sequence;
  sequence.firstNode = function.getNumArguments();
  StringRef phase;
  sequence.phases.push_back(0);
  for (size_t i = 0; i < operations().size(); ++i) {
    Operation *op = operations()[i].first;
    sequence.kinds.push_back(outline.kindOf(i));
    auto own = op->getAttrOfType<StringAttr>("autopar.phase");
    if (!own || op->getNumOperands() == 0 || own.getValue() == phase)
      continue; // constants stand in front of all phases
    phase = own.getValue();
    sequence.phases.push_back(i);
  }
  costGraph.blocks = findRepeatedBlocks(costGraph, sequence);
}
