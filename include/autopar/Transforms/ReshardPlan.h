// SPDX-License-Identifier: Apache-2.0
// How one sharding of a tensor becomes another: a list of collectives and local slices. The search
// costs exactly the steps that partition later emits.
#pragma once

#include "autopar/Transforms/Sharding.h"

namespace mlir::autopar {

/// One step of a resharding.
struct ReshardStep {
  enum class Kind {
    AllReduce,     ///< completes a partial value over `axes`
    ReduceScatter, ///< completes it and keeps this rank's shard of `dim`
    AllGather,     ///< joins the shards of `dim` over `axes`
    AllToAll,      ///< splits `dim` over `axes` and joins `concatDim`
    Slice,         ///< keeps this rank's shard of `dim`, no communication
    Mask,          ///< the first shard over `axes` keeps the value, others the identity: partial
  };
  Kind kind;
  int64_t dim = -1;
  int64_t concatDim = -1;
  AxisList axes;
  TensorSharding after; ///< the sharding once the step is done
};

/// "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "slice", "mask".
StringRef nameOf(ReshardStep::Kind kind);

/// The steps from one sharding of a tensor of global shape `shape` to another; empty where both are
/// equal.
SmallVector<ReshardStep> planReshard(ArrayRef<int64_t> shape, const TensorSharding &from,
                                     const TensorSharding &to, const MeshAxes &mesh);

} // namespace mlir::autopar
