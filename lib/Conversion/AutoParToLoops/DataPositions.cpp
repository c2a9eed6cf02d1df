// SPDX-License-Identifier: Apache-2.0
// See DataPositions.h.
#include "DataPositions.h"

#include "ScalarArithmetic.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Arithmetic in a type that has both the position and the extent.
struct Comparable {
  Comparable(OpBuilder &builder, Location loc, Value given, int64_t extent)
      : builder(builder), loc(loc), value(given) {
    bool fits = extent <= std::numeric_limits<int32_t>::max();
    unsigned least = fits ? 32 : 64;
    if (value.getType().getIntOrFloatBitWidth() < least)
      value = arith::ExtSIOp::create(builder, loc, builder.getIntegerType(least), value);
  }
  Value constant(int64_t number) {
    return arith::ConstantIntOp::create(builder, loc, value.getType(), number);
  }
  Value compare(arith::CmpIPredicate predicate, int64_t number) {
    return arith::CmpIOp::create(builder, loc, predicate, value, constant(number));
  }
  Value asIndex() {
    return arith::IndexCastOp::create(builder, loc, builder.getIndexType(), value);
  }

  OpBuilder &builder;
  Location loc;
  Value value;
};

} // namespace

Value autopar::emitFromEnd(OpBuilder &builder, Location loc, Value position, int64_t extent) {
  Comparable own(builder, loc, position, extent);
  Value isNegative = own.compare(arith::CmpIPredicate::slt, 0);
  Value fromEnd = arith::AddIOp::create(builder, loc, own.value, own.constant(extent));
  return arith::SelectOp::create(builder, loc, isNegative, fromEnd, own.value);
}

Value autopar::emitClamped(OpBuilder &builder, Location loc, Value position, int64_t last) {
  Comparable own(builder, loc, position, last);
  own.value = arith::MaxSIOp::create(builder, loc, own.value, own.constant(0));
  own.value = arith::MinSIOp::create(builder, loc, own.value, own.constant(last));
  return own.asIndex();
}

CheckedPosition autopar::emitChecked(OpBuilder &builder, Location loc, Value position,
                                     int64_t extent) {
  Comparable own(builder, loc, position, extent);
  Value isInside = own.compare(arith::CmpIPredicate::ult, extent);
  own.value = arith::SelectOp::create(builder, loc, isInside, own.value, own.constant(0));
  return {own.asIndex(), isInside};
}
