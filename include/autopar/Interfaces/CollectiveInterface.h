// SPDX-License-Identifier: Apache-2.0
// C++ side of the collective interface.
#pragma once

#include "autopar/Interfaces/ShardingRule.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/OpDefinition.h"

namespace mlir::autopar {

/// What ranks do with each other's values.
enum class CollectiveKind {
  AllReduce,     ///< all have the combination of all
  AllGather,     ///< all have the values of all, joined
  ReduceScatter, ///< each has its part of the combination of all
  AllToAll,      ///< each has its part of the value of each, joined
  Permute,       ///< each has the value of one
};

} // namespace mlir::autopar

#include "autopar/Interfaces/CollectiveInterface.h.inc"
