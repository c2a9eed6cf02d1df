// SPDX-License-Identifier: Apache-2.0
// What a library applies to a matrix product or convolution while it stores the result: one grammar
// for the pass that leaves operations to it, the pass that writes them narrow, and the lowering
// that reads them back.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Target.h"

#include <optional>

namespace mlir::autopar {

/// One operation behind a product or convolution, and what it is to the library.
struct EpilogueStep {
  enum Kind { Bias, Residual, Activation, Gradient, Scale } kind;
  Operation *op;
  /// The vector of a bias, a residual, where a derivative is taken or its mask; else null.
  Value other = {};
  double factor = 1.0; ///< of a scale
};

/// Whether some library applies a function of one element as it stores what it multiplied.
bool isEpilogueActivation(UnaryKind kind);
/// The same for the library of one target: cuBLASLt has no exact GELU.
bool isEpilogueActivation(UnaryKind kind, Target target);

/// The vector that `value`, of the shape of the contraction's result, repeats along everything but
/// the columns of a product (the last dimensions, as many as its right side has free ones) or the
/// channels of a convolution; null where it is no such bias.
Value biasOf(Value value, Operation *contraction);

/// What a library applies, and in which order: a bias and a residual of the result's shape, one or
/// the other first, an activation (relu, gelu, gelu_tanh), each at most once; or, to a product,
/// alone a scale by a constant, or the gradient of an activation. An activation, its gradient and a
/// scale end it.
class EpilogueGrammar {
public:
  explicit EpilogueGrammar(Operation *contraction) : contraction(contraction) {}
  virtual ~EpilogueGrammar() = default;

  /// The step that `op` is, which alone reads `value`; nothing where the library cannot take it as
  /// the next one.
  std::optional<EpilogueStep> next(Operation *op, Value value);
  bool hasEnded() const { return isEnded; }

protected:
  /// What the library reads for `value` as a residual; null where it cannot.
  virtual Value residualOf(Value value) const = 0;

  Operation *contraction;

private:
  std::optional<EpilogueStep> nextAdd(BinaryOp add, Value value);
  std::optional<EpilogueStep> nextScale(BinaryOp scale, Value value);
  std::optional<EpilogueStep> nextActivation(UnaryOp unary);
  std::optional<EpilogueStep> nextGradient(Operation *gradient, Value at);
  bool isBegun() const { return hasBias || hasResidual; }

  bool hasBias = false, hasResidual = false, isEnded = false;
};

} // namespace mlir::autopar
