// SPDX-License-Identifier: Apache-2.0
// A walk through operations in order as the queues of a rank run them: what computes on one, the
// collectives beside it on another.
#pragma once

#include "StepParts.h"

namespace mlir::autopar {

class QueueWalk {
public:
  explicit QueueWalk(const StepPart &part) : part(part) {}

  /// Runs an operation that takes so long once its operands are there. A collective starts no
  /// earlier than what stands before it: it writes where that has read. What
  /// computes beside it loses what the cost model says.
  void run(Operation *op, const KernelTime::Parts &parts) {
    double us = readyUs(op);
    if (part.goesBeside(parts)) {
      if (parts.beforeUs > 0)
        us = computeUs = std::max(us, computeUs) + parts.beforeUs;
      us = collectiveUs = std::max({us, computeUs, collectiveUs}) + parts.collectiveUs;
      computeUs += parts.lossUs;
      if (parts.afterUs > 0)
        us = computeUs = std::max(us, computeUs) + parts.afterUs;
    } else if (parts.sum() > 0) {
      us = computeUs = std::max(us, computeUs) + parts.sum();
    }
    for (Value result : op->getResults())
      ready[result] = us;
  }

  /// When the operands of an operation are there.
  double readyUs(Operation *op) const {
    double us = 0;
    for (Value operand : op->getOperands())
      us = std::max(us, ready.lookup(operand));
    return us;
  }
  /// A value that is there when another one is.
  void setReady(Value value, Value with) { ready[value] = ready.lookup(with); }
  double endUs() const { return std::max(computeUs, collectiveUs); }

  double computeUs = 0, collectiveUs = 0; ///< until when a queue is busy

private:
  const StepPart &part;
  DenseMap<Value, double> ready;
};

} // namespace mlir::autopar
