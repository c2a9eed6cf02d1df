// SPDX-License-Identifier: Apache-2.0
// Arithmetic on positions in tensors, as emitters of whole kernels write it.
#pragma once

#include "ScalarArithmetic.h"

namespace mlir::autopar {

/// At one location of the kernel.
struct Positions {
  OpBuilder &b;
  Location loc;

  Value constant(int64_t value) { return indexConstant(b, loc, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value add(Value x, int64_t y) { return add(x, constant(y)); }
  Value mul(Value x, int64_t y) { return arith::MulIOp::create(b, loc, x, constant(y)); }
  Value div(Value x, int64_t y) { return arith::DivUIOp::create(b, loc, x, constant(y)); }
  Value rem(Value x, int64_t y) { return arith::RemUIOp::create(b, loc, x, constant(y)); }
  Value isBelow(Value x, Value y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::slt, x, y);
  }
  Value isBelow(Value x, int64_t y) { return isBelow(x, constant(y)); }
  /// Whether it is that of something: what is below 0 is none.
  Value isNumber(Value x) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sge, x, constant(0));
  }
  Value both(Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  /// Element `at` of a flat memref of i32 or i64.
  Value read(Value memref, Value at) {
    Type element = cast<MemRefType>(memref.getType()).getElementType();
    return arith::IndexCastOp::create(b, loc, b.getIndexType(),
                                      loadScalar(b, loc, memref, at, element));
  }
};

} // namespace mlir::autopar
