// SPDX-License-Identifier: Apache-2.0
// Kernels that put the parts of a collective's result in order: each runs before the first
// operation that reads the result (autopar-order-parts-late), so that others may run while the
// collective does.
#pragma once

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <utility>

namespace mlir::autopar {

class PartsInOrder {
public:
  /// `value`, of a collective, takes so long to be put in order.
  void wait(Value value, double us) { waiting[value] = {value, us}; }
  /// An operation that is read where its operand lies.
  void passOn(Operation *op) {
    for (Value operand : op->getOperands())
      if (auto found = waiting.find(operand); found != waiting.end())
        for (std::pair<Value, double> own = found->second; Value result : op->getResults())
          waiting[result] = own;
  }
  /// Calls for each operand that reads what was not put in order yet, with the collective's result.
  void read(Operation *op, function_ref<void(Value operand, Value value, double us)> call) {
    for (Value operand : op->getOperands()) {
      auto found = waiting.find(operand);
      if (found == waiting.end())
        continue;
      auto source = waiting.find(found->second.first);
      if (source != waiting.end() && source->second.second > 0) {
        double us = std::exchange(source->second.second, 0);
        call(operand, source->first, us);
      }
    }
  }
  /// How long `value` takes, which then does not wait any more.
  double take(Value value) {
    auto found = waiting.find(value);
    if (found == waiting.end())
      return 0;
    double us = found->second.second;
    waiting.erase(found);
    return us;
  }
  /// The same for all that nobody has read.
  void finish(function_ref<void(Value value, double us)> call) {
    for (auto &[value, source] : waiting)
      if (value == source.first && source.second > 0)
        call(value, std::exchange(source.second, 0));
    waiting.clear();
  }

private:
  /// What is read of which collective's result, which alone says how long that takes.
  llvm::MapVector<Value, std::pair<Value, double>> waiting;
};

} // namespace mlir::autopar
