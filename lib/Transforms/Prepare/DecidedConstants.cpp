// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "DecidedConstants.h"

#include "autopar/Transforms/VaryingExtents.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

LogicalResult DecidedConstants::compute(ConstantOp constant) {
  ArrayRef<Attribute> decides = entriesOf(constant->getAttr(kDecidesAttribute));
  if (decides.empty())
    return success();
  auto value = cast<DenseElementsAttr>(constant.getValue());
  Type element = value.getElementType();
  OpBuilder &builder = mask.builder;
  builder.setInsertionPointAfter(constant);
  auto number = [&](double number, StringRef part) {
    Attribute attribute =
        isa<FloatType>(element)
            ? Attribute(builder.getFloatAttr(element, number))
            : Attribute(builder.getIntegerAttr(element, static_cast<int64_t>(number)));
    return mask.number(attribute, constant, part);
  };
  double atMost = isa<FloatType>(element)
                      ? value.getSplatValue<APFloat>().convertToDouble()
                      : static_cast<double>(value.getSplatValue<APInt>().getSExtValue());
  Value over, under, shifted;
  double times = atMost;
  for (Attribute each : decides) {
    auto entry = cast<DictionaryAttr>(each);
    StringRef rule = entry.getAs<StringAttr>("rule").getValue();
    auto most = static_cast<double>(numberIn(entry, "most"));
    Value missing =
        mask.missing(entry.getAs<StringAttr>("extent"), numberIn(entry, "step"), constant);
    missing = mask.cast(missing, element, constant, "missing");
    Value now = mask.binary(BinaryKind::Sub, number(most, "most"), missing, constant, "now");
    if (rule == "shift") {
      shifted = mask.binary(BinaryKind::Add, now, number(atMost - most, "shift"), constant, "now");
      continue;
    }
    times = rule == "multiple" ? times / most : times * most;
    Value &product = rule == "multiple" ? over : under;
    product = product ? mask.binary(BinaryKind::Mul, product, now, constant, "now") : now;
  }
  if (!isa<FloatType>(element) && times != std::floor(times))
    return refuseToVary(constant, cast<DictionaryAttr>(decides.front()).getAs<StringAttr>("extent"))
           << "is no multiple of it and another range";
  Value now = shifted;
  if (!now) {
    now = number(times, "times");
    if (over)
      now = mask.binary(BinaryKind::Mul, over, now, constant, "now");
    if (under)
      now = mask.binary(BinaryKind::Div, now, under, constant, "now");
  }
  Value all = mask.spread(now, constant.getType(), {}, constant, "decided");
  for (const Varying &varying : dims.of(constant.getResult()))
    dims.add(all, varying);
  constant.getResult().replaceAllUsesWith(all);
  return success();
}

LogicalResult DecidedConstants::clamp(ConstantOp constant) {
  auto clamped = constant->getAttrOfType<DictionaryAttr>(kClampedAttribute);
  if (!clamped)
    return success();
  OpBuilder &builder = mask.builder;
  builder.setInsertionPointAfter(constant);
  Value fewer =
      mask.missing(clamped.getAs<StringAttr>("extent"), numberIn(clamped, "step", 1), constant);
  Value last = mask.number(builder.getI64IntegerAttr(numberIn(clamped, "most")), constant, "last");
  last = mask.binary(BinaryKind::Sub, last, fewer, constant, "last");
  Value all = mask.spread(last, constant.getType(), {}, constant, "last");
  auto inside = BinaryOp::create(builder, constant.getLoc(), constant.getType(), BinaryKind::Min,
                                 constant.getResult(), all);
  mask.named(inside, constant, "clamped");
  for (const Varying &varying : dims.of(constant.getResult()))
    dims.add(inside.getResult(), varying);
  constant.getResult().replaceAllUsesExcept(inside.getResult(), inside);
  return success();
}
