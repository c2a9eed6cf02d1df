// SPDX-License-Identifier: Apache-2.0
// Copies of a device's state from host memory and back, as a walk over a step meets the operations
// that work on it.
#pragma once

#include "OpTime.h"

#include "autopar/Cost/CostModel.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Sharding.h"
#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <utility>

namespace mlir::autopar {

class HostTraffic {
public:
  explicit HostTraffic(const ::autopar::Link &link) : link(&link) {}

  /// When what `op` reads of host memory is there. Two are fetched ahead of the one that the device
  /// works on; the first, when the device comes to it.
  double fetch(Operation *op, double computeUs) {
    llvm::SmallPtrSet<Value, 4> seen;
    current.clear();
    for (Value operand : op->getOperands()) {
      auto argument = dyn_cast<BlockArgument>(operand);
      if (argument && isOnHost(argument) && seen.insert(argument).second)
        current.push_back(static_cast<double>(bytesOf(tensorTypeOf(argument))));
    }
    if (current.empty())
      return 0;
    inUs = std::max(inUs, isFirst ? computeUs : earlierUs);
    isFirst = false;
    for (double bytes : current)
      inUs += ::autopar::hostCopyUs(bytes, *link);
    return inUs;
  }

  /// The operation whose operands were fetched last ran from `startUs` to `endUs`, and what it has
  /// made of them goes back.
  void store(double startUs, double endUs, bool isUpdate) {
    if (current.empty())
      return;
    earlierUs = std::exchange(beganUs, startUs);
    if (!isUpdate)
      return;
    outUs = std::max(outUs, endUs);
    for (double bytes : current)
      outUs += ::autopar::hostCopyUs(bytes, *link);
  }

  /// Until when something is stored.
  double endUs() const { return outUs; }

private:
  const ::autopar::Link *link;
  llvm::SmallVector<double, 4> current; ///< bytes of each
  double inUs = 0, outUs = 0;           ///< until when the two ways are busy
  double beganUs = 0, earlierUs = 0;    ///< work on what was fetched last, and before that
  bool isFirst = true;
};

} // namespace mlir::autopar
