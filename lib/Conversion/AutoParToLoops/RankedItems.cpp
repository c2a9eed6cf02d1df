// SPDX-License-Identifier: Apache-2.0
// Keys of elements: unsigned integers that are the greater, the better the element is.
#include "RankedItems.h"
#include "LoweringModels.h"

using namespace mlir;
using namespace mlir::autopar;

RankedRows::RankedRows(TopKOp op, Value input, Value values, Value indices)
    : loc(op.getLoc()), element(elementTypeOf(op.getInput())),
      from(shapeOf(op.getInput()), op.getDim()), to(shapeOf(op.getValues()), op.getDim()),
      isSmallest(op.getSmallest()), input(input), values(values), indices(indices) {}

SmallVector<Type> RankedRows::types(OpBuilder &builder) const {
  if (isPacked())
    return {builder.getI64Type()};
  return {builder.getI64Type(), builder.getI32Type()};
}

/// Of as many bits as the scalar has.
Value RankedRows::keyOf(OpBuilder &b, Value scalar) const {
  Scalars s(b, loc, element);
  unsigned width = scalar.getType().getIntOrFloatBitWidth();
  Type type = b.getIntegerType(width);
  auto bits = [&](const APInt &value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getIntegerAttr(type, value));
  };
  Value top = bits(APInt::getSignedMinValue(width)), all = bits(APInt::getAllOnes(width));
  Value key = scalar;
  if (s.isFloat()) {
    // The sum makes one zero of both; of negative numbers all bits change, of others the sign.
    Value raw = arith::BitcastOp::create(b, loc, type, s.add(scalar, s.constant(0)));
    Value sign = arith::ShRSIOp::create(b, loc, raw, bits(APInt(width, width - 1)));
    key = arith::XOrIOp::create(b, loc, raw, arith::OrIOp::create(b, loc, sign, top));
    key = s.select(s.compare("ne", scalar, scalar), all, key);
  } else if (!s.isUnsigned()) {
    key = arith::XOrIOp::create(b, loc, key, top);
  }
  return isSmallest ? arith::XOrIOp::create(b, loc, key, all).getResult() : key;
}

RankedItem RankedRows::read(OpBuilder &b, Value row, Value position) const {
  Type i32 = b.getI32Type(), i64 = b.getI64Type();
  Value offset = from.element(b, loc, from.base(b, loc, row), position);
  Value key = keyOf(b, loadScalar(b, loc, input, offset, element));
  Value place = arith::IndexCastOp::create(b, loc, i32, position);
  if (!isPacked())
    return {key, place};
  // The lower position is the better one.
  Value everything = arith::ConstantIntOp::create(b, loc, i32, -1);
  Value low = arith::XOrIOp::create(b, loc, place, everything);
  Value half = arith::ConstantIntOp::create(b, loc, i64, 32);
  Value high = arith::ShLIOp::create(b, loc, arith::ExtUIOp::create(b, loc, i64, key), half);
  return {arith::OrIOp::create(b, loc, high, arith::ExtUIOp::create(b, loc, i64, low)).getResult()};
}

/// The element is read again: keys do not tell zeros or NaNs apart.
void RankedRows::write(OpBuilder &b, Value row, Value rank, const RankedItem &item) const {
  Value place = item.back();
  if (isPacked()) {
    Value low = arith::TruncIOp::create(b, loc, b.getI32Type(), place);
    Value everything = arith::ConstantIntOp::create(b, loc, b.getI32Type(), -1);
    place = arith::XOrIOp::create(b, loc, low, everything);
  }
  Value position = arith::IndexCastUIOp::create(b, loc, b.getIndexType(), place);
  Value source = from.element(b, loc, from.base(b, loc, row), position);
  Value target = to.element(b, loc, to.base(b, loc, row), rank);
  storeScalar(b, loc, loadScalar(b, loc, input, source, element), values, target, element);
  Value index = arith::ExtUIOp::create(b, loc, b.getI64Type(), place);
  storeScalar(b, loc, index, indices, target, b.getI64Type());
}

RankedItem RankedRows::none(OpBuilder &b) const {
  Value zero = arith::ConstantIntOp::create(b, loc, b.getI64Type(), 0);
  if (isPacked())
    return {zero};
  return {zero, arith::ConstantIntOp::create(b, loc, b.getI32Type(), -1)};
}

Value RankedRows::isBetter(OpBuilder &b, const RankedItem &a, const RankedItem &c) const {
  auto compare = [&](arith::CmpIPredicate predicate, int word) -> Value {
    return arith::CmpIOp::create(b, loc, predicate, a[word], c[word]);
  };
  Value wins = compare(arith::CmpIPredicate::ugt, 0);
  if (isPacked())
    return wins;
  Value ties = arith::AndIOp::create(b, loc, compare(arith::CmpIPredicate::eq, 0),
                                     compare(arith::CmpIPredicate::ult, 1));
  return arith::OrIOp::create(b, loc, wins, ties);
}

Value RankedRows::isSame(OpBuilder &b, const RankedItem &a, const RankedItem &c) const {
  return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, a.back(), c.back());
}

RankedItem RankedRows::select(OpBuilder &b, Value condition, const RankedItem &a,
                              const RankedItem &c) const {
  RankedItem chosen;
  for (auto [left, right] : llvm::zip_equal(a, c))
    chosen.push_back(arith::SelectOp::create(b, loc, condition, left, right));
  return chosen;
}
