// SPDX-License-Identifier: Apache-2.0
// The pass autopar-raise-attention.
#include "AttentionMatching.h"
#include "CompositeMatching.h"
#include "HiddenRows.h"

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
    std::optional<AttentionWeights> weights = AttentionWeights::read(root.getLhs());
    if (!weights || weights->softmax.getLog() || weights->softmax.getDim() != 3 ||
        root.getLhsBatch() != ArrayRef<int64_t>({0, 1}) ||
        root.getLhsContract() != ArrayRef<int64_t>(3))
      return;
    std::optional<AttentionScores> scores = AttentionScores::read(*weights, masks, /*parts=*/true);
    // Where a library has no such triangle beside a mask, or nothing tells which rows both hide,
    // the two may be one mask.
    if (scores && !(isCall(root, *scores) && tellsHiddenRows(*weights, *scores)))
      if (auto whole = AttentionScores::read(*weights, masks, /*parts=*/false);
          whole && isCall(root, *whole))
        scores = whole;
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
    bool clears = mustClear(*weights, *scores);
    if (clears &&
        (!tellsHiddenRows(*weights, *scores) || product.getType().getDimSize(2) < kLeastRows))
      return;
    OpBuilder builder(root);
    Value sink;
    if (weights->sink && !(sink = sinkOfHeads(builder, root, weights->sink)))
      return;
    Value q = transposed(builder, root, scores->query, *query, "query"),
          k = transposed(builder, root, scores->key, *key, "key"),
          v = transposed(builder, root, root.getRhs(), *value, "value");
    if (Value keys = sharedByHeads(k), values = sharedByHeads(v);
        keys && values && typeOf(keys).getDimSize(1) == typeOf(values).getDimSize(1)) {
      k = keys;
      v = values;
    }
    Value bias = scores->bias   ? unrepeated(builder, root, scores->bias)
                 : scores->seen ? sharedBias(builder, root, *scores)
                                : Value();
    if (scores->columns)
      bias = withoutColumns(builder, root, bias, scores->columns);
    auto attention = AttentionOp::create(builder, root.getLoc(), q, k, v, bias, scores->scale,
                                         scores->causal, scores->window, sink);
    if (StringRef id = getOpId(root); !id.empty())
      setOpId(attention, id);
    Value output = attention.getOutput();
    if (clears)
      output = hiddenRows.clear(root, output,
                                scores->both ? unrepeated(builder, root, scores->both) : bias);
    root.replaceAllUsesWith(output);
    if (clears)
      readUnswapped(output);
    eraseDead(root);
  }

private:
  /// Of fewer rows, reading keys and values is what takes the time: a call for tiles of 128 rows
  /// and another pass over what it gives gain nothing.
  static constexpr int64_t kLeastRows = 16;

  bool runs(DotGeneralOp root, const AttentionScores &scores) const {
    if (root.getType().getNumElements() == 0)
      return false; // libraries want something to do
    return mode == AttentionMode::Fused || isCall(root, scores) ||
           expandsAttention(target, elementOf(root), shapeOf(root, scores));
  }

  /// Whether rows that see nothing have to be cleared behind a call. A triangle alone hides none.
  bool mustClear(const AttentionWeights &weights, const AttentionScores &scores) const {
    return weights.clears && (scores.bias || scores.seen) && !clearsHiddenRows(target);
  }

  /// Whether a mask says which rows it hides: not with a triangle beside it, unless both are added.
  bool tellsHiddenRows(const AttentionWeights &weights, const AttentionScores &scores) const {
    return !mustClear(weights, scores) || !scores.causal || scores.both;
  }

  bool isCall(DotGeneralOp root, const AttentionScores &scores) const {
    return isLibraryAttention(target, chip, elementOf(root), shapeOf(root, scores));
  }

  /// In which it is going to be computed.
  Type elementOf(DotGeneralOp root) const {
    Type element = root.getType().getElementType();
    return narrow && element.isF32() ? Type(narrow) : element;
  }

  static AttentionShape shapeOf(DotGeneralOp root, const AttentionScores &scores) {
    DotGeneralOp product = scores.product;
    AttentionShape shape;
    shape.queries = product.getType().getDimSize(2);
    shape.keys = product.getType().getDimSize(3);
    shape.size = typeOf(product.getLhs()).getDimSize(product.getLhsContract()[0]);
    shape.valueSize = root.getType().getShape().back();
    shape.causal = scores.causal;
    shape.hasWindow = scores.window != 0;
    shape.hasBias = scores.bias || scores.seen;
    return shape;
  }

  /// One for all layers with the same conditions.
  Value sharedBias(OpBuilder &builder, DotGeneralOp root, AttentionScores scores) {
    auto fill = builder.getFloatAttr(scores.product.getType().getElementType(), scores.fill);
    Value seen = unrepeated(builder, root, scores.seen);
    Value &bias = biases[{seen, fill}];
    if (!bias || bias.getParentBlock() != root->getBlock())
      bias = biasOf(builder, root, seen, fill);
    return bias;
  }

  /// A bias that also hides the columns whose condition is false.
  static Value withoutColumns(OpBuilder &builder, DotGeneralOp root, Value bias, Value columns) {
    Value line = columns.getDefiningOp<BroadcastOp>().getInput();
    auto type = typeOf(bias);
    Value hidden =
        repeatNumber(builder, root, type, -std::numeric_limits<double>::infinity(), "hidden");
    auto seen = BroadcastOp::create(builder, root.getLoc(), type.clone(builder.getI1Type()), line,
                                    ArrayRef<int64_t>(3));
    nameAfter(seen, root, "columns");
    auto both = SelectOp::create(builder, root.getLoc(), type, seen, bias, hidden);
    nameAfter(both, root, "mask");
    return both;
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
      if (AttentionWeights::read(op.getLhs()))
        products.push_back(op);
    });
    for (DotGeneralOp product : products)
      raising.raise(product);
  }
};

} // namespace
