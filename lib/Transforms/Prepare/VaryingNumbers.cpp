// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "VaryingNumbers.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

void VaryingNumbers::add(Following dimension) {
  if (!llvm::is_contained(following, dimension))
    following.push_back(dimension);
}

bool VaryingNumbers::agreeInCommon(DenseElementsAttr ours, DenseElementsAttr theirs) {
  auto type = cast<RankedTensorType>(ours.getType()),
       other = cast<RankedTensorType>(theirs.getType());
  if (ours.isSplat() && theirs.isSplat())
    return ours.getSplatValue<Attribute>() == theirs.getSplatValue<Attribute>();
  SmallVector<int64_t> shape, place(type.getRank(), 0);
  for (auto [a, b] : llvm::zip_equal(type.getShape(), other.getShape()))
    shape.push_back(std::min(a, b));
  if (llvm::is_contained(shape, 0))
    return true;
  auto at = [&](DenseElementsAttr values, ArrayRef<int64_t> extents) {
    int64_t index = 0;
    for (auto [position, size] : llvm::zip_equal(place, extents))
      index = index * size + position;
    if (isa<FloatType>(values.getElementType()))
      return (values.value_begin<APFloat>() + index).operator*().bitcastToAPInt();
    return *(values.value_begin<APInt>() + index);
  };
  while (true) {
    if (at(ours, type.getShape()) != at(theirs, other.getShape()))
      return false;
    int64_t dim = type.getRank() - 1;
    while (dim >= 0 && ++place[dim] == shape[dim])
      place[dim--] = 0;
    if (dim < 0)
      return true;
  }
}

std::optional<Following> VaryingNumbers::clampOf(DenseElementsAttr ours,
                                                 DenseElementsAttr theirs) const {
  auto columnsOf = [](DenseElementsAttr values) {
    return cast<RankedTensorType>(values.getType()).getShape().drop_front();
  };
  if (!ours.getElementType().isInteger(64) || ours.getType().getRank() < 1 || ours.empty() ||
      theirs.empty() || columnsOf(ours) != columnsOf(theirs))
    return std::nullopt;
  auto mine = llvm::to_vector(ours.getValues<int64_t>()),
       other = llvm::to_vector(theirs.getValues<int64_t>());
  int64_t last = *llvm::max_element(mine), otherLast = *llvm::max_element(other),
          growth = (otherLast - last) * direction;
  if (growth < 1 || !llvm::is_contained(following, Following{last + 1, growth}))
    return std::nullopt;
  int64_t least = std::min(last, otherLast);
  for (auto [a, b] : llvm::zip(mine, other))
    if (std::min(a, least) != std::min(b, least))
      return std::nullopt;
  return Following{last, growth};
}

static double numberOf(DenseElementsAttr splat) {
  if (isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().convertToDouble();
  return static_cast<double>(splat.getSplatValue<APInt>().getSExtValue());
}

std::optional<NumberRule> VaryingNumbers::ruleOf(DenseElementsAttr oursSplat,
                                                 DenseElementsAttr theirsSplat) const {
  if (!oursSplat.isSplat() || !theirsSplat.isSplat())
    return std::nullopt;
  double ours = numberOf(oursSplat), theirs = numberOf(theirsSplat);
  bool isFloat = isa<FloatType>(oursSplat.getElementType());
  auto isSame = [&](double a, double b) {
    return isFloat ? std::abs(a - b) <= 1e-6 * std::abs(a) : a == b;
  };
  for (const Following &each : following) {
    auto most = static_cast<double>(each.most),
         second = static_cast<double>(each.most + direction * each.growth);
    StringRef rule;
    if (ours - most == theirs - second)
      rule = "shift";
    else if (isSame(ours * second, theirs * most) && (isFloat || std::fmod(ours, most) == 0))
      rule = "multiple";
    else if (isFloat && isSame(ours * most, theirs * second))
      rule = "inverse";
    else
      continue;
    return NumberRule{each, rule};
  }
  return std::nullopt;
}
