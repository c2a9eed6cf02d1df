// SPDX-License-Identifier: Apache-2.0
// Collectives that run once for all micro-batches go on while one computes. Sums over ranks of what
// all added up begin while the last one computes, parameters that all read are gathered while the
// first one does (Megatron's --overlap-grad-reduce and --overlap-param-gather): where they are
// through before a collective that the micro-batch itself waits for. In a pipeline that is so for
// the rows of the first micro-batch and the last row of a mesh, as far as the mesh has not to wait
// for others meanwhile.
#pragma once

#include "KernelTime.h"
#include "StepWork.h"

namespace mlir::autopar {

/// Of a mesh.
class OverlappedCollectives {
public:
  /// Those of each mesh of the schedule, which is that of `work`; none where there is one
  /// micro-batch. `times`: of each mesh.
  static std::vector<OverlappedCollectives>
  find(const StepWork &work, const ::autopar::Schedule &schedule, std::vector<KernelTime> &times);

  /// Those that start before an operation of the first micro-batch, in order.
  ArrayRef<Operation *> beforeFirst(Operation *op) const { return of(before, op); }
  /// Those that start behind an operation of the last one.
  ArrayRef<Operation *> behindLast(Operation *op) const { return of(behind, op); }
  bool isAnyBehindLast() const { return !behind.empty(); }
  bool contains(Operation *op) const { return all.contains(op); }
  /// When the first micro-batch comes to the mesh, at the earliest.
  double arrivesUs() const { return firstArrivesUs; }

private:
  using Places = DenseMap<Operation *, SmallVector<Operation *, 2>>;

  static ArrayRef<Operation *> of(const Places &places, Operation *op) {
    auto found = places.find(op);
    return found == places.end() ? ArrayRef<Operation *>() : ArrayRef(found->second);
  }

  Places before, behind;
  DenseSet<Operation *> all;
  double firstArrivesUs = 0;
};

} // namespace mlir::autopar
