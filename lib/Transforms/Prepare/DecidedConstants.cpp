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

LogicalResult DecidedConstants::moveEnds(ConstantOp constant) {
  OpBuilder &builder = mask.builder;
  RankedTensorType type = constant.getType();
  Value moved = constant;
  Operation *first = nullptr; // that reads the constant
  for (Attribute each : entriesOf(constant->getAttr(kEndsAttribute))) {
    auto entry = cast<DictionaryAttr>(each);
    auto extent = entry.getAs<StringAttr>("extent");
    int64_t dim = numberIn(entry, "dim"), size = type.getDimSize(dim);
    builder.setInsertionPointAfter(moved.getDefiningOp());
    auto line = RankedTensorType::get({size, 1}, builder.getI64Type());
    auto spread = [&](Value value) { return mask.spread(value, line, {}, constant, "end"); };
    auto number = [&](int64_t value) {
      return mask.number(builder.getI64IntegerAttr(value), constant, "end");
    };
    Value fewer = mask.missing(extent, numberIn(entry, "step", 1), constant);
    Value begin = mask.binary(BinaryKind::Sub, number(size - numberIn(entry, "tail")), fewer,
                              constant, "end");
    Value place =
        mask.named(IotaOp::create(builder, constant.getLoc(), line, 0), constant, "place");
    auto flags = line.clone(builder.getI1Type());
    Value isAtEnd = mask.named(CompareOp::create(builder, constant.getLoc(), flags,
                                                 ComparePredicate::Ge, place, spread(begin)),
                               constant, "at_end");
    Value later = mask.binary(BinaryKind::Add, place, spread(fewer), constant, "place");
    later = mask.binary(BinaryKind::Min, later, spread(number(size - 1)), constant, "place");
    Value from =
        mask.named(SelectOp::create(builder, constant.getLoc(), line, isAtEnd, later, place),
                   constant, "from");
    auto gather =
        GatherOp::create(builder, constant.getLoc(), type, moved, from, ArrayRef<int64_t>{dim}, 0);
    moved = mask.named(gather, constant, "moved");
    first = first ? first : gather.getOperation();
    if (int64_t less = numberIn(entry, "less")) {
      Value change = mask.missing(extent, less, constant);
      Value changed =
          mask.binary(BinaryKind::Sub, moved, mask.spread(change, type, {}, constant, "less"),
                      constant, "less");
      auto column = RankedTensorType::get({size}, builder.getI1Type());
      Value isChanged = mask.named(ReshapeOp::create(builder, constant.getLoc(), column, isAtEnd),
                                   constant, "at_end");
      isChanged =
          mask.spread(isChanged, type.clone(builder.getI1Type()), {dim}, constant, "at_end");
      moved =
          mask.named(SelectOp::create(builder, constant.getLoc(), type, isChanged, changed, moved),
                     constant, "moved");
    }
  }
  if (moved == constant.getResult())
    return success();
  for (const Varying &varying : dims.of(constant.getResult()))
    dims.add(moved, varying);
  constant.getResult().replaceAllUsesExcept(moved, first);
  return success();
}
