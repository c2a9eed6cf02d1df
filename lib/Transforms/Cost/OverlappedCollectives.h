// SPDX-License-Identifier: Apache-2.0
// Collectives that run once for all micro-batches go on while one computes. Sums over ranks of what
// all added up begin while the last one computes, parameters that all read are gathered while the
// first one does (Megatron's --overlap-grad-reduce and --overlap-param-gather): where they are
// through before a collective that the micro-batch itself waits for.
#pragma once

#include "KernelTime.h"
#include "StepWork.h"

namespace mlir::autopar {

/// Of a step of several micro-batches without stages.
class OverlappedCollectives {
public:
  OverlappedCollectives() = default; ///< none are
  /// `times`: of the step's mesh.
  OverlappedCollectives(const StepWork &work, KernelTime &times);

  /// Those that start before an operation of the first micro-batch, in order.
  ArrayRef<Operation *> beforeFirst(Operation *op) const { return of(before, op); }
  /// Those that start behind an operation of the last one.
  ArrayRef<Operation *> behindLast(Operation *op) const { return of(behind, op); }
  bool contains(Operation *op) const { return all.contains(op); }

private:
  using Places = DenseMap<Operation *, SmallVector<Operation *, 2>>;

  static ArrayRef<Operation *> of(const Places &places, Operation *op) {
    auto found = places.find(op);
    return found == places.end() ? ArrayRef<Operation *>() : ArrayRef(found->second);
  }

  Places before, behind;
  DenseSet<Operation *> all;
};

} // namespace mlir::autopar
