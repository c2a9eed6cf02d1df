// SPDX-License-Identifier: Apache-2.0
// The one element of a row whose position is data: that of the label in a loss. Formulas ask of
// every element whether it is the one; kernels that know where it is need not.
#pragma once

#include "KernelPlan.h"

namespace mlir::autopar {

class RowMark {
public:
  /// The mark of the rows of a kernel, if its formulas know one, and no more.
  static std::optional<RowMark> find(const GroupBody &body, const KernelPlan &plan);

  /// Its position in the row: a tensor of integers, the same for all elements of a row.
  Value getPosition() const { return position; }
  /// What holds at the marked element alone.
  ArrayRef<Value> getTests() const { return tests; }
  /// Whether `op` sums up rows whose other elements are all 0.
  bool isOnlyTermOf(Operation *op) const;
  /// Whether `value` is made of a test.
  bool matters(Value value) const;

private:
  bool isZeroElsewhere(Value value) const;

  Value position;
  SmallVector<Value> tests;
};

} // namespace mlir::autopar
