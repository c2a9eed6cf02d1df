// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "AttentionMatching.h"

#include "CompositeMatching.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether a gradient may be asked for a value.
static bool isTrained(Value value) {
  SmallVector<Value> worklist{value};
  DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value current = worklist.pop_back_val();
    if (!seen.insert(current).second || !isa<FloatType>(typeOf(current).getElementType()))
      continue;
    if (auto argument = dyn_cast<BlockArgument>(current)) {
      auto function = cast<func::FuncOp>(argument.getOwner()->getParentOp());
      if (function.getArgAttr(argument.getArgNumber(), "autopar.trainable"))
        return true;
    } else {
      llvm::append_range(worklist, current.getDefiningOp()->getOperands());
    }
  }
  return false;
}

//===-- what weighs the values ---------------------------------------------------------------===//

/// The value of which `x` is a row by row difference to its maximum; `x` itself if it is none.
/// Softmax does not see the difference.
static Value unshifted(Value x) {
  BinaryOp shifted = asBinary(x, BinaryKind::Sub);
  if (!shifted || !shifted->hasOneUse())
    return x;
  MatchedOps matched;
  RowView rows(shifted.getRhs(), matched);
  SmallVector<int64_t> dims;
  Value input = rows.reducedInput(ReduceKind::Max, dims);
  return input == shifted.getLhs() && ArrayRef<int64_t>(dims) == ArrayRef<int64_t>(3) ? input : x;
}

/// A softmax over scores and a sink, without the sink's column.
static std::optional<AttentionWeights> readSinkWeights(SliceOp slice) {
  auto softmax = slice.getInput().getDefiningOp<SoftmaxOp>();
  RankedTensorType type = slice.getType();
  if (!softmax || type.getRank() != 4 || softmax.getDim() != 3 || !slice->hasOneUse() ||
      llvm::any_of(slice.getStarts(), [](int64_t start) { return start != 0; }) ||
      llvm::any_of(slice.getSteps(), [](int64_t step) { return step != 1; }))
    return std::nullopt;
  Value joined = unshifted(softmax.getInput());
  auto concat = joined.getDefiningOp<ConcatOp>();
  if (!concat || concat.getDim() != 3 || concat->getNumOperands() != 2)
    return std::nullopt;
  Value scores = concat->getOperand(0), sink = concat->getOperand(1);
  if (typeOf(sink).getDimSize(3) != 1 || typeOf(scores) != type)
    return std::nullopt;
  // Its readers are the softmax, or the difference and the maximum that is taken from it.
  bool isShifted = joined != softmax.getInput();
  auto isOwn = [&](Operation *user) {
    return isShifted ? user == softmax.getInput().getDefiningOp() || isa<ReduceOp>(user)
                     : user == softmax;
  };
  if (!llvm::all_of(joined.getUsers(), isOwn))
    return std::nullopt;
  return AttentionWeights{softmax, scores, sink, /*clears=*/false, {}};
}

/// select(softmax != softmax, 0, softmax): a row whose scores are all -inf has no softmax. So
/// torch's exporters write attention under a mask.
static std::optional<AttentionWeights> readGuarded(SelectOp select, SoftmaxOp softmax,
                                                   CompareOp compare) {
  Value weights = softmax.getResult();
  bool isGuard = compare.getPredicate() == ComparePredicate::Ne && compare->hasOneUse() &&
                 compare.getLhs() == weights && compare.getRhs() == weights;
  auto isOwn = [&](Operation *user) { return user == select || user == compare; };
  if (!isGuard || !llvm::all_of(weights.getUsers(), isOwn))
    return std::nullopt;
  return AttentionWeights{softmax, softmax.getInput(), {}, /*clears=*/true, {}};
}

/// select(max(scores) == -inf, 0, softmax), as ONNX describes Attention.
static std::optional<AttentionWeights> readCleared(SelectOp select, SoftmaxOp softmax,
                                                   CompareOp compare, MatchedOps &matched) {
  if (!softmax->hasOneUse() || compare.getPredicate() != ComparePredicate::Eq ||
      splatValue(compare.getRhs()) != -std::numeric_limits<double>::infinity())
    return std::nullopt;
  RowView rows(compare.getLhs(), matched);
  auto largest = rows.get().getDefiningOp<ReduceOp>();
  if (!largest || largest.getKind() != ReduceKind::Max ||
      largest.getDims() != ArrayRef<int64_t>(3) || largest.getInput() != softmax.getInput())
    return std::nullopt;
  matched.insert(largest);
  matched.insert(compare);
  if (!matched.areDeadWithout(select))
    return std::nullopt;
  return AttentionWeights{softmax, softmax.getInput(), {}, /*clears=*/true, largest};
}

std::optional<AttentionWeights> AttentionWeights::read(Value value) {
  if (auto softmax = value.getDefiningOp<SoftmaxOp>())
    return softmax->hasOneUse()
               ? std::optional(AttentionWeights{softmax, softmax.getInput(), {}, false, {}})
               : std::nullopt;
  if (auto slice = value.getDefiningOp<SliceOp>())
    return readSinkWeights(slice);
  auto select = value.getDefiningOp<SelectOp>();
  if (!select || splatValue(select.getOnTrue()) != 0 || !select->hasOneUse())
    return std::nullopt;
  MatchedOps matched;
  auto softmax = select.getOnFalse().getDefiningOp<SoftmaxOp>();
  auto compare = RowView(select.getCondition(), matched).get().getDefiningOp<CompareOp>();
  if (!softmax || !compare)
    return std::nullopt;
  if (std::optional<AttentionWeights> guarded = readGuarded(select, softmax, compare))
    return guarded;
  return readCleared(select, softmax, compare, matched);
}

