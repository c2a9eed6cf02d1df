// SPDX-License-Identifier: Apache-2.0
// Builds the cost graph of a function on a mesh. Arguments, operations and results are nodes; edges
// carry the time of the resharding that two choices imply. Lists of shardings and matrices are
// interned, so that a layer's copies share them.
#include "ShardingProblem.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "autopar/Transforms/ReshardPlan.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- Names
//-------------------------------------------------------------------------------------===//

SmallVector<std::pair<Operation *, std::string>> mlir::autopar::planIds(func::FuncOp function) {
  SmallVector<std::pair<Operation *, std::string>> ids;
  llvm::StringSet<> taken;
  for (Operation &op : function.getBody().front().without_terminator()) {
    std::string id = getOpId(&op).str();
    if (id.empty() || !taken.insert(id).second)
      id += "#" + std::to_string(ids.size());
    ids.emplace_back(&op, id);
  }
  return ids;
}

std::string mlir::autopar::planNameOfArgument(func::FuncOp function, unsigned index) {
  if (auto name = function.getArgAttrOfType<StringAttr>(index, "autopar.name"))
    return name.str();
  return "arg#" + std::to_string(index);
}

std::string mlir::autopar::planNameOfResult(func::FuncOp function, unsigned index) {
  if (auto name = function.getResultAttrOfType<StringAttr>(index, "autopar.name"))
    return "output:" + name.str();
  return "output:#" + std::to_string(index);
}

//===-- Element types
//-----------------------------------------------------------------------------===//

static int64_t bytesOf(RankedTensorType type) {
  return type.getNumElements() * ::autopar::byteSize(dataTypeOf(type.getElementType()));
}

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

ShardingProblem::ShardingProblem(func::FuncOp function, const MeshAxes &axes,
                                 const ::autopar::Mesh &mesh, const ::autopar::Cluster &cluster)
    : function(function), axes(axes), mesh(mesh), cluster(cluster),
      device(cluster.typeOfDevice(mesh.devices.front())), microBatches(function.getBody().front()),
      ids(planIds(function)) {
  for (auto [position, entry] : llvm::enumerate(ids)) {
    timeOf[entry.first] = position;
    if (microBatches.runsOf(entry.first) == 1)
      continue;
    if (lastRepeated < 0)
      firstRepeated = position;
    lastRepeated = position;
  }
  timeOf[function.getBody().front().getTerminator()] = ids.size();
  addArguments();
  for (auto &[op, id] : ids)
    addOperation(op);
  addResults();
  markRepeatedBlocks();
}

int32_t ShardingProblem::intern(SmallVector<TensorSharding> list) {
  std::string key;
  for (const TensorSharding &sharding : list) {
    for (const AxisList &dim : sharding.dims) {
      key.append(dim.begin(), dim.end());
      key += '\x7f';
    }
    key.append(sharding.partial.begin(), sharding.partial.end());
    key += static_cast<char>('\x40' + static_cast<int>(sharding.reduction));
    key += '\x7e';
  }
  auto [it, isNew] = listIds.try_emplace(key, lists.size());
  if (isNew)
    lists.push_back(std::move(list));
  return it->second;
}

/// When values defined at a position are held: until the last one is read, which is the last
/// micro-batch for what all of them read; accumulators from the first micro-batch on.
::autopar::LiveInterval ShardingProblem::liveOf(ValueRange values, int64_t defined) const {
  int64_t begin = defined, end = defined;
  for (Value value : values) {
    Operation *producer = value.getDefiningOp();
    bool isOfOne = producer && microBatches.runsOf(producer) > 1;
    if (isOfOne && MicroBatches::joins(producer)) {
      begin = std::min(begin, firstRepeated);
      end = std::max(end, lastRepeated);
    }
    for (Operation *user : value.getUsers()) {
      bool isReadByAll = !isOfOne && microBatches.runsOf(user) > 1;
      end = std::max(end, isReadByAll ? lastRepeated : timeOf.lookup(user));
    }
  }
  return {begin, end + 1};
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
      (isParameter ? strategy.persistentBytes : strategy.liveBytes) = bytes;
      node.strategies.push_back(strategy);
    }
    if (!isParameter)
      node.live.push_back(liveOf(ValueRange(argument), 0));
    int32_t list = intern(std::move(shardings));
    sources[argument] = {costGraph.addNode(std::move(node)), list};
    argumentLists.push_back(list);
    strategies.push_back(nullptr);
  }
}

