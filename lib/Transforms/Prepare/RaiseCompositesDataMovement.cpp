// SPDX-License-Identifier: Apache-2.0
// Patterns of autopar-raise-composites that merge or drop operations which only move elements.
#include "CompositeMatching.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A moved repetition of one number is that number repeated in the new shape.
template <typename OpTy>
struct MoveSplat : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;

  LogicalResult matchAndRewrite(OpTy root, PatternRewriter &rewriter) const override {
    auto inner = root.getInput().template getDefiningOp<BroadcastOp>();
    if (!inner || inner.getInput().getType().getRank() != 0)
      return failure();
    replaceKeepingId<BroadcastOp>(rewriter, root, root.getType(), inner.getInput(),
                                  ArrayRef<int64_t>());
    return success();
  }
};

struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp root, PatternRewriter &rewriter) const override {
    auto inner = root.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> permutation;
    for (int64_t dim : root.getPermutation())
      permutation.push_back(inner.getPermutation()[dim]);
    replaceKeepingId<TransposeOp>(rewriter, root, inner.getInput(), permutation);
    return success();
  }
};

/// A transposition that moves nothing but unit dimensions keeps the elements' order.
struct TransposeToReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp root, PatternRewriter &rewriter) const override {
    int64_t last = -1;
    for (int64_t dim : root.getPermutation()) {
      if (root.getInput().getType().getDimSize(dim) == 1)
        continue;
      if (dim < last)
        return failure();
      last = dim;
    }
    replaceKeepingId<ReshapeOp>(rewriter, root, root.getType(), root.getInput());
    return success();
  }
};

struct MergeBroadcasts : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp root, PatternRewriter &rewriter) const override {
    auto inner = root.getInput().getDefiningOp<BroadcastOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> dims;
    for (int64_t dim : inner.getDims())
      dims.push_back(root.getDims()[dim]);
    replaceKeepingId<BroadcastOp>(rewriter, root, root.getType(), inner.getInput(), dims);
    return success();
  }
};

/// A broadcast that repeats nothing.
struct BroadcastToReshape : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp root, PatternRewriter &rewriter) const override {
    if (root.getInput().getType() == root.getType()) {
      rewriter.replaceOp(root, root.getInput());
      return success();
    }
    if (root.getInput().getType().getNumElements() != root.getType().getNumElements())
      return failure();
    replaceKeepingId<ReshapeOp>(rewriter, root, root.getType(), root.getInput());
    return success();
  }
};

/// A broadcast of a reshape that inserts or removes unit dimensions places the dimensions itself.
struct BroadcastOfReshape : OpRewritePattern<BroadcastOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BroadcastOp root, PatternRewriter &rewriter) const override {
    auto reshape = root.getInput().getDefiningOp<ReshapeOp>();
    std::optional<SmallVector<int64_t>> middle;
    if (!reshape || !(middle = unitReshapeDims(reshape)))
      return failure();
    RankedTensorType input = reshape.getInput().getType();
    SmallVector<int64_t> dims(input.getRank(), -1);
    for (auto [i, dim] : llvm::enumerate(*middle))
      if (dim >= 0)
        dims[dim] = root.getDims()[i];
    // Unit dimensions that the reshape removes stand anywhere between their neighbours.
    for (int64_t i = 0, next = 0; i < input.getRank(); next = dims[i++] + 1)
      if (dims[i] < 0)
        dims[i] = next;
      else if (dims[i] < next)
        return failure();
    if (!dims.empty() && dims.back() >= root.getType().getRank())
      return failure();
    replaceKeepingId<BroadcastOp>(rewriter, root, root.getType(), reshape.getInput(), dims);
    return success();
  }
};

