// SPDX-License-Identifier: Apache-2.0
// Operations on elements.
#include "Drawer.h"

using namespace autopar_law;

std::optional<DrawnValue> autopar_law::makeCompare(Drawer &d) {
  DrawnValue a = d.floats(1, true);
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  auto maskType = d.typeOf(a).clone(d.builder.getI1Type());
  Value mask = CompareOp::create(d.builder, d.loc, maskType,
                                 static_cast<ComparePredicate>(d.below(6)), a.value, b.value);
  return DrawnValue{mask, true, 1, 0};
}

namespace {

std::optional<DrawnValue> makeUnary(Drawer &d) {
  static constexpr UnaryKind smooth[] = {UnaryKind::Sin,      UnaryKind::Cos,     UnaryKind::Tanh,
                                         UnaryKind::Erf,      UnaryKind::Sigmoid, UnaryKind::Gelu,
                                         UnaryKind::GeluTanh, UnaryKind::Silu,    UnaryKind::Atan};
  static constexpr UnaryKind exact[] = {UnaryKind::Neg, UnaryKind::Abs, UnaryKind::Relu};
  DrawnValue x = d.floats();
  if (d.below(2))
    return d.inexactly(d.unary(smooth[d.below(std::size(smooth))], x.value),
                       std::max(1.6, x.bound));
  return d.exactly(d.unary(exact[d.below(std::size(exact))], x.value), x.bound, x.fractionBits,
                   x.exact);
}

std::optional<DrawnValue> makeUnaryGrad(Drawer &d) {
  static constexpr UnaryKind kinds[] = {UnaryKind::Gelu, UnaryKind::GeluTanh, UnaryKind::Silu};
  DrawnValue x = d.floats();
  DrawnValue g = d.argument(d.typeOf(x).getShape(), d.typeOf(x).getElementType());
  return d.inexactly(UnaryGradOp::create(d.builder, d.loc, x.value.getType(),
                                         kinds[d.below(std::size(kinds))], x.value, g.value),
                     2 * g.bound);
}

std::optional<DrawnValue> makeBinary(Drawer &d) {
  DrawnValue a = d.floats();
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  switch (d.below(4)) {
  case 0:
    return d.exactly(d.binary(BinaryKind::Add, a.value, b.value), a.bound + b.bound,
                     std::max(a.fractionBits, b.fractionBits), a.exact);
  case 1:
    return d.exactly(d.binary(BinaryKind::Mul, a.value, b.value), a.bound * b.bound,
                     a.fractionBits + b.fractionBits, a.exact);
  case 2:
    return d.exactly(d.binary(BinaryKind::Max, a.value, b.value), std::max(a.bound, b.bound),
                     std::max(a.fractionBits, b.fractionBits), a.exact);
  default: {
    Value divisor =
        d.binary(BinaryKind::Add, d.unary(UnaryKind::Abs, b.value), d.splat(d.typeOf(b), 1));
    return d.inexactly(d.binary(BinaryKind::Div, a.value, divisor), a.bound);
  }
  }
}

std::optional<DrawnValue> makeSelect(Drawer &d) {
  DrawnValue a = d.floats(1);
  DrawnValue b = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  DrawnValue c = d.argument(d.typeOf(a).getShape(), d.typeOf(a).getElementType());
  Value mask = CompareOp::create(d.builder, d.loc, d.typeOf(b).clone(d.builder.getI1Type()),
                                 ComparePredicate::Lt, b.value, c.value);
  Value picked = SelectOp::create(d.builder, d.loc, mask, a.value, b.value);
  return d.exactly(picked, std::max(a.bound, b.bound), std::max(a.fractionBits, b.fractionBits),
                   a.exact);
}

/// To a float of 8 bits, which travels between ranks, and back. Its largest number is far beyond,
/// and its steps are no finer than those of the number.
DrawnValue roundToByte(Drawer &d) {
  DrawnValue x = d.argument(d.shape(1 + d.below(3)), d.f32());
  Type narrow = d.below(2) ? Type(Float8E4M3FNType::get(d.builder.getContext()))
                           : Float8E5M2Type::get(d.builder.getContext());
  RankedTensorType wide = d.typeOf(x);
  Value rounded = CastOp::create(d.builder, d.loc, wide.clone(narrow), x.value);
  return d.exactly(CastOp::create(d.builder, d.loc, wide, rounded), 1.25 * x.bound, x.fractionBits);
}

std::optional<DrawnValue> makeCast(Drawer &d) {
  if (d.below(2))
    return roundToByte(d);
  DrawnValue x = d.argument(d.shape(1 + d.below(3)), d.builder.getI32Type());
  Value cast = CastOp::create(d.builder, d.loc, d.typeOf(x).clone(d.f32()), x.value);
  return d.exactly(cast, x.bound, 0);
}

/// The number without its sign, whose bit is the highest.
std::optional<DrawnValue> makeBitcast(Drawer &d) {
  DrawnValue x = d.floats();
  RankedTensorType floats = d.typeOf(x), words = floats.clone(d.builder.getI32Type());
  Value bits = BitcastOp::create(d.builder, d.loc, words, x.value);
  Value unsign = d.binary(BinaryKind::And, bits, d.splat(words, 0x7fffffff));
  return d.exactly(BitcastOp::create(d.builder, d.loc, floats, unsign), x.bound, x.fractionBits,
                   x.exact);
}

constexpr MakerRow makers[] = {{"unary", makeUnary},    {"unary_grad", makeUnaryGrad},
                               {"binary", makeBinary},  {"compare", makeCompare},
                               {"select", makeSelect},  {"cast", makeCast},
                               {"bitcast", makeBitcast}};

} // namespace

ArrayRef<MakerRow> autopar_law::elementwiseMakers() { return makers; }
