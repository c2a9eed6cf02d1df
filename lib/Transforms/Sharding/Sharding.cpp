// SPDX-License-Identifier: Apache-2.0
// Shardings and strategies as plain values: see the header.
#include "autopar/Transforms/Sharding.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

//===-- Mesh axes ----------------------------------------------------------------------------===//

MeshAxes MeshAxes::of(MeshOp mesh) {
  MeshAxes axes;
  axes.symbol = FlatSymbolRefAttr::get(mesh.getSymNameAttr());
  for (auto [name, size] : llvm::zip(mesh.getAxes().getAsRange<StringAttr>(), mesh.getSizes())) {
    axes.names.push_back(name.getValue());
    axes.sizes.push_back(size);
  }
  return axes;
}

FailureOr<MeshAxes> MeshAxes::lookUp(Operation *op, FlatSymbolRefAttr symbol) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, symbol);
  if (!mesh)
    return op->emitOpError() << "refers to mesh " << symbol << ", which does not exist";
  return of(mesh);
}

int64_t MeshAxes::shards(const AxisList &axes) const {
  int64_t product = 1;
  for (int8_t axis : axes)
    product *= sizes[axis];
  return product;
}

int8_t MeshAxes::numberOf(StringRef name) const {
  auto it = llvm::find(names, name);
  return it == names.end() ? -1 : it - names.begin();
}

ArrayAttr MeshAxes::toAttr(const AxisList &axes) const {
  SmallVector<StringRef> words;
  for (int8_t axis : axes)
    words.push_back(names[axis]);
  return Builder(symbol.getContext()).getStrArrayAttr(words);
}

static FailureOr<AxisList> axesFromAttr(Operation *op, ArrayAttr attr, const MeshAxes &mesh) {
  AxisList axes;
  for (StringAttr name : attr.getAsRange<StringAttr>()) {
    int8_t axis = mesh.numberOf(name.getValue());
    if (axis < 0)
      return op->emitOpError() << "uses axis " << name << ", which mesh " << mesh.symbol
                               << " does not have";
    if (mesh.sizes[axis] > 1)
      axes.push_back(axis);
  }
  return axes;
}

//===-- Tensor shardings ---------------------------------------------------------------------===//

ShardingAttr TensorSharding::toAttr(const MeshAxes &mesh) const {
  SmallVector<ArrayAttr> lists;
  for (const AxisList &axes : dims)
    lists.push_back(mesh.toAttr(axes));
  return ShardingAttr::get(mesh.symbol.getContext(), mesh.symbol, lists, mesh.toAttr(partial),
                           reduction);
}

TensorSharding TensorSharding::on(const MeshAxes &mesh) const {
  TensorSharding same = *this;
  auto splitsNothing = [&](int8_t axis) { return mesh.sizes[axis] == 1; };
  for (AxisList &axes : same.dims)
    llvm::erase_if(axes, splitsNothing);
  llvm::erase_if(same.partial, splitsNothing);
  return same;
}

FailureOr<TensorSharding> TensorSharding::fromAttr(Operation *op, ShardingAttr attr,
                                                   const MeshAxes &mesh) {
  TensorSharding sharding;
  for (ArrayAttr list : attr.getDims()) {
    FailureOr<AxisList> axes = axesFromAttr(op, list, mesh);
    if (failed(axes))
      return failure();
    sharding.dims.push_back(*axes);
  }
  FailureOr<AxisList> partial = axesFromAttr(op, attr.getPartial(), mesh);
  if (failed(partial))
    return failure();
  sharding.partial = *partial;
  sharding.reduction = attr.getReduction();
  return sharding;
}

SmallVector<int64_t> mlir::autopar::localShape(ArrayRef<int64_t> shape,
                                               const TensorSharding &sharding,
                                               const MeshAxes &mesh) {
  SmallVector<int64_t> local(shape);
  for (auto [extent, axes] : llvm::zip_equal(local, sharding.dims))
    extent = shardExtent(extent, mesh.shards(axes));
  return local;
}

RankedTensorType mlir::autopar::localType(RankedTensorType type, const TensorSharding &sharding,
                                          const MeshAxes &mesh) {
  return RankedTensorType::get(localShape(type.getShape(), sharding, mesh), type.getElementType(),
                               type.getEncoding());
}

//===-- Strategies ---------------------------------------------------------------------------===//

static TensorSharding shardingFrom(const ShardingRule::Tensor &tensor, const FactorAxes &axes) {
  TensorSharding sharding;
  for (const ShardingRule::Dimension &dimension : tensor) {
    AxisList &list = sharding.dims.emplace_back();
    for (int64_t factor : dimension)
      llvm::append_range(list, axes[factor]);
  }
  return sharding;
}

/// Adds the axes of factors as axes over which the value is partial.
static void addPartial(TensorSharding &sharding, const ShardingRule &rule, const FactorAxes &axes,
                       function_ref<bool(const Factor &)> isPartialOver) {
  for (auto [factor, list] : llvm::zip_equal(rule.factors, axes))
    if (!list.empty() && isPartialOver(factor)) {
      llvm::append_range(sharding.partial, list);
      sharding.reduction = factor.reduction;
    }
  llvm::sort(sharding.partial);
}

TensorSharding mlir::autopar::operandSharding(const ShardingRule &rule, const FactorAxes &axes,
                                              unsigned index) {
  TensorSharding sharding = shardingFrom(rule.operands[index], axes);
  addPartial(sharding, rule, axes, [&](const Factor &factor) {
    return llvm::is_contained(factor.partialOperands, index);
  });
  return sharding;
}

