// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "IntegerRange.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Interfaces/LoweringInterface.h"

using namespace mlir;
using namespace mlir::autopar;

using Range = mlir::autopar::IntegerRange;

/// All whole numbers of which a type has every one.
static std::optional<Range> rangeOfType(Type element) {
  if (auto floating = dyn_cast<FloatType>(element)) {
    unsigned digits = floating.getFPMantissaWidth();
    int64_t most = int64_t{1} << std::min(digits, 32U);
    return Range{-most, most};
  }
  auto integer = dyn_cast<IntegerType>(element);
  if (!integer || integer.getWidth() == 1 || integer.getWidth() > 32)
    return std::nullopt;
  int64_t count = int64_t{1} << integer.getWidth();
  return integer.isUnsigned() ? Range{0, count - 1} : Range{-count / 2, count / 2 - 1};
}

/// The number that an element of a constant is; none if it is no whole one.
static std::optional<int64_t> wholeNumber(const APInt &number, bool isUnsigned) {
  return isUnsigned ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
}

static std::optional<int64_t> wholeNumber(const APFloat &number, bool) {
  constexpr double kMost = int64_t{1} << 53;
  if (!number.isInteger() || std::abs(number.convertToDouble()) > kMost)
    return std::nullopt;
  return static_cast<int64_t>(number.convertToDouble());
}

template <typename Number>
static std::optional<Range> rangeOfNumbers(DenseElementsAttr numbers) {
  bool isUnsigned = numbers.getElementType().isUnsignedInteger();
  if (numbers.isSplat()) {
    std::optional<int64_t> number = wholeNumber(numbers.getSplatValue<Number>(), isUnsigned);
    return number ? std::optional(Range{*number, *number}) : std::nullopt;
  }
  Range range{INT64_MAX, INT64_MIN};
  for (const Number &element : numbers.getValues<Number>()) {
    std::optional<int64_t> number = wholeNumber(element, isUnsigned);
    if (!number)
      return std::nullopt;
    range = {std::min(range.least, *number), std::max(range.most, *number)};
  }
  return range;
}

static std::optional<Range> rangeOfConstant(ConstantOp op) {
  auto numbers = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!numbers || numbers.empty())
    return std::nullopt;
  return isa<FloatType>(numbers.getElementType()) ? rangeOfNumbers<APFloat>(numbers)
                                                  : rangeOfNumbers<APInt>(numbers);
}

/// What an operation makes of ranges, were its type wide enough.
static std::optional<Range> rangeOfResult(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return rangeOfConstant(constant);
  if (auto slice = dyn_cast<DynamicSliceOp>(op))
    return integerRangeOf(slice->getOperand(0));
  if (!isa<CastOp, BinaryOp, ViewOpInterface, BroadcastOp, PadOp>(op))
    return std::nullopt;
  SmallVector<Range> ranges;
  for (Value operand : op->getOperands()) {
    std::optional<Range> range = integerRangeOf(operand);
    if (!range)
      return std::nullopt;
    ranges.push_back(*range);
  }
  Range a = ranges.front(), b = ranges.back();
  if (isa<PadOp>(op))
    return Range{std::min(a.least, b.least), std::max(a.most, b.most)};
  auto binary = dyn_cast<BinaryOp>(op);
  if (!binary)
    return a;
  switch (binary.getKind()) {
  case BinaryKind::Add:
    return Range{a.least + b.least, a.most + b.most};
  case BinaryKind::Sub:
    return Range{a.least - b.most, a.most - b.least};
  case BinaryKind::Max:
    return Range{std::max(a.least, b.least), std::max(a.most, b.most)};
  case BinaryKind::Min:
    return Range{std::min(a.least, b.least), std::min(a.most, b.most)};
  default:
    return std::nullopt;
  }
}

std::optional<Range> mlir::autopar::integerRangeOf(Value value) {
  Type element = cast<RankedTensorType>(value.getType()).getElementType();
  std::optional<Range> all = rangeOfType(element);
  if (Operation *op = value.getDefiningOp(); op && all)
    if (std::optional<Range> range = rangeOfResult(op); range && all->contains(*range))
      return range;
  return isa<IntegerType>(element) ? all : std::nullopt; // other floats may be fractions
}