/// Slices that are written along an inner dimension, which ONNX's ScatterND reaches by bringing it
/// to the front and back (torch's index_copy, by which transformers writes caches): in batches they
/// are written where they lie, and nothing else moves.
struct ScatterAlong : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp root, PatternRewriter &rewriter) const override {
    auto scatter = root.getInput().getDefiningOp<ScatterOp>();
    auto front = scatter ? scatter.getInput().getDefiningOp<TransposeOp>() : TransposeOp();
    if (!front || !scatter->hasOneUse() || scatter.getBatchDims() != 0)
      return failure();
    RankedTensorType indices = scatter.getIndices().getType();
    ArrayRef<int64_t> there = front.getPermutation(), back = root.getPermutation();
    for (auto [dim, from] : llvm::enumerate(back))
      if (there[from] != static_cast<int64_t>(dim))
        return failure();
    int64_t axis = there[0];
    if (axis == 0 || indices.getRank() != 2 || indices.getDimSize(1) != 1)
      return failure();
    auto updates = TransposeOp::create(rewriter, root.getLoc(), scatter.getUpdates(), back);
    nameAfter(updates, root, "updates");
    SmallVector<int64_t> shape(root.getType().getShape().take_front(axis));
    llvm::append_range(shape, indices.getShape());
    auto repeated = BroadcastOp::create(rewriter, root.getLoc(), indices.clone(shape),
                                        scatter.getIndices(), ArrayRef<int64_t>{axis, axis + 1});
    nameAfter(repeated, root, "indices");
    replaceKeepingId<ScatterOp>(rewriter, root, root.getType(), scatter.getKind(), front.getInput(),
                                repeated, updates, axis);
    return success();
  }
};

struct MergeSlices : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp root, PatternRewriter &rewriter) const override {
    auto inner = root.getInput().getDefiningOp<SliceOp>();
    if (!inner)
      return failure();
    SmallVector<int64_t> starts, steps;
    for (int64_t dim = 0; dim < root.getType().getRank(); ++dim) {
      starts.push_back(inner.getStarts()[dim] + root.getStarts()[dim] * inner.getSteps()[dim]);
      steps.push_back(root.getSteps()[dim] * inner.getSteps()[dim]);
    }
    replaceKeepingId<SliceOp>(rewriter, root, root.getType(), inner.getInput(), starts, steps);
    return success();
  }
};

/// Whether `slice` takes positions [start, start + extent) along `dim` and everything else.
bool isBlock(SliceOp slice, int64_t dim, int64_t start) {
  for (int64_t i = 0; i < slice.getType().getRank(); ++i)
    if (slice.getSteps()[i] != 1 || slice.getStarts()[i] != (i == dim ? start : 0) ||
        (i != dim && slice.getType().getDimSize(i) != slice.getInput().getType().getDimSize(i)))
      return false;
  return true;
}

/// What a slice takes of a tensor, by dimension.
struct Taken {
  SmallVector<int64_t> starts, steps, extents;

  explicit Taken(SliceOp slice)
      : starts(slice.getStarts()), steps(slice.getSteps()), extents(slice.getType().getShape()) {}

  /// The same of what is reshaped before it is sliced; false where that moves more than dimensions
  /// of extent 1.
  bool seenThrough(ReshapeOp reshape) {
    std::optional<SmallVector<int64_t>> dims = unitReshapeDims(reshape);
    if (!dims)
      return false;
    Taken outer = *this;
    int64_t rank = reshape.getInput().getType().getRank();
    starts.assign(rank, 0), steps.assign(rank, 1), extents.assign(rank, 1);
    for (auto [from, to] : llvm::enumerate(*dims))
      if (to >= 0) {
        starts[to] = outer.starts[from];
        steps[to] = outer.steps[from];
        extents[to] = outer.extents[from];
      }
    return true;
  }
};

/// A slice of a concatenation that takes of one operand only: of an LSTM's outputs, say, the last.
struct SliceOfConcat : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(SliceOp root, PatternRewriter &rewriter) const override {
    Taken taken(root);
    auto reshape = root.getInput().getDefiningOp<ReshapeOp>();
    auto concat = (reshape ? reshape.getInput() : root.getInput()).getDefiningOp<ConcatOp>();
    if (!concat || (reshape && !taken.seenThrough(reshape)))
      return failure();
    int64_t dim = concat.getDim();
    int64_t last = taken.starts[dim] + (taken.extents[dim] - 1) * taken.steps[dim];
    for (Value input : concat.getInputs()) {
      auto type = cast<RankedTensorType>(input.getType());
      int64_t extent = type.getDimSize(dim);
      if (taken.starts[dim] >= extent) {
        taken.starts[dim] -= extent;
        last -= extent;
        continue;
      }
      if (last >= extent)
        return failure();
      if (!reshape) {
        replaceKeepingId<SliceOp>(rewriter, root, root.getType(), input, taken.starts, taken.steps);
        return success();
      }
      auto part = SliceOp::create(rewriter, root.getLoc(), type.clone(taken.extents), input,
                                  taken.starts, taken.steps);
      nameAfter(part, root, "part");
      replaceKeepingId<ReshapeOp>(rewriter, root, root.getType(), part);
      return success();
    }
    return failure();
  }
};

