// SPDX-License-Identifier: Apache-2.0
// What is known of the sign of an exponent: exp of what is never positive is cheaper.
#pragma once

#include "ScalarArithmetic.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// Whether no element that counts of what `exp` is taken of is positive: the greatest of its row is
/// subtracted, or the logarithm of the sum of the row's exponentials. An element does not count
/// where the greatest was not looked for, if nobody reads it there.
bool hasNoPositiveExponent(UnaryOp exp);

/// e^x of an x that is at most 0: a cheaper form, which differs only below the normal range, where
/// it may be 0.
Value emitExpOfNegative(Scalars &s, Value x);

} // namespace mlir::autopar
