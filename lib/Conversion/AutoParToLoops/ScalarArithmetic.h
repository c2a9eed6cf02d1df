// SPDX-License-Identifier: Apache-2.0
// The scalars that formulas are made of: their types, constants, loads and stores, and arithmetic
// that does not depend on which operation asks. Everything here emits arith and math operations.
#pragma once

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mlir::autopar {

/// The type in which elements travel between formulas: f32 for narrower floats, signless for
/// unsigned integers, else the element type itself.
Type getScalarType(Type elementType);
/// The type in which elements stand in memory: i8 for i1 and for floats of 8 bits and less,
/// signless for unsigned integers.
Type getStorageType(Type elementType);

/// A builder bound to one place, one location and one tensor element type, so that formulas read
/// like formulas. Values are of the travelling type.
class Scalars {
public:
  Scalars(OpBuilder &builder, Location loc, Type elementType);

  bool isFloat() const { return isa<FloatType>(type); }
  bool isUnsigned() const { return isUnsignedType; }
  bool isBool() const { return type.isInteger(1); }
  Type getType() const { return type; }

  /// A constant of the travelling type; integers are truncated.
  Value constant(double value);
  Value integer(int64_t value);
  /// The least and the greatest value: infinities for floats.
  Value lowest();
  Value highest();

  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  /// Integers truncate; x / 0 = 0, and the quotient that does not fit wraps.
  Value div(Value a, Value b);
  /// C's fmod and %; x % 0 = 0 for integers.
  Value remainder(Value a, Value b);
  /// NaN if either is NaN.
  Value max(Value a, Value b);
  Value min(Value a, Value b);
  Value neg(Value a);
  /// Ordered comparisons (false with NaN) except ne.
  Value compare(StringRef predicate, Value a, Value b);
  Value select(Value condition, Value a, Value b);

  template <typename Op>
  Value math(Value a) {
    return Op::create(builder, loc, a).getResult();
  }
  template <typename Op>
  Value math(Value a, Value b) {
    return Op::create(builder, loc, a, b).getResult();
  }

  /// A sum or product that may be reassociated and contracted, as reductions need.
  Value addRelaxed(Value a, Value b);
  Value mulRelaxed(Value a, Value b);
  /// A maximum that may assume that there is no NaN.
  Value maxRelaxed(Value a, Value b);

  OpBuilder &builder;
  Location loc;

private:
  Value safeQuotient(Value a, Value b, bool wantRemainder);
  Type type;
  bool isUnsignedType;
};

/// What stands in memory as a scalar of the travelling type, and a scalar as it stands there:
/// floats are rounded to `elementType`.
Value fromStorage(OpBuilder &builder, Location loc, Value stored, Type elementType);
Value toStorage(OpBuilder &builder, Location loc, Value scalar, Type elementType);
/// Reads element `offset` of the flat memref that holds a tensor of `elementType`, as a scalar of
/// the travelling type.
Value loadScalar(OpBuilder &builder, Location loc, Value memref, ValueRange offset,
                 Type elementType);
/// Writes a scalar of the travelling type, rounded to `elementType`.
void storeScalar(OpBuilder &builder, Location loc, Value scalar, Value memref, ValueRange offset,
                 Type elementType);
/// Rounds an f32 to the precision of `elementType`, a narrower float, and returns it as f32 again.
Value roundTo(OpBuilder &builder, Location loc, Value scalar, Type elementType);
/// Converts a scalar between tensor element types as autopar.cast does.
Value castScalar(OpBuilder &builder, Location loc, Value scalar, Type from, Type to,
                 bool overflows = false);

Value indexConstant(OpBuilder &builder, Location loc, int64_t value);

} // namespace mlir::autopar