/// A concatenation of one tensor, or of all blocks of one tensor in order.
struct DropConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConcatOp root, PatternRewriter &rewriter) const override {
    Value whole = root.getInputs().front();
    if (root.getInputs().size() > 1) {
      auto first = whole.getDefiningOp<SliceOp>();
      if (!first || first.getInput().getType() != root.getType())
        return failure();
      whole = first.getInput();
      int64_t start = 0;
      for (Value input : root.getInputs()) {
        auto slice = input.getDefiningOp<SliceOp>();
        if (!slice || slice.getInput() != whole || !isBlock(slice, root.getDim(), start))
          return failure();
        start += slice.getType().getDimSize(root.getDim());
      }
    }
    rewriter.replaceOp(root, whole);
    return success();
  }
};

/// A sum of tensors, each of which is zero but for its own stretch of one dimension, where the
/// stretches fill the dimension: the gradient of what was taken apart by slices.
struct SumOfPads : OpRewritePattern<BinaryOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(BinaryOp root, PatternRewriter &rewriter) const override {
    MatchedOps matched;
    SmallVector<PadOp> pads;
    if (root.getKind() != BinaryKind::Add || !collectPads(root, matched, pads))
      return failure();
    std::optional<int64_t> dim = paddedDim(pads.front());
    if (!dim || !matched.areDeadWithout(root))
      return failure();
    llvm::sort(pads, [&](PadOp a, PadOp b) { return a.getLow()[*dim] < b.getLow()[*dim]; });
    SmallVector<Value> parts;
    int64_t end = 0;
    for (PadOp pad : pads) {
      if (paddedDim(pad) != dim || pad.getLow()[*dim] != end ||
          pad.getType() != pads.front().getType())
        return failure();
      end += pad.getInput().getType().getDimSize(*dim);
      parts.push_back(pad.getInput());
    }
    RankedTensorType type = pads.front().getType();
    if (end != type.getDimSize(*dim))
      return failure();
    if (type == root.getType()) {
      replaceKeepingId<ConcatOp>(rewriter, root, type, parts, *dim);
      return success();
    }
    auto concat = ConcatOp::create(rewriter, root.getLoc(), type, parts, *dim);
    nameAfter(concat, root, "parts");
    replaceKeepingId<CastOp>(rewriter, root, root.getType(), concat);
    return success();
  }

private:
  /// The terms of a sum, seen through casts to wider floats, if all of them are zero outside.
  static bool collectPads(Value value, MatchedOps &matched, SmallVector<PadOp> &pads) {
    if (BinaryOp sum = asBinary(value, BinaryKind::Add)) {
      matched.insert(value);
      Value first = sum.getLhs(), second = sum.getRhs();
      if (asBinary(first, BinaryKind::Add)) // a residual stream, of all layers: the term tells
        std::swap(first, second);
      return collectPads(first, matched, pads) && collectPads(second, matched, pads);
    }
    if (auto widen = value.getDefiningOp<CastOp>(); widen && widen.isWidening()) {
      matched.insert(value);
      value = widen.getInput();
    }
    auto pad = value.getDefiningOp<PadOp>();
    if (!pad || !isSplatOf(pad.getValue(), 0))
      return false;
    matched.insert(value);
    pads.push_back(pad);
    return true;
  }

  /// The only dimension that is longer than the input's.
  static std::optional<int64_t> paddedDim(PadOp pad) {
    std::optional<int64_t> found;
    for (int64_t dim = 0; dim < pad.getType().getRank(); ++dim) {
      if (pad.getType().getDimSize(dim) == pad.getInput().getType().getDimSize(dim))
        continue;
      if (found)
        return std::nullopt;
      found = dim;
    }
    return found;
  }
};

} // namespace

void mlir::autopar::populateDataMovementPatterns(RewritePatternSet &patterns) {
  patterns.add<MoveSplat<ReshapeOp>, MoveSplat<TransposeOp>, MoveSplat<SliceOp>, MergeTransposes,
               TransposeToReshape, MergeBroadcasts, BroadcastToReshape, BroadcastOfReshape,
               MergeSlices, ScatterAlong, SliceOfConcat, DropConcat, SumOfPads>(
      patterns.getContext());
}
