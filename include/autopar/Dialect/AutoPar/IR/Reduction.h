// SPDX-License-Identifier: Apache-2.0
// What a reduction does to two values, and the value that it leaves alone.
#pragma once

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"

namespace mlir::autopar {

/// The identity of a reduction over elements of a type.
TypedAttr identityOf(ReductionKind reduction, Type element);
/// A tensor of identities.
Value buildIdentity(OpBuilder &builder, Location loc, RankedTensorType type,
                    ReductionKind reduction);
/// Whether all elements of a value are known to be the identity.
bool isIdentity(Value value, ReductionKind reduction);
/// `value` where `index` (an i64 scalar) is zero, identities elsewhere: combined over all indices
/// it is the value again.
Value buildInFirst(OpBuilder &builder, Location loc, Value value, Value index,
                   ReductionKind reduction);
/// The operation that combines two values.
BinaryKind combinerOf(ReductionKind reduction);

} // namespace mlir::autopar
