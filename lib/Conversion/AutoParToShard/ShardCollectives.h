// SPDX-License-Identifier: Apache-2.0
// What the autopar and the shard dialect have in common: collectives that differ in the names of
// their attributes, and in how they speak of a mesh's axes, by name here, by number there.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/DenseMap.h"

namespace mlir::autopar {

/// The axes of meshes (grids) by the mesh's symbol.
using AxisNames = DenseMap<StringAttr, ArrayAttr>;

/// Names of axes become their numbers, numbers names. An error at `op`, which speaks of them, where
/// the mesh is unknown.
FailureOr<Attribute> axesInOther(Operation *op, FlatSymbolRefAttr mesh, Attribute axes,
                                 const AxisNames &meshes);

/// The collective of the other dialect that says the same as `op`, created before it; null where
/// `op` is none that both have. An error where its mesh is unknown or the other dialect lacks its
/// reduction.
FailureOr<Operation *> collectiveInOther(Operation *op, const AxisNames &meshes);

} // namespace mlir::autopar
