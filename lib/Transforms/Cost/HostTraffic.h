// SPDX-License-Identifier: Apache-2.0
// Copies of a device's state from host memory and back, as a walk over a step meets the operations
// that work on it.
#pragma once

#include "autopar/Cost/Cluster.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SmallVector.h"

#include <vector>

namespace mlir::autopar {

class HostTraffic {
public:
  explicit HostTraffic(const ::autopar::Link &link) : link(&link) {}

  /// The operations of a step, in order, before the walk. Like autopar-stage-host-buffers, it
  /// gathers what they work on into groups, and like autopar-plan-memory gives the copies on the
  /// device bytes, by first fit.
  void plan(const std::vector<Operation *> &ops, function_ref<bool(Operation *)> isUpdate);

  /// When what `op` reads of host memory is there. Nothing comes before the device has come to the
  /// first reader or update, nor before the bytes that it takes are free.
  double fetch(Operation *op, double computeUs);
  /// The operation ended, and what it has made of its copies goes back.
  void store(Operation *op, double endUs);
  /// What was made elsewhere goes to its place.
  void store(int64_t bytes, double endUs);
  /// What a copy of these bytes takes, either way.
  double copyUs(double bytes) const;
  /// Until when something is stored.
  double endUs() const { return outUs; }

private:
  struct Copy {
    int64_t group, firstGroup; ///< that it is for, and whose begin it comes at
    int64_t bytes;
    int64_t offset = 0;
    bool isThere = false;
    double goneUs = 0;                  ///< when its bytes are free
    SmallVector<size_t, 4> before = {}; ///< the copies whose bytes it takes
  };
  struct Use {
    bool isUpdate, isFirst; ///< of the readers, or of the updates
    SmallVector<size_t, 4> copies;
  };
  void place();

  const ::autopar::Link *link;
  std::vector<Copy> copies;
  llvm::DenseMap<Operation *, Use> uses;
  double inUs = 0, outUs = 0; ///< until when the two ways are busy
};

} // namespace mlir::autopar
