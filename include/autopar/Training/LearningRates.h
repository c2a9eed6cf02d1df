// SPDX-License-Identifier: Apache-2.0
// Learning-rate schedules: how the rate of a step follows from its number, as part of the step
// itself.
#pragma once

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Training/CallSyntax.h"

namespace mlir::autopar {

/// A checked schedule:
///
///   constant(warmup=0)
///   linear(steps=..., warmup=0, min=0)
///   cosine(steps=..., warmup=0, min=0)       Loshchilov and Hutter: SGDR, ICLR 2017, without
///   restarts inverse_sqrt(warmup=...)                 Vaswani et al.: Attention is all you need,
///   2017
///
/// `warmup` steps rise linearly to the optimizer's rate; `steps` counts from the first step to the
/// one from which on the rate is `min`.
class LearningRateSchedule {
public:
  /// BadInput points at what is wrong.
  static ::autopar::Result<LearningRateSchedule> parse(const std::string &text);

  /// The rate of a step: `base` is the optimizer's, `count` the number of the step counted from 1;
  /// all f64 scalars.
  Value rate(FormulaBuilder &b, Value base, Value count) const;

private:
  enum class Kind { Constant, Linear, Cosine, InverseSqrt };
  Kind kind = Kind::Constant;
  double warmup = 0, steps = 0, least = 0;
};

} // namespace mlir::autopar
