// SPDX-License-Identifier: Apache-2.0
// The pass autopar-raise-attention.
#include "CompositeMatching.h"
#include "HiddenRows.h"
#include "TriangleMask.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/LibraryAttention.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_RAISEATTENTIONPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// `value` transposed, looking through a transposition that it already is.
Value transposed(OpBuilder &builder, Operation *root, Value value, ArrayRef<int64_t> permutation,
                 StringRef name) {
  SmallVector<int64_t> order(permutation);
  if (auto inner = value.getDefiningOp<TransposeOp>()) {
    value = inner.getInput();
    for (int64_t &dim : order)
      dim = inner.getPermutation()[dim];
  }
  if (llvm::equal(order, llvm::seq<int64_t>(0, order.size())))
    return value;
  auto made = TransposeOp::create(builder, root->getLoc(), value, order);
  nameAfter(made, root, name);
  return made;
}

/// The four-dimensional operand of a product as [batch dimensions, other, contracted].
std::optional<SmallVector<int64_t>> rowOrder(Value value, ArrayRef<int64_t> batch,
                                             ArrayRef<int64_t> contract, ArrayRef<int64_t> free) {
  if (typeOf(value).getRank() != 4 || batch.size() != 2 || contract.size() != 1 || free.size() != 1)
    return std::nullopt;
  return SmallVector<int64_t>{batch[0], batch[1], free[0], contract[0]};
}

