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

double VaryingNumbers::numberOf(DenseElementsAttr splat) {
  if (isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().convertToDouble();
  auto value = splat.getSplatValue<APInt>();
  return splat.getElementType().isUnsignedInteger() ? static_cast<double>(value.getZExtValue())
                                                    : static_cast<double>(value.getSExtValue());
}

APInt VaryingNumbers::bitsAt(DenseElementsAttr values, int64_t index) {
  if (isa<FloatType>(values.getElementType()))
    return (values.value_begin<APFloat>() + index).operator*().bitcastToAPInt();
  return *(values.value_begin<APInt>() + index);
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
    return bitsAt(values, index);
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

namespace {

/// A constant as rows along a dimension.
class RowsAlong {
public:
  RowsAlong(DenseElementsAttr values, int64_t dim) : values(values) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(values.getType()).getShape();
    size = shape[dim];
    outer = llvm::product_of(shape.take_front(dim));
    inner = llvm::product_of(shape.drop_front(dim + 1));
  }

  /// The first element of a row, as bits.
  APInt at(int64_t row) const { return at(0, row, 0); }

  /// Whether a row is another one, and `more` in all of its elements.
  bool isRow(int64_t row, const RowsAlong &other, int64_t otherRow, int64_t more) const {
    for (int64_t i = 0; i < outer; ++i)
      for (int64_t j = 0; j < inner; ++j)
        if (at(i, row, j) != other.at(i, otherRow, j) + more)
          return false;
    return true;
  }

  int64_t size;

private:
  APInt at(int64_t i, int64_t row, int64_t j) const {
    int64_t index = (i * size + row) * inner + j;
    return VaryingNumbers::bitsAt(values, index);
  }

  DenseElementsAttr values;
  int64_t outer, inner;
};

} // namespace

std::optional<MovedEnd> VaryingNumbers::endOf(DenseElementsAttr ours, DenseElementsAttr theirs,
                                              int64_t steps) const {
  constexpr int64_t mostElements = 1 << 16;
  auto type = cast<RankedTensorType>(ours.getType()),
       other = cast<RankedTensorType>(theirs.getType());
  SmallVector<int64_t> differing;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) != other.getDimSize(dim))
      differing.push_back(dim);
  if (differing.size() != 1 || type.getNumElements() > mostElements || ours.empty() ||
      theirs.empty())
    return std::nullopt;
  RowsAlong mine(ours, differing.front()), others(theirs, differing.front());
  int64_t longer = mine.size - others.size, growth = -longer * direction, same = 0;
  while (same < std::min(mine.size, others.size) && others.isRow(same, mine, same, 0))
    ++same;
  int64_t tail = others.size - same;
  if (growth < 1 || tail > mine.size)
    return std::nullopt;
  bool isPosition = type.getElementType().isInteger(64);
  int64_t more = isPosition ? (others.at(same) - mine.at(same + longer)).getSExtValue() : 0,
          slope =
              isPosition && mine.size > tail + 1
                  ? (mine.at(mine.size - tail - 1) - mine.at(mine.size - tail - 2)).getSExtValue()
                  : 0;
  for (int64_t row = same; row < others.size; ++row)
    if (!others.isRow(row, mine, row + longer, more))
      return std::nullopt;
  int64_t regular = mine.size - tail - 1; // from there on
  while (regular > 0 && mine.isRow(regular, mine, regular - 1, slope))
    --regular;
  if (more * direction < 0 || mine.size - steps * growth - tail <= regular)
    return std::nullopt;
  return MovedEnd{differing.front(), growth, tail, more * direction};
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

std::optional<NumberRule> VaryingNumbers::ruleOf(DenseElementsAttr oursSplat,
                                                 DenseElementsAttr theirsSplat) const {
  if (!oursSplat.isSplat() || !theirsSplat.isSplat() || oursSplat.getElementType().isInteger(1))
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
