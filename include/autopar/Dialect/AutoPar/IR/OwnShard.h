// SPDX-License-Identifier: Apache-2.0
// The slice by which a rank takes its own shard of a dimension: dynamic_slice at shard_index *
// extent. Built by partition, recognised by passes that turn it into something cheaper or more
// abstract.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Which dimension is cut, and whose position decides where.
struct OwnShard {
  int64_t dim;
  ShardIndexOp index;
};

/// Recognises the slice that buildOwnShard makes.
std::optional<OwnShard> matchOwnShard(DynamicSliceOp slice);

/// This rank's shard of `dim` over the mesh axes: `extent` positions, zeros past the input's end.
Value buildOwnShard(OpBuilder &builder, Location loc, Value input, int64_t dim, int64_t extent,
                    FlatSymbolRefAttr mesh, ArrayAttr axes);

/// An i64 scalar constant.
Value i64Scalar(OpBuilder &builder, Location loc, int64_t value);

} // namespace mlir::autopar
