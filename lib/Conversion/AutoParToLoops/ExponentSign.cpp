// SPDX-License-Identifier: Apache-2.0
#include "ExponentSign.h"
#include "LoweringModels.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;
using namespace mlir::autopar;

static std::optional<double> splatOf(Value value) {
  while (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr elements;
  if (!matchPattern(value, m_Constant(&elements)) || !elements.isSplat())
    return std::nullopt;
  if (isa<FloatType>(elements.getElementType()))
    return elements.getSplatValue<APFloat>().convertToDouble();
  return elements.getSplatValue<APInt>().getSExtValue();
}

/// Whether two conditions select the same positions along a dimension.
static bool isSameMask(Value a, Value b) {
  if (a == b)
    return true;
  auto first = a.getDefiningOp<CompareOp>(), second = b.getDefiningOp<CompareOp>();
  if (!first || !second || first.getPredicate() != second.getPredicate())
    return false;
  auto iota = first.getLhs().getDefiningOp<IotaOp>(),
       other = second.getLhs().getDefiningOp<IotaOp>();
  std::optional<double> limit = splatOf(first.getRhs());
  return iota && other && iota.getDim() == other.getDim() && iota.getType() == other.getType() &&
         limit && limit == splatOf(second.getRhs());
}

/// Whether nobody reads `value` where `mask` does not hold.
static bool isReadWhere(Value value, Value mask, int depth = 8) {
  return depth > 0 && llvm::all_of(value.getUsers(), [&](Operation *user) {
           if (auto select = dyn_cast<SelectOp>(user); select && select.getOnTrue() == value &&
                                                       select.getOnFalse() != value &&
                                                       isSameMask(select.getCondition(), mask))
             return true;
           return isa<UnaryOp, BinaryOp, CastOp>(user) &&
                  isReadWhere(user->getResult(0), mask, depth - 1);
         });
}

namespace {

/// x minus a number of its row.
struct Shifted {
  Value x;
  BroadcastOp by;

  static std::optional<Shifted> of(Value exponent) {
    auto sub = exponent.getDefiningOp<BinaryOp>();
    auto by = sub && sub.getKind() == BinaryKind::Sub ? sub.getRhs().getDefiningOp<BroadcastOp>()
                                                      : BroadcastOp();
    return by ? std::optional<Shifted>({sub.getLhs(), by}) : std::nullopt;
  }
  bool isOfRowsOf(ReduceOp reduce) {
    SmallVector<int64_t> kept;
    for (int64_t dim = 0; dim < static_cast<int64_t>(shapeOf(x).size()); ++dim)
      if (!llvm::is_contained(reduce.getDims(), dim))
        kept.push_back(dim);
    return by.getDims() == ArrayRef<int64_t>(kept);
  }
};

} // namespace

/// The condition under which `masked` is `x`, and `elsewhere` where it does not hold; none: always.
static std::optional<Value> maskOf(Value masked, Value x, double elsewhere) {
  if (masked == x)
    return Value();
  auto select = masked.getDefiningOp<SelectOp>();
  if (!select || select.getOnTrue() != x || splatOf(select.getOnFalse()) != elsewhere)
    return std::nullopt;
  return select.getCondition();
}

/// Whether `value` is the logarithm of a sum of at least 1: of exponentials of x - max, where the
/// mask (none: everywhere) holds.
static bool isLogarithmOfSum(Value value, Value x, Value max, Value mask) {
  auto log = value.getDefiningOp<UnaryOp>();
  auto sum = log && log.getKind() == UnaryKind::Log ? log.getInput().getDefiningOp<ReduceOp>()
                                                    : ReduceOp();
  if (!sum || sum.getKind() != ReduceKind::Sum ||
      sum.getDims() != max.getDefiningOp<ReduceOp>().getDims())
    return false;
  Value terms = sum.getInput(), where;
  if (auto select = terms.getDefiningOp<SelectOp>(); select && splatOf(select.getOnFalse()) == 0) {
    terms = select.getOnTrue();
    where = select.getCondition();
  }
  auto exp = terms.getDefiningOp<UnaryOp>();
  std::optional<Shifted> shifted =
      exp && exp.getKind() == UnaryKind::Exp ? Shifted::of(exp.getInput()) : std::nullopt;
  return shifted && shifted->x == x && shifted->by.getInput() == max &&
         (where && mask ? isSameMask(where, mask) : where == mask);
}

bool autopar::hasNoPositiveExponent(UnaryOp exp) {
  std::optional<Shifted> shifted = Shifted::of(exp.getInput());
  if (!shifted)
    return false;
  Value by = shifted->by.getInput(), max = by;
  auto sum = by.getDefiningOp<BinaryOp>();
  if (sum && sum.getKind() == BinaryKind::Add)
    max = sum.getLhs();
  auto reduce = max.getDefiningOp<ReduceOp>();
  if (!reduce || reduce.getKind() != ReduceKind::Max || !shifted->isOfRowsOf(reduce))
    return false;
  std::optional<Value> mask =
      maskOf(reduce.getInput(), shifted->x, -std::numeric_limits<double>::infinity());
  if (!mask || (max != by && !isLogarithmOfSum(sum.getRhs(), shifted->x, max, *mask)))
    return false;
  return !*mask || isReadWhere(exp.getResult(), *mask);
}

Value autopar::emitExpOfNegative(Scalars &s, Value x) {
  return math::ExpOp::create(s.builder, s.loc, x,
                             arith::FastMathFlags::afn | arith::FastMathFlags::ninf);
}