/// A cheap operation whose result is computed inside its users: no memory traffic of its own.
static bool livesInUsers(Operation *op) {
  auto cost = dyn_cast<CostOpInterface>(op);
  if (!cost || !cost.isLight())
    return false;
  // Kept where the result has several users or one that reads it from memory.
  bool kept = !op->getResult(0).hasOneUse() ||
              llvm::any_of(op->getResult(0).getUsers(), [](Operation *user) {
                auto other = dyn_cast<CostOpInterface>(user);
                return !other || !other.isLight();
              });
  return !kept || op->hasTrait<OpTrait::ConstantLike>();
}

double ShardingProblem::opTimeUs(Operation *op, const ShardingRule &rule,
                                 const FactorAxes &factorAxes) const {
  if (livesInUsers(op))
    return 0;
  SmallVector<RankedTensorType> operands, results;
  for (auto [index, operand] : llvm::enumerate(op->getOperands()))
    operands.push_back(
        localType(tensorTypeOf(operand), operandSharding(rule, factorAxes, index), axes));
  for (OpResult result : op->getResults())
    results.push_back(localType(tensorTypeOf(result),
                                resultSharding(rule, factorAxes, result.getResultNumber()), axes));
  double flops = 0, written = 0, read = 0;
  auto cost = dyn_cast<CostOpInterface>(op);
  if (cost)
    flops = cost.getFlops(operands, results);
  for (RankedTensorType type : results)
    written += bytesOf(type);
  for (RankedTensorType type : operands)
    read += bytesOf(type);
  ::autopar::DataType type =
      dataTypeOf((operands.empty() ? results : operands).front().getElementType());
  if (cost && cost.isLight())
    return ::autopar::opTimeUs(0, 2 * written, type, device) - device.launchUs;
  return ::autopar::opTimeUs(flops, read + written, type, device);
}

