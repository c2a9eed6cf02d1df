// SPDX-License-Identifier: Apache-2.0
// Extents that are decided by what a step is given: a program is laid out for the most, and takes
// any from the least on (the bounded dynamism of XLA; the profiles of TensorRT).
#pragma once

#include "autopar/Base/ExtentRange.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::autopar {

/// Of an argument or result, a list of {dim, extent, least, step}: that dimension has at most the
/// positions of its type, `step` fewer (one, if nothing is said) with each step of the range that
/// the extent of that name is below its most, and at least `least`.
constexpr llvm::StringLiteral kVaryingAttribute = "autopar.varying";
/// Of an i64 scalar argument, the name of an extent: by how many steps of its range it is below its
/// most. The runtime sets it.
constexpr llvm::StringLiteral kMissingAttribute = "autopar.missing";

/// Of an operation, until padding is masked. A list of {dim, extent, result, times}: where the
/// extent grows by a step, that dimension of the result does by `times`.
constexpr llvm::StringLiteral kVariesAttribute = "autopar.varies";
/// Of a slice, a list of {dim, extent, times}: it starts as much later.
constexpr llvm::StringLiteral kMovesAttribute = "autopar.moves";
/// Of a constant, a list of {extent, most, step, rule}: all of its elements are the one number that
/// something of at most `most` positions, which grows by `step` where the extent does by a step,
/// decides by the rule "shift", "multiple" or "inverse"; of several, by their product.
constexpr llvm::StringLiteral kDecidesAttribute = "autopar.decides";
/// Of a constant, {extent, most, step}: positions in something of which the last is `most`, and
/// which grows by `step` where the extent does by a step; those behind its end are its last one.
constexpr llvm::StringLiteral kClampedAttribute = "autopar.clamped";
/// Of a constant, a list of {extent, dim, step, tail, less}: what stands in the last `tail` places
/// of a dimension, which shrinks by `step` where the extent does by a step, stands at its end (the
/// positions of a reflection, how much of a window is inside), less by `less` for each step.
constexpr llvm::StringLiteral kEndsAttribute = "autopar.ends";
/// All that say of operations what follows an extent.
constexpr llvm::StringLiteral kMarks[] = {kVariesAttribute, kMovesAttribute, kDecidesAttribute,
                                          kClampedAttribute, kEndsAttribute};

/// An extent that varies, and the two values of it at which a model was imported.
struct VaryingExtent {
  StringRef name;
  ::autopar::ExtentRange range;
  int64_t most;
  int64_t other; ///< in `other`: a step less or more

  /// Steps from the least to the most.
  int64_t steps() const { return (most - range.least) / range.step; }
};

/// Writes into `module`, imported at the most, what of it follows the extent, which is what differs
/// in `other`. Error where the two are different graphs, or differ in what cannot follow.
LogicalResult markVarying(ModuleOp module, ModuleOp other, const VaryingExtent &extent);

/// By how many steps of their ranges extents are below their most.
using MissingSteps = std::map<std::string, int64_t>;

/// Whether what was marked in `module` foretells `other`, which was imported where so many steps
/// are missing: two extents do not tell a floor, a least or a comparison from what is linear.
/// Error, with `where` in it, if it does not; success also if the two cannot be compared, since
/// dimensions of one position are not repeated.
LogicalResult verifyVarying(ModuleOp module, ModuleOp other, const MissingSteps &missing,
                            StringRef where);

} // namespace mlir::autopar
