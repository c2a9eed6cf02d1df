// SPDX-License-Identifier: Apache-2.0
// What follows a matrix product or convolution and can be applied by the library while it stores
// the result.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "llvm/ADT/DenseSet.h"

#include <optional>

namespace mlir::autopar {

/// One operation behind a product or convolution, and what it is to the library.
struct EpilogueStep {
  enum Kind { Bias, Residual, Activation, Gradient, Scale } kind;
  Operation *op;
  Value other; ///< the vector of a bias, a residual, where a derivative is taken; else null
};

/// Whether a library applies a function of one element as it stores what it multiplied.
bool isEpilogueActivation(UnaryKind kind);

/// What a library applies, and in which order: a bias along the columns of a product or the
/// channels of a convolution, a residual of the result's shape, an activation (relu, gelu,
/// gelu_tanh), each at most once; or alone a scale by a constant, or the gradient of an activation.
/// An activation, its gradient and a scale end it.
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
  /// The vector that `value` repeats as a bias; null where it is none.
  Value biasOf(Value value) const;

  Operation *contraction;

private:
  std::optional<EpilogueStep> nextAdd(BinaryOp add, Value value);
  std::optional<EpilogueStep> nextScale(BinaryOp scale, Value value);
  std::optional<EpilogueStep> nextActivation(UnaryOp unary);
  std::optional<EpilogueStep> nextGradient(UnaryGradOp gradient, Value value);
  bool isBegun() const { return hasBias || hasResidual; }

  bool hasBias = false, hasResidual = false, isEnded = false;
};

/// The operations of a contraction group, in program order: `contraction` and the steps behind it,
/// as far as no value in between has another user. Reshapes in between are moved behind the group.
/// Operations in `claimed` belong to others; those that are taken are added to it.
SmallVector<Operation *> matchContractionEpilogue(Operation *contraction,
                                                  DenseSet<Operation *> &claimed);

} // namespace mlir::autopar
