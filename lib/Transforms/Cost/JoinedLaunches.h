// SPDX-License-Identifier: Apache-2.0
// Which kernels of a step are launched with others on a GPU (autopar-join-launches), by the order
// that the pass goes by. Grids are not known yet: kernels of one kind are taken for alike.
#pragma once

#include "StepWork.h"

namespace mlir::autopar {

/// Of operations that run one after the other on a mesh, those that another one's launch runs.
class JoinedLaunches {
public:
  JoinedLaunches(func::FuncOp function, const StepWork &work);

  void find(ArrayRef<Operation *> ops);
  bool contains(Operation *op) const { return joined.contains(op); }

private:
  const void *rootOf(Value value) const;

  const StepWork &work;
  DenseMap<Value, Value> nextOf; ///< arguments, by their next values
  DenseSet<Value> results;       ///< of the function
  DenseSet<Operation *> joined;
};

} // namespace mlir::autopar
