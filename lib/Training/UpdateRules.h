// SPDX-License-Identifier: Apache-2.0
// What formulas of several optimizers have in common.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"

namespace mlir::autopar {

/// a + t (b - a)
inline Value interpolate(FormulaBuilder &b, Value from, Value to, double t) {
  return b.add(from, b.scale(b.sub(to, from), t));
}

/// The parameter shrunk by rate * decay (Loshchilov and Hutter, "Decoupled weight decay
/// regularization", 2019).
inline Value decayed(FormulaBuilder &b, Value parameter, Value rate, double decay) {
  return decay == 0 ? parameter : b.mul(parameter, b.shift(b.scale(rate, -decay), 1));
}

} // namespace mlir::autopar