ShardingProblem::OpKind ShardingProblem::makeKind(Operation *op) {
  OpKind kind;
  ShardingRule rule = shardingRuleOf(op);
  kind.choices = enumerateStrategies(rule, axes);
  for (const FactorAxes &choice : kind.choices) {
    ::autopar::Strategy strategy;
    strategy.timeUs = microBatches.runsOf(op) * opTimeUs(op, rule, choice);
    for (OpResult result : op->getResults())
      strategy.liveBytes += bytesOf(localType(
          tensorTypeOf(result), resultSharding(rule, choice, result.getResultNumber()), axes));
    kind.strategies.push_back(std::move(strategy));
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

/// Operations that differ only in their id and operands share one kind; a layer's copies do.
const ShardingProblem::OpKind &ShardingProblem::kindOf(Operation *op) {
  NamedAttrList attributes(op->getAttrDictionary());
  attributes.erase("autopar.id");
  SmallVector<const void *> key{op->getName().getAsOpaquePointer(),
                                attributes.getDictionary(op->getContext()).getAsOpaquePointer(),
                                livesInUsers(op) ? op->getName().getAsOpaquePointer() : nullptr,
                                microBatches.runsOf(op) > 1 ? op->getName().getAsOpaquePointer()
                                                            : nullptr,
                                // A region may hold anything.
                                op->getNumRegions() ? op : nullptr};
  for (Type type : op->getOperandTypes())
    key.push_back(type.getAsOpaquePointer());
  for (Type type : op->getResultTypes())
    key.push_back(type.getAsOpaquePointer());
  auto it = kinds.find(key);
  if (it == kinds.end())
    it = kinds.emplace(std::move(key), makeKind(op)).first;
  return it->second;
}

void ShardingProblem::addOperation(Operation *op) {
  const OpKind &kind = kindOf(op);
  ::autopar::CostNode node;
  node.id = ids[timeOf[op]].second;
  node.strategies = kind.strategies;
  node.live.push_back(liveOf(op->getResults(), timeOf[op]));
  int32_t index = costGraph.addNode(std::move(node));
  for (auto [number, operand] : llvm::enumerate(op->getOperands()))
    connect(operand, index, kind.operandLists[number]);
  for (OpResult result : op->getResults())
    sources[result] = {index, kind.resultLists[result.getResultNumber()]};
  strategies.push_back(&kind.choices);
}

/// The next value of a donated argument lies as the argument does: it gets no choice of its own.
void ShardingProblem::addResults() {
  std::map<std::string, int32_t> donated;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "autopar.donated"))
      donated[planNameOfArgument(function, i)] = i;
  for (OpOperand &operand : function.getBody().front().getTerminator()->getOpOperands()) {
    auto type = tensorTypeOf(operand.get());
    auto name =
        function.getResultAttrOfType<StringAttr>(operand.getOperandNumber(), "autopar.name");
    if (auto donor = donated.find(name ? name.str() : ""); donor != donated.end()) {
      int32_t argument = donor->second, list = argumentLists[argument];
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

double ShardingProblem::reshardTimeUs(RankedTensorType type, const TensorSharding &from,
                                      const TensorSharding &to) {
  using Kind = ReshardStep::Kind;
  double total = 0;
  TensorSharding current = from;
  for (const ReshardStep &step : planReshard(type.getShape(), from, to, axes)) {
    double before = bytesOf(localType(type, current, axes)),
           after = bytesOf(localType(type, step.after, axes));
    current = step.after;
    const ::autopar::MeshGroup &group = groupOf(step.axes);
    switch (step.kind) {
    case Kind::AllReduce:
      total += ::autopar::collectiveTimeUs(::autopar::CollectiveKind::AllReduce, before, group);
      break;
    case Kind::ReduceScatter:
      total += ::autopar::collectiveTimeUs(::autopar::CollectiveKind::ReduceScatter, before, group);
      break;
    case Kind::AllGather:
      total += ::autopar::collectiveTimeUs(::autopar::CollectiveKind::AllGather, after, group);
      break;
    case Kind::AllToAll:
      total += ::autopar::collectiveTimeUs(::autopar::CollectiveKind::AllToAll, before, group);
      break;
    case Kind::Slice:
    case Kind::Mask:
      total += ::autopar::opTimeUs(0, 2 * after, dataTypeOf(type.getElementType()), device) -
               device.launchUs;
      break;
    }
  }
  return total;
}

int32_t ShardingProblem::reshardMatrix(int32_t from, int32_t to, RankedTensorType type,
                                       int64_t runs) {
  auto [it, isNew] = matrices.try_emplace({type.getAsOpaquePointer(), from, to, runs}, 0);
  if (!isNew)
    return it->second;
  const SmallVector<TensorSharding> &rows = lists[from], &columns = lists[to];
  std::vector<double> matrix(rows.size() * columns.size());
  // Strategies often agree in this value's sharding: compute each distinct pair once.
  std::map<std::pair<size_t, size_t>, double> known;
  auto firstEqual = [](const SmallVector<TensorSharding> &list) {
    std::vector<size_t> first(list.size());
    for (size_t i = 0; i < list.size(); ++i)
      first[i] = std::find(list.begin(), list.begin() + i, list[i]) - list.begin();
    return first;
  };
  std::vector<size_t> rowOf = firstEqual(rows), columnOf = firstEqual(columns);
  for (size_t row = 0; row < rows.size(); ++row)
    for (size_t column = 0; column < columns.size(); ++column) {
      auto [entry, missing] = known.try_emplace({rowOf[row], columnOf[column]}, 0.0);
      if (missing)
        entry->second = runs * reshardTimeUs(type, rows[row], columns[column]);
      matrix[row * columns.size() + column] = entry->second;
    }
  return it->second = costGraph.addMatrix(std::move(matrix));
}

/// A value of one micro-batch is resharded in every micro-batch.
void ShardingProblem::connect(Value from, int32_t toNode, int32_t toShardings) {
  Source source = sources.lookup(from);
  Operation *producer = from.getDefiningOp();
  int64_t runs = producer && !MicroBatches::joins(producer) ? microBatches.runsOf(producer) : 1;
  costGraph.addEdge(source.node, toNode,
                    reshardMatrix(source.shardings, toShardings, tensorTypeOf(from), runs));
}

//===-- Repeated blocks
//---------------------------------------------------------------------------===//

// Copies of a layer are runs of operations with equal strategies, costs and edges. The longest
// repetition of the operation sequence gives the blocks; the planner checks equality itself.
void ShardingProblem::markRepeatedBlocks() {
  size_t first = function.getNumArguments(), count = ids.size();
  std::vector<size_t> kind(count);
  std::map<std::vector<double>, size_t> kinds;
  for (size_t i = 0; i < count; ++i) {
    const ::autopar::CostNode &node = costGraph.nodes[first + i];
    std::vector<double> key;
    for (const ::autopar::Strategy &strategy : node.strategies) {
      key.push_back(strategy.timeUs);
      key.push_back(strategy.liveBytes);
    }
    key.push_back(reinterpret_cast<uintptr_t>(ids[i].first->getName().getAsOpaquePointer()));
    kind[i] = kinds.try_emplace(std::move(key), kinds.size()).first->second;
  }
  // For every period, the longest stretch in which each operation equals the one a period earlier.
  size_t bestStart = 0, bestPeriod = 0, bestCopies = 0;
  for (size_t period = 2; period <= count / 2; ++period)
    for (size_t i = period, run = 0; i < count; ++i) {
      run = kind[i] == kind[i - period] ? run + 1 : 0;
      size_t copies = run / period + 1;
      if (copies >= 2 && run >= period && (copies * period > bestCopies * bestPeriod)) {
        bestStart = i + 1 - run - period;
        bestPeriod = period;
        bestCopies = copies;
      }
    }
  if (bestCopies < 2)
    return;
  costGraph.blocks.assign(costGraph.nodes.size(), {});
  for (size_t copy = 0; copy < bestCopies; ++copy) {
    int32_t parameters = bestPeriod;
    for (size_t position = 0; position < bestPeriod; ++position) {
      size_t op = bestStart + copy * bestPeriod + position;
      costGraph.blocks[first + op] = {0, static_cast<int32_t>(copy),
                                      static_cast<int32_t>(position)};
      // A parameter belongs to the block of its only user.
      for (Value operand : ids[op].first->getOperands())
        if (auto argument = dyn_cast<BlockArgument>(operand); argument && argument.hasOneUse())
          costGraph.blocks[argument.getArgNumber()] = {0, static_cast<int32_t>(copy), parameters++};
    }
  }
}

//===-- Plans
//-------------------------------------------------------------------------------------===//

static ::autopar::AxisList wordsOf(const AxisList &list, const MeshAxes &axes) {
  ::autopar::AxisList words;
  for (int8_t axis : list)
    words.push_back(axes.names[axis].str());
  return words;
}

static ::autopar::ValueSharding valueOf(const TensorSharding &sharding, const MeshAxes &axes) {
  ::autopar::ValueSharding value;
  for (const AxisList &dim : sharding.dims)
    value.dims.push_back(wordsOf(dim, axes));
  return value;
}

::autopar::Plan ShardingProblem::toPlan(ArrayRef<int32_t> choice) const {
  ::autopar::Plan plan;
  plan.clusterName = cluster.name;
  plan.deviceCount = cluster.deviceCount();
  plan.meshes.push_back(mesh);
  ::autopar::PlanStage stage;
  stage.name = "s0";
  stage.mesh = mesh.name;
  plan.stages.push_back(stage);
  size_t node = 0;
  func::FuncOp function = this->function;
  for (unsigned i = 0; i < function.getNumArguments(); ++i, ++node)
    plan.values[planNameOfArgument(function, i)] =
        valueOf(lists[argumentLists[i]][choice[node]], axes);
  for (auto &[op, id] : ids) {
    ::autopar::OpStrategy strategy;
    for (const AxisList &factor : (*strategies[node])[choice[node]])
      strategy.factors.push_back(wordsOf(factor, axes));
    plan.ops[id] = std::move(strategy);
    ++node;
  }
  for (size_t i = 0; i < resultLists.size(); ++i)
    plan.values[planNameOfResult(function, i)] =
        valueOf(lists[resultLists[i]][choice[resultNodes[i]]], axes);
  return plan;
}
