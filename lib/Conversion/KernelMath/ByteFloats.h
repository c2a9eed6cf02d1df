// SPDX-License-Identifier: Apache-2.0
// Floats of 8 bits and less, which no processor that we generate code for computes with.
#ifndef AUTOPAR_LIB_CONVERSION_KERNELMATH_BYTEFLOATS_H
#define AUTOPAR_LIB_CONVERSION_KERNELMATH_BYTEFLOATS_H

#include "Expression.h"

namespace autopar::kernelmath {

/// The f32 that an i8 means as a number of `type`, exactly.
Expr decodeByteFloat(Expr byte, mlir::FloatType type);
/// An f32 rounded to `type`, to nearest and of two to even, as an i8. What lies beyond the largest
/// becomes infinite, NaN where the type has no infinity, and the largest where it has neither.
Expr encodeByteFloat(Expr x, mlir::FloatType type);

} // namespace autopar::kernelmath

#endif // AUTOPAR_LIB_CONVERSION_KERNELMATH_BYTEFLOATS_H
