// SPDX-License-Identifier: Apache-2.0
// Extents that are decided by what a step is given: a program is laid out for the most, and takes
// any from the least on (the bounded dynamism of XLA; the profiles of TensorRT).
#pragma once

#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Of an argument or result, a list of {dim, extent, least}: that dimension has as many positions
/// as the extent of that name, or a constant number more or less; at least `least`, at most those
/// of its type.
constexpr llvm::StringLiteral kVaryingAttribute = "autopar.varying";
/// Of an i64 scalar argument, the name of an extent: how many positions of its dimensions are
/// missing. The runtime sets it.
constexpr llvm::StringLiteral kMissingAttribute = "autopar.missing";

/// Of an operation, until padding is masked. A list of {dim, extent, result, times}: where the
/// extent grows by one, that dimension of the result does by `times`.
constexpr llvm::StringLiteral kVariesAttribute = "autopar.varies";
/// Of a slice, a list of {dim, extent}: it starts as much later.
constexpr llvm::StringLiteral kMovesAttribute = "autopar.moves";
/// Of a constant, {extent, most, rule}: all of its elements are the one number that the extent, of
/// at most `most`, decides by the rule "shift", "multiple" or "inverse".
constexpr llvm::StringLiteral kDecidesAttribute = "autopar.decides";

/// An extent that varies, and the two values of it at which a model was imported.
struct VaryingExtent {
  StringRef name;
  int64_t least, most;
  int64_t other; ///< in `other`: most - 1 or most + 1
};

/// Writes into `module`, imported at the most, what of it follows the extent, which is what differs
/// in `other`. Error where the two are different graphs, or differ in what cannot follow.
LogicalResult markVarying(ModuleOp module, ModuleOp other, const VaryingExtent &extent);

} // namespace mlir::autopar