TensorSharding mlir::autopar::resultSharding(const ShardingRule &rule, const FactorAxes &axes,
                                             unsigned index) {
  TensorSharding sharding = shardingFrom(rule.results[index], axes);
  addPartial(sharding, rule, axes, [&](const Factor &factor) {
    return factor.kind == FactorKind::Reduction &&
           !llvm::is_contained(factor.completeResults, index);
  });
  return sharding;
}

/// Whether in every dimension made of several factors the shards are contiguous: a minor factor may
/// be split only where all more major ones are split into single positions.
static bool isContiguous(const ShardingRule &rule, const FactorAxes &axes, const MeshAxes &mesh) {
  auto check = [&](const SmallVector<ShardingRule::Tensor> &tensors) {
    for (const ShardingRule::Tensor &tensor : tensors)
      for (const ShardingRule::Dimension &dimension : tensor) {
        bool majorWhole = false;
        for (int64_t factor : dimension) {
          int64_t shards = mesh.shards(axes[factor]);
          if (shards > 1 && majorWhole)
            return false;
          majorWhole |= shards < rule.factors[factor].size;
        }
      }
    return true;
  };
  return check(rule.operands) && check(rule.results);
}

bool mlir::autopar::isLegal(const ShardingRule &rule, const FactorAxes &axes, const MeshAxes &mesh,
                            std::string *whyNot) {
  auto refuse = [&](const Twine &reason) {
    if (whyNot)
      *whyNot = reason.str();
    return false;
  };
  if (axes.size() != rule.factors.size())
    return refuse("strategy of " + Twine(axes.size()) + " factors for a rule of " +
                  Twine(rule.factors.size()));
  uint64_t used = 0;
  for (auto [index, pair] : llvm::enumerate(llvm::zip(rule.factors, axes))) {
    auto &[factor, list] = pair;
    for (int8_t axis : list) {
      if (used >> axis & 1)
        return refuse("axis \"" + mesh.names[axis] + "\" is used twice");
      used |= uint64_t(1) << axis;
    }
    int64_t shards = mesh.shards(list);
    if (shards == 1)
      continue;
    if (factor.kind == FactorKind::NeedsReplication)
      return refuse("factor " + Twine(index) + " of extent " + Twine(factor.size) +
                    " needs replication");
    if ((shards - 1) * shardExtent(factor.size, shards) >= factor.size)
      return refuse("factor " + Twine(index) + " of extent " + Twine(factor.size) +
                    " leaves a shard of " + Twine(shards) + " empty");
    if (!factor.mayBeUneven && factor.size % shards)
      return refuse("factor " + Twine(index) + " of extent " + Twine(factor.size) +
                    " does not split evenly into " + Twine(shards));
  }
  if (!isContiguous(rule, axes, mesh))
    return refuse("a dimension made of several factors would not be contiguous");
  return true;
}

SmallVector<FactorAxes> mlir::autopar::enumerateStrategies(const ShardingRule &rule,
                                                           const MeshAxes &mesh) {
  SmallVector<FactorAxes> found;
  SmallVector<int64_t> candidates;
  for (auto [index, factor] : llvm::enumerate(rule.factors))
    if (factor.kind != FactorKind::NeedsReplication && factor.size > 1)
      candidates.push_back(index);
  FactorAxes current(rule.factors.size());
  // Each axis goes to no factor first, so that the first strategy found is full replication.
  auto assign = [&](auto &&self, size_t axis) -> void {
    if (axis == mesh.sizes.size()) {
      if (isLegal(rule, current, mesh))
        found.push_back(current);
      return;
    }
    self(self, axis + 1);
    if (mesh.sizes[axis] == 1)
      return;
    for (int64_t factor : candidates) {
      current[factor].push_back(axis);
      self(self, axis + 1);
      current[factor].pop_back();
    }
  };
  assign(assign, 0);
  return found;
}

bool mlir::autopar::isSplat(Operation *op) {
  DenseElementsAttr elements;
  return op && isa<ConstantOp>(op) && matchPattern(op, m_Constant(&elements)) && elements.isSplat();
}

ShardingRule mlir::autopar::shardingRuleOf(Operation *op) {
  if (auto shardable = dyn_cast<ShardingRuleOpInterface>(op))
    return shardable.getShardingRule();
  return ShardingRule::replicated(op);
}

FailureOr<FactorAxes> mlir::autopar::strategyOf(Operation *op, const ShardingRule &rule,
                                                const MeshAxes &mesh) {
  auto attr = op->getAttrOfType<StrategyAttr>("autopar.strategy");
  FactorAxes axes;
  if (!attr) {
    axes.resize(rule.factors.size());
    return axes;
  }
  for (ArrayAttr list : attr.getFactors()) {
    FailureOr<AxisList> factor = axesFromAttr(op, list, mesh);
    if (failed(factor))
      return failure();
    axes.push_back(*factor);
  }
  std::string whyNot;
  if (!isLegal(rule, axes, mesh, &whyNot))
    return op->emitOpError() << "has an illegal strategy: " << whyNot;
  return axes;
}

StrategyAttr mlir::autopar::strategyToAttr(const FactorAxes &axes, const MeshAxes &mesh) {
  SmallVector<ArrayAttr> lists;
  for (const AxisList &list : axes)
    lists.push_back(mesh.toAttr(list));
  return StrategyAttr::get(mesh.symbol.getContext(), mesh.symbol, lists);
}