//===-- what stands before the softmax -------------------------------------------------------===//

/// Sees no more than a triangle, too.
void AttentionScores::hideBy(const Triangle &triangle) {
  if (triangle.window && (!window || triangle.window < window))
    window = triangle.window;
  causal = true;
}

/// Hides what a condition leaves out, with `parts` triangles apart from what else it says; false if
/// there is a mask already that is no triangle.
bool AttentionScores::hide(Value condition, double fill, TriangleMasks &masks, bool parts) {
  if (auto triangle = masks.triangleOf(condition)) {
    hideBy(*triangle);
    return true;
  }
  if (seen || bias)
    return false;
  this->fill = fill;
  seen = condition;
  if (BinaryOp both = asBinary(condition, BinaryKind::And); both && parts)
    for (auto [triangle, rest] :
         {std::pair(both.getLhs(), both.getRhs()), std::pair(both.getRhs(), both.getLhs())})
      if (auto found = masks.triangleOf(triangle); found && typeOf(rest).getRank() == 4) {
        hideBy(*found);
        seen = rest;
        break;
      }
  return true;
}

/// Takes what is added to the scores as a mask; false if it cannot be one.
bool AttentionScores::takeMask(Value added, TriangleMasks &masks, bool parts) {
  if (auto triangle = masks.triangleOfBias(added)) {
    hideBy(*triangle);
    return true;
  }
  if (bias || seen || isTrained(added))
    return false;
  // 0 where a condition holds, which says more than its numbers if a triangle is part of it.
  Value mask = added;
  if (auto broadcast = mask.getDefiningOp<BroadcastOp>();
      broadcast && broadcast.getInput().getType().getRank() == 4)
    mask = broadcast.getInput();
  if (auto select = mask.getDefiningOp<SelectOp>();
      parts && select && splatValue(select.getOnTrue()) == 0 && typeOf(mask).getRank() == 4) {
    std::optional<double> hidden = splatValue(select.getOnFalse());
    AttentionScores apart = *this;
    if (hidden && *hidden <= kForbidden &&
        apart.hide(select.getCondition(), *hidden, masks, parts) &&
        apart.seen != select.getCondition()) {
      *this = apart;
      both = added;
      return true;
    }
  }
  bias = added;
  return true;
}

/// Numbers that multiply queries or keys multiply their products.
void AttentionScores::takeScales() {
  query = product.getLhs(), key = product.getRhs();
  for (Value *operand : {&query, &key})
    while (auto scaled =
               operand->hasOneUse() ? withNumber(*operand, BinaryKind::Mul) : std::nullopt) {
      scale *= scaled->second;
      *operand = scaled->first;
    }
}

/// Whether conditions are the same for all rows.
static bool areOfColumns(Value condition) {
  auto broadcast = condition.getDefiningOp<BroadcastOp>();
  return broadcast && broadcast.getType().getRank() == 4 &&
         broadcast.getInput().getType().getRank() == 1 &&
         broadcast.getDims() == ArrayRef<int64_t>(3);
}

std::optional<AttentionScores> AttentionScores::read(AttentionWeights weights, TriangleMasks &masks,
                                                     bool parts) {
  AttentionScores scores;
  Value value = weights.scores;
  auto isOwn = [&](Operation *user) { return user == weights.softmax || user == weights.largest; };
  while (value.hasOneUse() || llvm::all_of(value.getUsers(), isOwn)) {
    if ((scores.product = value.getDefiningOp<DotGeneralOp>())) {
      if (scores.columns && !scores.bias && !scores.seen) {
        scores.seen = std::exchange(scores.columns, Value());
        scores.fill = -std::numeric_limits<double>::infinity();
      }
      scores.takeScales();
      return scores;
    }
    auto scaled = withNumber(value, BinaryKind::Mul);
    if (scaled) {
      scores.scale *= scaled->second;
    } else if ((scaled = withNumber(value, BinaryKind::Div))) {
      scores.scale /= scaled->second;
    }
    if (scaled) {
      value = scaled->first;
      continue;
    }
    // A scale further down would be one of the mask, too.
    if (scores.scale != 1)
      return std::nullopt;
    if (auto select = value.getDefiningOp<SelectOp>()) {
      std::optional<double> fill = splatValue(select.getOnFalse());
      if (!fill || *fill > kForbidden)
        return std::nullopt;
      if (!scores.columns && areOfColumns(select.getCondition()) && std::isinf(*fill))
        scores.columns = select.getCondition();
      else if (!scores.hide(select.getCondition(), *fill, masks, parts))
        return std::nullopt;
      value = select.getOnTrue();
      continue;
    }
    BinaryOp add = asBinary(value, BinaryKind::Add);
    if (!add)
      return std::nullopt;
    auto leadsOn = [](Value side) {
      return side.hasOneUse() &&
             (side.getDefiningOp<DotGeneralOp>() || withNumber(side, BinaryKind::Mul) ||
              withNumber(side, BinaryKind::Div) || asBinary(side, BinaryKind::Add) ||
              side.getDefiningOp<SelectOp>());
    };
    bool first = leadsOn(add.getLhs());
    if (first && leadsOn(add.getRhs()))
      first =
          add.getLhs().getDefiningOp<DotGeneralOp>() || !add.getRhs().getDefiningOp<DotGeneralOp>();
    Value other = first ? add.getRhs() : add.getLhs();
    if (!scores.takeMask(other, masks, parts))
      return std::nullopt;
    value = first ? add.getLhs() : add.getRhs();
  }
  return std::nullopt;
}
