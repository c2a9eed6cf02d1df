// SPDX-License-Identifier: Apache-2.0
// Elements that exist only where a condition on the position holds.
#pragma once

#include "ScalarArithmetic.h"

namespace mlir::autopar {

/// Emits `inside` only where the condition holds, because elements outside must not be read;
/// `outside` otherwise. Both give a scalar of `type`.
Value emitGuarded(OpBuilder &builder, Location loc, Value condition, Type type,
                  function_ref<Value(OpBuilder &)> inside,
                  function_ref<Value(OpBuilder &)> outside);

/// Conjunction; a null value is true.
Value emitAnd(OpBuilder &builder, Location loc, Value a, Value b);

/// Compares an index with a constant.
Value compareIndex(OpBuilder &builder, Location loc, arith::CmpIPredicate predicate, Value index,
                   int64_t constant);

} // namespace mlir::autopar