/// Whether a gradient may be asked for a value.
bool isTrained(Value value) {
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

/// What stands between the first product and the softmax.
struct Scores {
  DotGeneralOp product;
  double scale = 1;
  bool causal = false;
  int64_t window = 0; ///< of the columns that a causal row sees, the last so many; 0: all
  Value bias;         ///< as it is added, repeated to the shape of the scores
  Value seen; ///< conditions that are no triangle, repeated alike; where one is false stands `fill`
  double fill = 0;

  /// Sees no more than a triangle, too.
  void hideBy(const Triangle &triangle) {
    if (triangle.window && (!window || triangle.window < window))
      window = triangle.window;
    causal = true;
  }
};

/// What weighs the values: a softmax; or one without the rows that may see nothing,
/// select(max(scores) == -inf, 0, softmax); or one without its last column, a sink.
struct Weights {
  SoftmaxOp softmax;
  ReduceOp largest; ///< null where no row is removed
  Value scores;     ///< what the softmax is of, without the sink
  Value sink;       ///< of each row, [batch, heads, rows, 1]; null where there is none
};

/// The value of which `x` is a row by row difference to its maximum; `x` itself if it is none.
/// Softmax does not see the difference.
Value unshifted(Value x) {
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
std::optional<Weights> readSinkWeights(SliceOp slice) {
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
  return Weights{softmax, {}, scores, sink};
}

std::optional<Weights> readWeights(Value value) {
  if (auto softmax = value.getDefiningOp<SoftmaxOp>())
    return Weights{softmax, {}, softmax.getInput(), {}};
  if (auto slice = value.getDefiningOp<SliceOp>())
    return readSinkWeights(slice);
  auto select = value.getDefiningOp<SelectOp>();
  if (!select || splatValue(select.getOnTrue()) != 0 || !select->hasOneUse())
    return std::nullopt;
  Weights weights{select.getOnFalse().getDefiningOp<SoftmaxOp>(), {}, {}, {}};
  MatchedOps matched;
  Value condition = RowView(select.getCondition(), matched).get();
  auto compare = condition.getDefiningOp<CompareOp>();
  if (!weights.softmax || !compare || compare.getPredicate() != ComparePredicate::Eq ||
      splatValue(compare.getRhs()) != -std::numeric_limits<double>::infinity())
    return std::nullopt;
  RowView rows(compare.getLhs(), matched);
  weights.largest = rows.get().getDefiningOp<ReduceOp>();
  if (!weights.largest || weights.largest.getKind() != ReduceKind::Max ||
      weights.largest.getDims() != ArrayRef<int64_t>(3) ||
      weights.largest.getInput() != weights.softmax.getInput())
    return std::nullopt;
  weights.scores = weights.softmax.getInput();
  matched.insert(weights.largest);
  matched.insert(condition);
  return matched.areDeadWithout(select) ? std::optional(weights) : std::nullopt;
}

/// Walks from the softmax up to the product. What is walked over may have no other reader.
std::optional<Scores> readScores(Weights weights, TriangleMasks &masks) {
  Scores scores;
  Value value = weights.scores;
  auto isOwn = [&](Operation *user) { return user == weights.softmax || user == weights.largest; };
  while (value.hasOneUse() || llvm::all_of(value.getUsers(), isOwn)) {
    if ((scores.product = value.getDefiningOp<DotGeneralOp>()))
      return scores;
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
      if (auto triangle = masks.triangleOf(select.getCondition())) {
        scores.hideBy(*triangle);
      } else if (scores.seen || scores.bias) {
        return std::nullopt;
      } else {
        scores.seen = select.getCondition();
        scores.fill = *fill;
      }
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
    if (auto triangle = masks.triangleOfBias(other)) {
      scores.hideBy(*triangle);
    } else if (scores.bias || scores.seen || isTrained(other)) {
      return std::nullopt;
    } else {
      scores.bias = other;
    }
    value = first ? add.getLhs() : add.getRhs();
  }
  return std::nullopt;
}

/// One number per head from a column [batch, heads, rows, 1] that repeats them; null if it is
/// something else.
Value sinkOfHeads(OpBuilder &builder, Operation *root, Value column) {
  int64_t heads = typeOf(column).getDimSize(1), dim = 1;
  Type element = typeOf(column).getElementType();
  if (std::optional<double> number = splatValue(column))
    return repeatNumber(builder, root, RankedTensorType::get(heads, element), *number, "sink");
  while (typeOf(column).getRank() != 1) {
    auto broadcast = column.getDefiningOp<BroadcastOp>();
    auto reshape = column.getDefiningOp<ReshapeOp>();
    std::optional<SmallVector<int64_t>> kept;
    if (broadcast && llvm::is_contained(broadcast.getDims(), dim)) {
      dim = llvm::find(broadcast.getDims(), dim) - broadcast.getDims().begin();
      column = broadcast.getInput();
    } else if (reshape && (kept = unitReshapeDims(reshape)) && (*kept)[dim] >= 0) {
      dim = (*kept)[dim];
      column = reshape.getInput();
    } else {
      break;
    }
  }
  if (typeOf(column).getDimSize(dim) != heads || typeOf(column).getNumElements() != heads)
    return {};
  if (typeOf(column).getRank() == 1)
    return column;
  auto made =
      ReshapeOp::create(builder, root->getLoc(), RankedTensorType::get(heads, element), column);
  nameAfter(made, root, "sink");
  return made;
}

/// A bias before it is repeated, with four dimensions.
Value unrepeated(OpBuilder &builder, Operation *root, Value bias) {
  auto broadcast = bias.getDefiningOp<BroadcastOp>();
  if (!broadcast || typeOf(bias).getRank() != 4)
    return bias;
  RankedTensorType input = broadcast.getInput().getType();
  SmallVector<int64_t> shape(4, 1);
  for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
    shape[dim] = input.getDimSize(i);
  if (shape.back() != typeOf(bias).getShape().back())
    return bias; // columns lie side by side
  if (input.getShape() == ArrayRef<int64_t>(shape))
    return broadcast.getInput();
  auto made = ReshapeOp::create(builder, root->getLoc(), input.clone(shape), broadcast.getInput());
  nameAfter(made, root, "bias");
  return made;
}

/// Conditions as a bias: 0 where they hold, else `fill`.
Value biasOf(OpBuilder &builder, Operation *root, Value seen, FloatAttr fill) {
  RankedTensorType type = typeOf(seen).clone(fill.getType());
  Value zero = repeatNumber(builder, root, type, 0, "seen"),
        hidden = repeatNumber(builder, root, type, fill.getValueAsDouble(), "hidden");
  auto bias = SelectOp::create(builder, root->getLoc(), type, seen, zero, hidden);
  nameAfter(bias, root, "mask");
  return bias;
}

class Raising {
public:
  Raising(AttentionMode mode, Target target, int64_t chip, FloatType narrow)
      : mode(mode), target(target), chip(chip), narrow(narrow) {}

  void raise(DotGeneralOp root) {
    std::optional<Weights> weights = readWeights(root.getLhs());
    if (!weights || weights->softmax.getLog() || weights->softmax.getDim() != 3 ||
        !weights->softmax->hasOneUse() || root.getLhsBatch() != ArrayRef<int64_t>({0, 1}) ||
        root.getLhsContract() != ArrayRef<int64_t>(3))
      return;
    std::optional<Scores> scores = readScores(*weights, masks);
    if (!scores)
      return;
    DotGeneralOp product = scores->product;
    auto query = rowOrder(product.getLhs(), product.getLhsBatch(), product.getLhsContract(),
                          product.getLhsFree()),
         key = rowOrder(product.getRhs(), product.getRhsBatch(), product.getRhsContract(),
                        product.getRhsFree()),
         value =
             rowOrder(root.getRhs(), root.getRhsBatch(), root.getRhsFree(), root.getRhsContract());
    if (!query || !key || !value || !runs(root, *scores))
      return;
    // A triangle alone hides no row.
    bool clears = weights->largest && (scores->bias || scores->seen) && !clearsHiddenRows(target);
    if (clears && (scores->causal || product.getType().getDimSize(2) < kLeastRows))
      return;
    OpBuilder builder(root);
    Value sink;
    if (weights->sink && !(sink = sinkOfHeads(builder, root, weights->sink)))
      return;
    Value q = transposed(builder, root, product.getLhs(), *query, "query"),
          k = transposed(builder, root, product.getRhs(), *key, "key"),
          v = transposed(builder, root, root.getRhs(), *value, "value");
    if (Value keys = sharedByHeads(k), values = sharedByHeads(v);
        keys && values && typeOf(keys).getDimSize(1) == typeOf(values).getDimSize(1)) {
      k = keys;
      v = values;
    }
    Value bias = scores->bias   ? unrepeated(builder, root, scores->bias)
                 : scores->seen ? sharedBias(builder, root, *scores)
                                : Value();
    auto attention = AttentionOp::create(builder, root.getLoc(), q, k, v, bias, scores->scale,
                                         scores->causal, scores->window, sink);
    if (StringRef id = getOpId(root); !id.empty())
      setOpId(attention, id);
    Value output = attention.getOutput();
    if (clears)
      output = hiddenRows.clear(root, output, bias);
    root.replaceAllUsesWith(output);
    if (clears)
      readUnswapped(output);
    eraseDead(root);
  }

private:
  /// Of fewer rows, reading keys and values is what takes the time: a call for tiles of 128 rows
  /// and another pass over what it gives gain nothing.
  static constexpr int64_t kLeastRows = 16;

  bool runs(DotGeneralOp root, const Scores &scores) const {
    if (root.getType().getNumElements() == 0)
      return false; // libraries want something to do
    if (mode == AttentionMode::Fused)
      return true;
    Type element = root.getType().getElementType();
    if (narrow && element.isF32())
      element = narrow;
    DotGeneralOp product = scores.product;
    AttentionShape shape;
    shape.queries = product.getType().getDimSize(2);
    shape.keys = product.getType().getDimSize(3);
    shape.size = typeOf(product.getLhs()).getDimSize(product.getLhsContract()[0]);
    shape.valueSize = root.getType().getShape().back();
    shape.causal = scores.causal;
    shape.hasWindow = scores.window != 0;
    shape.hasBias = scores.bias || scores.seen;
    return isLibraryAttention(target, chip, element, shape) ||
           expandsAttention(target, element, shape);
  }

  /// One for all layers with the same conditions.
  Value sharedBias(OpBuilder &builder, DotGeneralOp root, Scores scores) {
    auto fill = builder.getFloatAttr(scores.product.getType().getElementType(), scores.fill);
    Value seen = unrepeated(builder, root, scores.seen);
    Value &bias = biases[{seen, fill}];
    if (!bias || bias.getParentBlock() != root->getBlock())
      bias = biasOf(builder, root, seen, fill);
    return bias;
  }

  /// Erases an operation that nobody reads, and what it alone read.
  static void eraseDead(Operation *op) {
    llvm::SetVector<Operation *> worklist; // each once: two readers may die before what they read
    worklist.insert(op);
    while (!worklist.empty()) {
      Operation *current = worklist.pop_back_val();
      if (!isOpTriviallyDead(current))
        continue;
      SmallVector<Value> operands(current->getOperands());
      current->erase();
      for (Value operand : operands)
        if (Operation *producer = operand.getDefiningOp())
          worklist.insert(producer);
    }
  }

  AttentionMode mode;
  Target target;
  int64_t chip;
  FloatType narrow; ///< what f32 is going to be computed in; null for f32
  TriangleMasks masks;
  DenseMap<std::pair<Value, Attribute>, Value> biases; ///< by conditions and fill
  HiddenRows hiddenRows;
};

struct RaiseAttentionPass : mlir::autopar::impl::RaiseAttentionPassBase<RaiseAttentionPass> {
  using Base::Base;

  void runOnOperation() override {
    FailureOr<AttentionMode> wanted = readAttentionMode(getOperation(), mode);
    if (failed(wanted))
      return signalPassFailure();
    if (*wanted == AttentionMode::Products)
      return;
    FloatType narrow;
    if (precision == "bf16" || precision == "fp8")
      narrow = BFloat16Type::get(&getContext());
    else if (precision == "fp16")
      narrow = Float16Type::get(&getContext());
    Raising raising(*wanted, target, chip, narrow);
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) {
      if (readWeights(op.getLhs()))
        products.push_back(op);
    });
    for (DotGeneralOp product : products)
      raising.raise(product);
  }
};

} // namespace
