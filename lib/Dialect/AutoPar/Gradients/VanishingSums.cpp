// SPDX-License-Identifier: Apache-2.0
// Sums that are known to be zero. A variance written as the mean of (x - mean)^2 depends on x also
// through the mean, but its derivative by the mean is a sum of deviations from it. Where batches
// are normalized that sum would be a pass of its own over all that the kernel reads, behind those
// that its terms need, and one more exchange between ranks.
#include "GradientModels.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::autopar;

/// What is repeated along all of `dims`; null where the value differs along them.
static Value repeatedAlong(Value value, ArrayRef<int64_t> dims) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  bool isRepeated = broadcast && llvm::none_of(dims, [&](int64_t dim) {
                      return llvm::is_contained(broadcast.getDims(), dim);
                    });
  return isRepeated ? broadcast.getInput() : Value();
}

static std::optional<double> numberOf(Value value) {
  DenseFPElementsAttr number;
  if (!matchPattern(value, m_Constant(&number)) || !number.isSplat())
    return std::nullopt;
  return number.getSplatValue<APFloat>().convertToDouble();
}

static bool isEqualAlong(Value value, ArrayRef<int64_t> dims) {
  return repeatedAlong(value, dims) || numberOf(value);
}

/// Whether `mean` is the sum of `value` over `dims`, divided by the number of its terms.
static bool isMean(Value mean, Value value, ArrayRef<int64_t> dims) {
  auto quotient = mean.getDefiningOp<BinaryOp>();
  if (!quotient || quotient.getKind() != BinaryKind::Div)
    return false;
  auto sum = quotient.getLhs().getDefiningOp<ReduceOp>();
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(FormulaBuilder::typeOf(value).getDimSize(dim));
  return sum && sum.getKind() == ReduceKind::Sum && sum.getInput() == value &&
         sum.getDims() == dims && numberOf(quotient.getRhs()) == count;
}

static bool vanishes(Value value, ArrayRef<int64_t> dims) {
  if (auto unary = value.getDefiningOp<UnaryOp>())
    return unary.getKind() == UnaryKind::Neg && vanishes(unary.getInput(), dims);
  auto binary = value.getDefiningOp<BinaryOp>();
  if (!binary)
    return false;
  Value lhs = binary.getLhs(), rhs = binary.getRhs();
  switch (binary.getKind()) {
  case BinaryKind::Add:
    return vanishes(lhs, dims) && vanishes(rhs, dims);
  case BinaryKind::Sub: {
    Value mean = repeatedAlong(rhs, dims);
    return (mean && isMean(mean, lhs, dims)) || (vanishes(lhs, dims) && vanishes(rhs, dims));
  }
  case BinaryKind::Mul:
    return (isEqualAlong(lhs, dims) && vanishes(rhs, dims)) ||
           (isEqualAlong(rhs, dims) && vanishes(lhs, dims));
  case BinaryKind::Div:
    return isEqualAlong(rhs, dims) && vanishes(lhs, dims);
  default:
    return false;
  }
}

/// The terms of `value` but those that vanish over `dims`; null where all do. Each term is looked
/// at once: a residual stream is a sum over all layers.
static Value withoutVanishingTerms(Value value, ArrayRef<int64_t> dims, FormulaBuilder &b) {
  if (auto unary = value.getDefiningOp<UnaryOp>(); unary && unary.getKind() == UnaryKind::Neg) {
    Value input = unary.getInput(), left = withoutVanishingTerms(input, dims, b);
    return left == input ? value : left ? b.unary(UnaryKind::Neg, left) : Value();
  }
  auto sum = value.getDefiningOp<BinaryOp>();
  if (!sum || sum.getKind() != BinaryKind::Add)
    return vanishes(value, dims) ? Value() : value;
  Value first = withoutVanishingTerms(sum.getLhs(), dims, b),
        second = withoutVanishingTerms(sum.getRhs(), dims, b);
  if (first == sum.getLhs() && second == sum.getRhs())
    return value;
  return first && second ? b.add(first, second) : first ? first : second;
}

Value mlir::autopar::withoutVanishing(Value value, ArrayRef<int64_t> dims, FormulaBuilder &b) {
  return dims.empty() ? value : withoutVanishingTerms(value, dims, b);
}
