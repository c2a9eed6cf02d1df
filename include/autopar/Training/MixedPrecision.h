// SPDX-License-Identifier: Apache-2.0
// Mixed precision after differentiation: where the values of a training step are rounded. The
// forward function is narrowed before, by the pass autopar-mixed-precision.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::autopar {

/// The attribute of a function in which autopar-mixed-precision leaves the narrow element type.
inline constexpr StringLiteral kPrecisionAttribute = "autopar.precision";

/// The element type of a precision as the command line spells it: f32, bf16, fp16 or fp8 (bf16, of
/// which autopar-scale-products computes products in 8 bits); null for other words.
FloatType precisionType(MLIRContext *context, StringRef word);

/// Puts a step whose derivatives have just been built in order:
///   - arithmetic on narrow floats is done in f32 and rounded once;
///   - the way back reads what the forward function rounded in its rounded form, so that nothing is
///     kept in both;
///   - what cotangents are multiplied with on the way back is rounded too;
///   - a rounded value with a single reader in whose kernel it is computed stays f32;
///   - where `wideGradients` is set, products yield the gradients of parameters in f32, and
///     ranks sum them in f32.
/// `cotangents` are the values where the way back starts, `gradients` those of the parameters
/// (entries may be null); they are replaced where they change. Does nothing for a function that was
/// not narrowed.
void settlePrecision(func::FuncOp function, ValueRange cotangents, MutableArrayRef<Value> gradients,
                     bool wideGradients);

} // namespace mlir::autopar
