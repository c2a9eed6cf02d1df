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
///   cosine(steps=..., warmup=0, min=0)               Loshchilov and Hutter, "SGDR", 2017,
///                                                    without restarts
///   polynomial(steps=..., power=2, warmup=0, min=0)
///   wsd(steps=..., decay=..., warmup=0, min=0)       warm-up, stable, decay: Hu et al., "MiniCPM",
///                                                    2024
///   step(every=..., factor=0.1, warmup=0)            times `factor` after every so many steps
///   inverse_sqrt(warmup=...)                         Vaswani et al., "Attention is all you need",
///                                                    2017
///
/// `warmup` steps rise linearly to the optimizer's rate; `steps` counts from the first step to the
/// one from which on the rate is `min`, `decay` those of them in which it falls.
class LearningRateSchedule {
public:
  /// BadInput points at what is wrong.
  static ::autopar::Result<LearningRateSchedule> parse(const std::string &text);

  /// The rate of a step: `base` is the optimizer's, `count` the number of the step counted from 1;
  /// all f64 scalars.
  Value rate(FormulaBuilder &b, Value base, Value count) const;

private:
  enum class Kind { Constant, Linear, Cosine, Polynomial, WarmupStableDecay, Step, InverseSqrt };
  bool ends() const; ///< with `least`
  /// From 1 in step number `begin` to 0 in step number `steps`.
  Value partLeft(FormulaBuilder &b, Value count) const;

  Kind kind = Kind::Constant;
  double warmup = 0, begin = 0, steps = 0, least = 0, power = 1, every = 1, factor = 1;
};

} // namespace mlir::autopar
