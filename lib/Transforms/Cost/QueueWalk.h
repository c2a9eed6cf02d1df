// SPDX-License-Identifier: Apache-2.0
// A walk through operations in order as the queues of a rank run them: what computes on one, the
// collectives beside it on another.
#pragma once

#include "KernelTime.h"
#include "PartsInOrder.h"

#include <array>

namespace mlir::autopar {

class QueueWalk {
public:
  /// `times`, of the rank's mesh, outlives it.
  explicit QueueWalk(const KernelTime &times) : times(times) {}

  /// Runs an operation that takes so long once its operands are there. A collective starts no
  /// earlier than what stands before it: it writes where that has read. What computes beside it
  /// loses what the cost model says, and the kernel that puts its parts in order runs before the
  /// first reader (autopar-order-parts-late). `row`: 0 or 1, of two micro-batches that run
  /// together; values of one are not those of the other.
  void run(Operation *op, const KernelTime::Parts &parts, size_t row = 0) {
    if (parts.sum() == 0)
      late[row].passOn(op);
    else
      late[row].read(op, [&](Value, Value value, double orderUs) {
        computeUs = std::max(computeUs, ready[row].lookup(value)) + orderUs;
      });
    double us = readyUs(op, row);
    if (times.goesBeside(parts)) {
      if (parts.beforeUs > 0)
        us = computeUs = std::max(us, computeUs) + parts.beforeUs;
      us = collectiveUs = std::max({us, computeUs, collectiveUs}) + parts.collectiveUs;
      computeUs += parts.lossUs;
      if (parts.afterUs > 0)
        late[row].wait(op->getResult(0), parts.afterUs);
    } else if (parts.sum() > 0) {
      us = computeUs = std::max(us, computeUs) + parts.sum();
    }
    for (Value result : op->getResults())
      ready[row][result] = us;
  }

  /// When the operands of an operation are there.
  double readyUs(Operation *op, size_t row = 0) const {
    double us = 0;
    for (Value operand : op->getOperands())
      us = std::max(us, ready[row].lookup(operand));
    return us;
  }
  /// A value that is there when another one is.
  void setReady(Value value, Value with) { ready[0][value] = ready[0].lookup(with); }
  double endUs() const { return std::max(computeUs, collectiveUs); }

  double computeUs = 0, collectiveUs = 0; ///< until when a queue is busy

private:
  const KernelTime &times;
  std::array<DenseMap<Value, double>, 2> ready;
  std::array<PartsInOrder, 2> late;
};

} // namespace mlir::autopar
