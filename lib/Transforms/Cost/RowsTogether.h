// SPDX-License-Identifier: Apache-2.0
// Two rows of a pipeline's schedule that a mesh runs together: in which order their operations
// stand, so that one computes while the other waits for a collective (DeepSeek-AI, "DeepSeek-V3
// Technical Report", 2024, section 3.2.1, orders the parts of a block by hand; here the cost model
// does).
#pragma once

#include "KernelTime.h"
#include "StepWork.h"

#include <map>
#include <utility>

namespace mlir::autopar {

class RowsTogether {
public:
  /// An operation, and of which of the two rows it is.
  using Place = std::pair<Operation *, size_t>;

  /// Both, of the rows' mesh, outlive it.
  RowsTogether(const StepWork &work, KernelTime &times) : work(work), times(times) {}

  /// The operations of both rows, each row's in its order. One row behind the other where nothing
  /// is gained by another order: devices that move bytes themselves compute nothing meanwhile. The
  /// lists outlive this: what was found of two of them is kept.
  ArrayRef<Place> order(ArrayRef<Operation *> first, ArrayRef<Operation *> second);

private:
  class Merge;
  std::vector<Place> newOrder(ArrayRef<Operation *> first, ArrayRef<Operation *> second) const;

  const StepWork &work;
  KernelTime &times;
  std::map<std::pair<Operation *const *, Operation *const *>, std::vector<Place>> known;
};

} // namespace mlir::autopar
