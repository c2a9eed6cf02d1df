// SPDX-License-Identifier: Apache-2.0
// Values from nothing.
#include "Drawer.h"

using namespace autopar_law;

namespace {

std::optional<DrawnValue> makeConstant(Drawer &d) {
  RankedTensorType type = d.type(d.shape(2), d.f32());
  SmallVector<float> values;
  for (int64_t i = 0; i < type.getNumElements(); ++i)
    values.push_back(0.25f * (d.below(33) - 16));
  Value constant =
      ConstantOp::create(d.builder, d.loc, DenseElementsAttr::get(type, ArrayRef<float>(values)));
  return DrawnValue{constant, true, 4, 2};
}

std::optional<DrawnValue> makeIota(Drawer &d) {
  RankedTensorType type = d.type(d.shape(1 + d.below(3)), d.f32());
  return DrawnValue{IotaOp::create(d.builder, d.loc, type, d.below(type.getRank())), true, 12, 0};
}

std::optional<DrawnValue> makeRandom(Drawer &d) {
  RankedTensorType type = d.type(d.shape(1 + d.below(3)), d.f32());
  SmallVector<Value> offsets;
  if (d.below(2)) { // a step whose number is known at run time only
    offsets.assign(type.getRank(), d.scalar(d.builder.getI64IntegerAttr(0)));
    offsets[0] = d.argument({}, d.builder.getI64Type()).value;
  }
  Value drawn = RandomOp::create(d.builder, d.loc, type, RandomKind::Uniform, offsets,
                                 d.below(1000), d.below(1000), type.getShape());
  return d.inexactly(drawn, 1);
}

constexpr MakerRow makers[] = {
    {"constant", makeConstant}, {"iota", makeIota}, {"random", makeRandom}};

} // namespace

ArrayRef<MakerRow> autopar_law::generationMakers() { return makers; }
