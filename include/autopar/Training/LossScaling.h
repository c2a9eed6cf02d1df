// SPDX-License-Identifier: Apache-2.0
// Loss scaling: cotangents are multiplied by a power of two, so that small ones are not lost in
// f16, and gradients are divided by it again. A dynamic scale grows until something overflows.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Training/CallSyntax.h"

namespace mlir::autopar {

/// A checked choice of scale:
///
///   dynamic(initial=65536, interval=2000)    halved where a gradient overflows, and doubled after
///                                            `interval` steps without
///   static(scale=1024)
///
/// Micikevicius et al., "Mixed precision training", 2018. Scales are powers of two, so that they
/// round nothing.
class LossScaling {
public:
  /// BadInput points at what is wrong.
  static ::autopar::Result<LossScaling> parse(const std::string &text);

  /// Names of the numbers that last: i64 scalars that start at zero.
  SmallVector<StringRef> stateNames() const;

  /// The scale of this step (f32).
  Value scale(FormulaBuilder &b, ValueRange state) const;
  /// The state of the next step, in the order of the names. `isFinite`: no gradient has overflowed.
  SmallVector<Value> next(FormulaBuilder &b, ValueRange state, Value isFinite) const;
  /// How many steps have been skipped, out of a state.
  static Value skippedSteps(ValueRange state) { return state[0]; }

private:
  bool dynamic = false;
  int64_t exponent = 0; ///< of the first scale
  int64_t interval = 0;
};

} // namespace mlir::autopar
