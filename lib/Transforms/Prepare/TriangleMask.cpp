// SPDX-License-Identifier: Apache-2.0
// Recognition of triangles: constants element by element, comparisons by their two progressions.
#include "TriangleMask.h"

#include "CompositeMatching.h"

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

namespace {

/// The first value of a tensor that counts up by one along one dimension and repeats along the
/// others.
struct Progression {
  int64_t dim = 0;
  int64_t first = 0;
};

std::optional<Progression> progressionOf(Value value) {
  RankedTensorType type = typeOf(value);
  if (auto iota = value.getDefiningOp<IotaOp>())
    return Progression{static_cast<int64_t>(iota.getDim()), 0};
  if (auto sum = withNumber(value, BinaryKind::Add)) {
    std::optional<Progression> inner = progressionOf(sum->first);
    if (inner)
      inner->first += static_cast<int64_t>(sum->second);
    return inner;
  }
  if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
    std::optional<Progression> inner = progressionOf(broadcast.getInput());
    if (!inner)
      return std::nullopt;
    int64_t extent = broadcast.getInput().getType().getDimSize(inner->dim);
    inner->dim = broadcast.getDims()[inner->dim];
    if (extent != type.getDimSize(inner->dim))
      return std::nullopt;
    return inner;
  }
  if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
    std::optional<Progression> inner = progressionOf(reshape.getInput());
    std::optional<SmallVector<int64_t>> dims = unitReshapeDims(reshape);
    if (!inner || !dims)
      return std::nullopt;
    for (auto [to, from] : llvm::enumerate(*dims))
      if (from == inner->dim)
        return Progression{static_cast<int64_t>(to), inner->first};
    return std::nullopt;
  }
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense =
      constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : DenseIntElementsAttr();
  if (!dense || type.getNumElements() < 2)
    return std::nullopt;
  std::optional<int64_t> along;
  for (int64_t dim = 0; dim < type.getRank(); ++dim)
    if (type.getDimSize(dim) != 1) {
      if (along)
        return std::nullopt;
      along = dim;
    }
  auto values = dense.getValues<APInt>();
  int64_t first = (*values.begin()).getSExtValue(), expected = first;
  for (const APInt &element : values)
    if (element.getSExtValue() != expected++)
      return std::nullopt;
  return Progression{*along, first};
}

/// Whether `holds(row, column, element)` for all elements of the matrices of a constant.
template <typename T, typename Fn>
bool allElements(DenseElementsAttr dense, Fn &&holds) {
  auto type = cast<RankedTensorType>(dense.getType());
  int64_t rank = type.getRank();
  if (rank < 2 || dense.isSplat())
    return false;
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1), index = 0;
  for (T element : dense.getValues<T>()) {
    if (!holds(index / columns % rows, index % columns, element))
      return false;
    ++index;
  }
  return true;
}

/// What is repeated along leading dimensions.
Value withoutLeading(Value value) {
  while (true) {
    if (auto broadcast = value.getDefiningOp<BroadcastOp>()) {
      RankedTensorType input = broadcast.getInput().getType(), type = broadcast.getType();
      if (input.getRank() < 2 || input.getShape().take_back(2) != type.getShape().take_back(2) ||
          broadcast.getDims().take_back(2) !=
              ArrayRef<int64_t>({type.getRank() - 2, type.getRank() - 1}))
        return value;
      value = broadcast.getInput();
    } else if (auto reshape = value.getDefiningOp<ReshapeOp>()) {
      RankedTensorType input = reshape.getInput().getType(), type = reshape.getType();
      if (input.getRank() < 2 || type.getRank() < 2 ||
          input.getShape().take_back(2) != type.getShape().take_back(2) ||
          !unitReshapeDims(reshape))
        return value;
      value = reshape.getInput();
    } else {
      return value;
    }
  }
}

/// Whether a constant of conditions is such a triangle.
bool holdsOnTriangle(DenseElementsAttr condition) {
  ArrayRef<int64_t> shape = condition.getType().getShape().take_back(2);
  int64_t reach = shape[1] - shape[0];
  return condition.getElementType().isInteger(1) &&
         allElements<bool>(condition, [&](int64_t row, int64_t column, bool seen) {
           return seen == (column <= row + reach);
         });
}

/// Whether a constant of floats is such a bias.
bool forbidsOffTriangle(DenseElementsAttr bias) {
  ArrayRef<int64_t> shape = bias.getType().getShape().take_back(2);
  int64_t reach = shape[1] - shape[0];
  return reach >= 0 && isa<FloatType>(bias.getElementType()) &&
         allElements<APFloat>(bias, [&](int64_t row, int64_t column, const APFloat &element) {
           return column <= row + reach
                      ? element.isZero()
                      : !element.isNaN() && element.convertToDouble() <= kForbidden;
         });
}

} // namespace

bool TriangleMasks::isTriangle(Value condition) {
  condition = withoutLeading(condition);
  RankedTensorType type = typeOf(condition);
  int64_t rank = type.getRank();
  if (rank < 2)
    return false;
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1),
          reach = columns - rows;
  if (reach < 0) // some rows would see nothing
    return false;
  if (auto constant = condition.getDefiningOp<ConstantOp>()) {
    auto [known, isNew] = constants.try_emplace(constant.getValue(), false);
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); isNew && dense)
      known->second = holdsOnTriangle(dense);
    return known->second;
  }
  auto compare = condition.getDefiningOp<CompareOp>();
  if (!compare || !isa<IntegerType>(typeOf(compare.getLhs()).getElementType()))
    return false;
  std::optional<Progression> lhs = progressionOf(compare.getLhs()),
                             rhs = progressionOf(compare.getRhs());
  if (!lhs || !rhs)
    return false;
  ComparePredicate predicate = compare.getPredicate();
  // As column < or <= row.
  if (predicate == ComparePredicate::Gt || predicate == ComparePredicate::Ge) {
    std::swap(lhs, rhs);
    predicate = predicate == ComparePredicate::Gt ? ComparePredicate::Lt : ComparePredicate::Le;
  }
  if (lhs->dim != rank - 1 || rhs->dim != rank - 2)
    return false;
  int64_t seen = rhs->first - lhs->first;
  return (predicate == ComparePredicate::Le && seen == reach) ||
         (predicate == ComparePredicate::Lt && seen - 1 == reach);
}

bool TriangleMasks::isTriangleBias(Value bias) {
  bias = withoutLeading(bias);
  if (auto select = bias.getDefiningOp<SelectOp>()) {
    std::optional<double> fill = splatValue(select.getOnFalse()),
                          seen = splatValue(select.getOnTrue());
    return fill && seen && *fill <= kForbidden && *seen == 0 && isTriangle(select.getCondition());
  }
  auto constant = bias.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || typeOf(bias).getRank() < 2)
    return false;
  auto [known, isNew] = constants.try_emplace(dense, false);
  if (isNew)
    known->second = forbidsOffTriangle(dense);
  return known->second;
}
