// SPDX-License-Identifier: Apache-2.0
// Plans by draw: see the header.
#include "RandomPlan.h"

#include "autopar/Transforms/StageMeshes.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mlir::autopar;
using namespace autopar_law;

static constexpr std::pair<llvm::StringLiteral, llvm::StringLiteral> kinds[] = {
    {"pass-through", "none"},    {"pass-through", "all_gather"},  {"pass-through", "all_to_all"},
    {"reduction", "all_reduce"}, {"reduction", "reduce_scatter"}, {"whole", "slice"},
    {"whole", "mask"},
};

ArrayRef<std::pair<StringRef, StringRef>> autopar_law::cellKinds() {
  static SmallVector<std::pair<StringRef, StringRef>> list(std::begin(kinds), std::end(kinds));
  return list;
}

/// Factor kinds that `axes` shard; "whole" where none is sharded.
static std::set<std::string> shardedKinds(const ShardingRule &rule, const FactorAxes &axes) {
  std::set<std::string> found;
  for (auto [factor, list] : llvm::zip_equal(rule.factors, axes))
    if (!list.empty())
      found.insert(stringifyFactorKind(factor.kind).str());
  if (found.empty())
    found.insert("whole");
  return found;
}

/// Collectives between a result and what a user asks for; "none" where they agree and are sharded.
static std::set<std::string> collectivesBetween(RankedTensorType type, const TensorSharding &from,
                                                const TensorSharding &to, const MeshAxes &mesh) {
  std::set<std::string> found;
  for (const ReshardStep &step : planReshard(type.getShape(), from, to, mesh))
    found.insert(mlir::autopar::nameOf(step.kind).str());
  if (found.empty())
    found.insert("none");
  return found;
}

static MeshAxes declareMesh(ModuleOp module, std::mt19937_64 &random, int ranks) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  SmallVector<int64_t> sizes{ranks};
  if (ranks == 4 && random() % 2)
    sizes = {2, 2};
  if (ranks == 6)
    sizes = {2, 3};
  SmallVector<StringRef> names{"x", "y"};
  names.resize(sizes.size());
  auto mesh = MeshOp::create(builder, module.getLoc(), builder.getStringAttr("mesh"),
                             builder.getStrArrayAttr(names), builder.getDenseI64ArrayAttr(sizes),
                             DenseI64ArrayAttr());
  return MeshAxes::of(mesh);
}

/// What a step hands on lies as it did before.
static void shardKeptState(func::FuncOp function) {
  llvm::StringMap<Attribute> kept;
  for (unsigned i = 0; i < function.getNumArguments(); ++i)
    if (function.getArgAttr(i, "autopar.donated"))
      kept[function.getArgAttrOfType<StringAttr>(i, "autopar.name")] =
          function.getArgAttr(i, "autopar.sharding");
  for (unsigned i = 0; i < function.getNumResults(); ++i)
    if (auto name = function.getResultAttrOfType<StringAttr>(i, "autopar.name"))
      if (Attribute sharding = kept.lookup(name))
        function.setResultAttr(i, "autopar.sharding", sharding);
}

bool autopar_law::drawPlan(DrawnModule &drawn, uint64_t seed, int ranks, const Cell &wanted) {
  if (!drawn.target)
    return false;
  std::mt19937_64 random(seed);
  auto function = drawn.module->lookupSymbol<func::FuncOp>("main");
  MeshAxes mesh = declareMesh(*drawn.module, random, ranks);
  auto draw = [&](const auto &list) { return list[random() % list.size()]; };
  for (unsigned i = 0; i < function.getNumArguments(); ++i) {
    auto type = cast<RankedTensorType>(function.getArgument(i).getType());
    ShardingRule rule;
    rule.results.emplace_back(type.getRank());
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      rule.addFactor({}, {dim}, type.getDimSize(dim));
    function.setArgAttr(
        i, "autopar.sharding",
        resultSharding(rule, draw(enumerateStrategies(rule, mesh)), 0).toAttr(mesh));
  }
  shardKeptState(function);
  for (Operation &op : function.getBody().front().without_terminator()) {
    FactorAxes axes = draw(enumerateStrategies(shardingRuleOf(&op), mesh));
    op.setAttr("autopar.strategy", strategyToAttr(axes, mesh));
  }
  // The target and its elementwise user realise the cell.
  Operation *target = drawn.target, *user = *target->getResult(0).getUsers().begin();
  for (Operation *other : target->getResult(0).getUsers())
    if (other->getNumOperands() == 1 && isa<UnaryOp>(other))
      user = other;
  ShardingRule rule = shardingRuleOf(target), userRule = shardingRuleOf(user);
  unsigned operand =
      llvm::find(user->getOperands(), target->getResult(0)) - user->getOperands().begin();
  std::vector<std::pair<FactorAxes, FactorAxes>> fitting;
  for (const FactorAxes &axes : enumerateStrategies(rule, mesh)) {
    if (!shardedKinds(rule, axes).count(wanted.factor))
      continue;
    TensorSharding from = resultSharding(rule, axes, 0);
    for (const FactorAxes &userAxes : enumerateStrategies(userRule, mesh))
      if (collectivesBetween(tensorTypeOf(target->getResult(0)), from,
                             operandSharding(userRule, userAxes, operand), mesh)
              .count(wanted.collective))
        fitting.emplace_back(axes, userAxes);
  }
  if (fitting.empty())
    return false;
  auto [axes, userAxes] = draw(fitting);
  target->setAttr("autopar.strategy", strategyToAttr(axes, mesh));
  user->setAttr("autopar.strategy", strategyToAttr(userAxes, mesh));
  return true;
}

std::set<Cell> autopar_law::cellsOf(func::FuncOp function) {
  std::set<Cell> cells;
  MeshAxes mesh = (*StageMeshes::of(function))[0];
  for (Operation &op : function.getBody().front().without_terminator()) {
    ShardingRule rule = shardingRuleOf(&op);
    FailureOr<FactorAxes> axes = strategyOf(&op, rule, mesh);
    for (OpResult result : op.getResults())
      for (OpOperand &use : result.getUses()) {
        if (use.getOwner()->hasTrait<OpTrait::IsTerminator>())
          continue;
        ShardingRule userRule = shardingRuleOf(use.getOwner());
        FailureOr<FactorAxes> userAxes = strategyOf(use.getOwner(), userRule, mesh);
        std::set<std::string> collectives = collectivesBetween(
            tensorTypeOf(result), resultSharding(rule, *axes, result.getResultNumber()),
            operandSharding(userRule, *userAxes, use.getOperandNumber()), mesh);
        std::set<std::string> factors = shardedKinds(rule, *axes);
        for (auto &[factor, collective] : cellKinds())
          if (factors.count(factor.str()) && collectives.count(collective.str()))
            cells.insert({op.getName().stripDialect().str(), factor.str(), collective.str()});
      }
  }
  return cells;
}
