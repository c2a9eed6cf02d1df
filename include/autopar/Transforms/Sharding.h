// SPDX-License-Identifier: Apache-2.0
// Shardings and strategies as small plain values, for passes that compare and enumerate thousands
// of them; conversions to and from the attributes that stand in the IR.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Mesh axes by number, major to minor.
using AxisList = SmallVector<int8_t, 2>;

/// The axes of one mesh, by number, as an `autopar.mesh` names them.
struct MeshAxes {
  FlatSymbolRefAttr symbol;
  SmallVector<StringRef> names;
  SmallVector<int64_t> sizes;

  static MeshAxes of(MeshOp mesh);
  /// The mesh that `symbol` names in the module around `op`; null after an error at `op`.
  static FailureOr<MeshAxes> lookUp(Operation *op, FlatSymbolRefAttr symbol);

  /// Number of shards over `axes`.
  int64_t shards(const AxisList &axes) const;
  /// The number of an axis; -1 for an unknown name.
  int8_t numberOf(StringRef name) const;
  ArrayAttr toAttr(const AxisList &axes) const;
};

/// How a tensor lies on a mesh: axes per dimension, and axes over which it is a partial value.
struct TensorSharding {
  SmallVector<AxisList, 4> dims;
  AxisList partial;
  ReductionKind reduction = ReductionKind::Sum;

  static TensorSharding replicated(int64_t rank) { return {SmallVector<AxisList, 4>(rank), {}}; }
  bool operator==(const TensorSharding &other) const {
    return dims == other.dims && partial == other.partial &&
           (partial.empty() || reduction == other.reduction);
  }
  bool operator!=(const TensorSharding &other) const { return !(*this == other); }

  ShardingAttr toAttr(const MeshAxes &mesh) const;
  /// The same on a mesh of other sizes: without axes of size 1, which split nothing.
  TensorSharding on(const MeshAxes &mesh) const;
  /// Without axes of size 1. Error at `op` for an axis that the mesh does not have.
  static FailureOr<TensorSharding> fromAttr(Operation *op, ShardingAttr attr, const MeshAxes &mesh);
};

/// One list of axes per factor of an operation.
using FactorAxes = SmallVector<AxisList, 4>;

/// Extent of one shard of a dimension: ceil(extent / shards).
inline int64_t shardExtent(int64_t extent, int64_t shards) {
  return (extent + shards - 1) / shards;
}
/// The tensor type that a value counts as: its own, or a rank-0 tensor for the scalars that
/// operations of other dialects take.
inline RankedTensorType tensorTypeOf(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type ? type : RankedTensorType::get({}, value.getType());
}
/// The local shape and type of a tensor under a sharding.
SmallVector<int64_t> localShape(ArrayRef<int64_t> shape, const TensorSharding &sharding,
                                const MeshAxes &mesh);
RankedTensorType localType(RankedTensorType type, const TensorSharding &sharding,
                           const MeshAxes &mesh);

/// The sharding of operand or result `index` that follows from the axes of the factors.
TensorSharding operandSharding(const ShardingRule &rule, const FactorAxes &axes, unsigned index);
TensorSharding resultSharding(const ShardingRule &rule, const FactorAxes &axes, unsigned index);

/// Whether a rule permits the axes: no axis twice, factors that need replication whole, no empty
/// shards, even ones where the rule asks for them, compound dimensions contiguous. On false
/// `whyNot`, if given, says the reason.
bool isLegal(const ShardingRule &rule, const FactorAxes &axes, const MeshAxes &mesh,
             std::string *whyNot = nullptr);
/// All legal choices; the first one is full replication.
SmallVector<FactorAxes> enumerateStrategies(const ShardingRule &rule, const MeshAxes &mesh);

/// Whether `op` is a constant of one repeated number: made wherever and however it is needed.
bool isSplat(Operation *op);

/// The rule of an operation: its own, or full replication where it has none.
ShardingRule shardingRuleOf(Operation *op);

/// The axes in `autopar.strategy`, or full replication where the operation has none. Error at `op`
/// where the attribute does not fit rule or mesh.
FailureOr<FactorAxes> strategyOf(Operation *op, const ShardingRule &rule, const MeshAxes &mesh);
StrategyAttr strategyToAttr(const FactorAxes &axes, const MeshAxes &mesh);

} // namespace mlir::autopar
