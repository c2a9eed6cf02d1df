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
  if (auto difference = withNumber(value, BinaryKind::Sub)) {
    std::optional<Progression> inner = progressionOf(difference->first);
    if (inner)
      inner->first -= static_cast<int64_t>(difference->second);
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

/// The triangle on which `isSeen(element)` holds for the elements of the matrices of a constant,
/// and off which `isHidden(element)` does.
template <typename T, typename IsSeen, typename IsHidden>
std::optional<Triangle> triangleOfElements(DenseElementsAttr dense, IsSeen &&isSeen,
                                           IsHidden &&isHidden) {
  auto type = cast<RankedTensorType>(dense.getType());
  int64_t rank = type.getRank();
  if (rank < 2 || dense.isSplat() || dense.empty())
    return std::nullopt;
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1),
          reach = columns - rows, window = 0, index = 0;
  if (reach < 0) // some rows would see nothing
    return std::nullopt;
  auto elements = dense.getValues<T>();
  // The last row sees a whole window.
  while (window < columns && isSeen(*(elements.begin() + (rows * columns - 1 - window))))
    ++window;
  for (T element : elements) {
    int64_t row = index / columns % rows, column = index % columns;
    bool shouldSee = column <= row + reach && column > row + reach - window;
    if (!(shouldSee ? isSeen(element) : isHidden(element)))
      return std::nullopt;
    ++index;
  }
  return Triangle{window < columns ? window : 0};
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

std::optional<Triangle> triangleOfConditions(DenseElementsAttr condition) {
  if (!condition.getElementType().isInteger(1))
    return std::nullopt;
  return triangleOfElements<bool>(
      condition, [](bool seen) { return seen; }, [](bool seen) { return !seen; });
}

std::optional<Triangle> triangleOfNumbers(DenseElementsAttr bias) {
  if (!isa<FloatType>(bias.getElementType()))
    return std::nullopt;
  return triangleOfElements<APFloat>(
      bias, [](const APFloat &element) { return element.isZero(); },
      [](const APFloat &element) {
        return !element.isNaN() && element.convertToDouble() <= kForbidden;
      });
}

/// The columns from row + first to row + last.
struct Band {
  int64_t first = std::numeric_limits<int64_t>::min(), last = std::numeric_limits<int64_t>::max();
};

/// Where comparisons of positions hold, in the last two dimensions.
std::optional<Band> bandOf(Value condition) {
  if (splatValue(condition).value_or(0) != 0)
    return Band{};
  condition = withoutLeading(condition);
  if (BinaryOp both = asBinary(condition, BinaryKind::And)) {
    std::optional<Band> lhs = bandOf(both.getLhs()), rhs = bandOf(both.getRhs());
    if (!lhs || !rhs)
      return std::nullopt;
    return Band{std::max(lhs->first, rhs->first), std::min(lhs->last, rhs->last)};
  }
  auto compare = condition.getDefiningOp<CompareOp>();
  int64_t rank = typeOf(condition).getRank();
  if (!compare || rank < 2 || !isa<IntegerType>(typeOf(compare.getLhs()).getElementType()))
    return std::nullopt;
  std::optional<Progression> lhs = progressionOf(compare.getLhs()),
                             rhs = progressionOf(compare.getRhs());
  if (!lhs || !rhs)
    return std::nullopt;
  bool isSwapped = lhs->dim == rank - 2; // rows stand left
  if (isSwapped)
    std::swap(lhs, rhs);
  if (lhs->dim != rank - 1 || rhs->dim != rank - 2)
    return std::nullopt;
  int64_t equal = rhs->first - lhs->first; // column - row where both sides are equal
  switch (compare.getPredicate()) {
  case ComparePredicate::Le:
    return isSwapped ? Band{.first = equal} : Band{.last = equal};
  case ComparePredicate::Lt:
    return isSwapped ? Band{.first = equal + 1} : Band{.last = equal - 1};
  case ComparePredicate::Ge:
    return isSwapped ? Band{.last = equal} : Band{.first = equal};
  case ComparePredicate::Gt:
    return isSwapped ? Band{.last = equal - 1} : Band{.first = equal + 1};
  default:
    return std::nullopt;
  }
}

} // namespace

std::optional<Triangle> TriangleMasks::triangleOf(Value condition) {
  condition = withoutLeading(condition);
  RankedTensorType type = typeOf(condition);
  int64_t rank = type.getRank();
  if (rank < 2)
    return std::nullopt;
  int64_t rows = type.getDimSize(rank - 2), columns = type.getDimSize(rank - 1),
          reach = columns - rows;
  if (reach < 0) // some rows would see nothing
    return std::nullopt;
  if (auto constant = condition.getDefiningOp<ConstantOp>()) {
    auto [known, isNew] = constants.try_emplace(constant.getValue());
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); isNew && dense)
      known->second = triangleOfConditions(dense);
    return known->second;
  }
  std::optional<Band> band = bandOf(condition);
  if (!band || band->last != reach || band->first > reach)
    return std::nullopt;
  // The first row that is hidden a column is the last one, if any is.
  if (band->first <= 1 - rows)
    return Triangle{};
  return Triangle{reach - band->first + 1};
}

std::optional<Triangle> TriangleMasks::triangleOfBias(Value bias) {
  bias = withoutLeading(bias);
  if (auto select = bias.getDefiningOp<SelectOp>()) {
    std::optional<double> fill = splatValue(select.getOnFalse()),
                          seen = splatValue(select.getOnTrue());
    if (!fill || !seen || *fill > kForbidden || *seen != 0)
      return std::nullopt;
    return triangleOf(select.getCondition());
  }
  auto constant = bias.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || typeOf(bias).getRank() < 2)
    return std::nullopt;
  auto [known, isNew] = constants.try_emplace(dense);
  if (isNew)
    known->second = triangleOfNumbers(dense);
  return known->second;
}
