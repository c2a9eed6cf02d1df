// SPDX-License-Identifier: Apache-2.0
// What a reduction does to scalars.
#pragma once

#include "ScalarArithmetic.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// The value that a reduction starts from.
Value reduceStart(Scalars &s, ReduceKind kind);
/// One element more; sums and products may be reassociated.
Value reduceStep(Scalars &s, ReduceKind kind, Value sum, Value element);
/// The same in the order of the elements, as running combinations are; of sums, products and
/// extremes.
Value runningStep(Scalars &s, ReduceKind kind, Value sum, Value element);

} // namespace mlir::autopar
