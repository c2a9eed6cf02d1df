// SPDX-License-Identifier: Apache-2.0
// Nested loops over atoms of index expressions, with values carried from iteration to iteration.
#pragma once

#include "ElementEmitter.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace mlir::autopar {

/// One loop: the atom that its variable is bound to, and its bounds.
struct LoopBounds {
  unsigned atom;
  Value lower, upper;
  /// Added to the variable before it is bound, if present.
  Value shift = {};
  /// A second atom, bound to the variable itself (without shift), or -1.
  int64_t localAtom = -1;
};

/// Emits one loop with step `step`. The operation is in place while its body is emitted, so that
/// values of enclosing blocks can be found; a body builder of scf.for would not see them.
scf::ForOp emitFor(OpBuilder &builder, Location loc, Value lower, Value upper, Value step,
                   ValueRange initial,
                   function_ref<SmallVector<Value>(OpBuilder &, Value, ValueRange)> body);

/// Emits the loops, first one outermost, and `body` in the innermost; body gets the carried values
/// and returns their successors. Returns the final ones.
SmallVector<Value> emitNest(OpBuilder &builder, ElementEmitter &emitter, ArrayRef<LoopBounds> loops,
                            ValueRange initial,
                            function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> body);

/// Splits `position` in [0, product of extents) row-major into one index per extent.
SmallVector<Value> emitDelinearize(OpBuilder &builder, Location loc, Value position,
                                   ArrayRef<int64_t> extents);

} // namespace mlir::autopar
