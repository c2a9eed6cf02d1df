// SPDX-License-Identifier: Apache-2.0
// The pass autopar-split-fused-projections: one product whose result is cut into equal parts
// (query, key and value of an attention; gate and value of an MLP) gets a dimension of its own for
// the parts.
#include "DimensionSplitter.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SPLITFUSEDPROJECTIONSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The one dimension along which a slice takes a block; nothing for any other slice.
std::optional<int64_t> slicedDim(SliceOp slice) {
  std::optional<int64_t> found;
  RankedTensorType input = slice.getInput().getType(), result = slice.getType();
  for (int64_t dim = 0; dim < result.getRank(); ++dim) {
    if (slice.getSteps()[dim] != 1)
      return std::nullopt;
    if (input.getDimSize(dim) == result.getDimSize(dim))
      continue;
    if (found)
      return std::nullopt;
    found = dim;
  }
  return found;
}

/// Parts of one extent that tile a dimension, and the slices that take them.
struct Parts {
  int64_t dim, count;
  SmallVector<SliceOp> slices;
};

/// Reads all users of `value` as slices into parts; nothing unless they tile a dimension evenly.
std::optional<Parts> readParts(Value value) {
  std::optional<Parts> parts;
  int64_t extent = 0, whole = 0;
  SmallVector<bool> taken;
  for (Operation *user : value.getUsers()) {
    auto slice = dyn_cast<SliceOp>(user);
    std::optional<int64_t> dim = slice ? slicedDim(slice) : std::nullopt;
    if (!dim)
      return std::nullopt;
    if (!parts) {
      extent = slice.getType().getDimSize(*dim);
      whole = slice.getInput().getType().getDimSize(*dim);
      if (extent == 0 || whole % extent)
        return std::nullopt;
      parts = Parts{*dim, whole / extent, {}};
      taken.assign(parts->count, false);
    }
    int64_t start = slice.getStarts()[*dim];
    if (*dim != parts->dim || slice.getType().getDimSize(*dim) != extent || start % extent)
      return std::nullopt;
    taken[start / extent] = true;
    parts->slices.push_back(slice);
  }
  // Parts of one element are no projections, and are sharded as they are.
  if (!parts || extent == 1 || !llvm::all_of(taken, [](bool part) { return part; }))
    return std::nullopt;
  return parts;
}

/// Slices of the whole become slices at one position of the new dimension.
void rewriteSlices(Value split, const Parts &parts) {
  for (SliceOp slice : parts.slices) {
    OpBuilder builder(slice);
    int64_t dim = parts.dim, extent = slice.getType().getDimSize(dim);
    SmallVector<int64_t> starts(slice.getStarts()), steps(slice.getSteps()),
        shape(slice.getType().getShape());
    starts[dim] /= extent;
    starts.insert(starts.begin() + dim + 1, 0);
    steps.push_back(1);
    shape.insert(shape.begin() + dim, 1);
    auto part = SliceOp::create(builder, slice.getLoc(),
                                RankedTensorType::get(shape, slice.getType().getElementType()),
                                split, starts, steps);
    auto flat = ReshapeOp::create(builder, slice.getLoc(), slice.getType(), part);
    if (StringRef id = getOpId(slice); !id.empty()) {
      setOpId(part, id);
      setOpId(flat, id + "/reshape");
    }
    slice.getResult().replaceAllUsesWith(flat);
    slice.erase();
  }
}

/// Whether every user takes single positions along `dim`, perhaps after one transposition.
bool isTakenApart(Value value, int64_t dim) {
  if (value.hasOneUse())
    if (auto transpose = dyn_cast<TransposeOp>(*value.user_begin())) {
      dim = llvm::find(transpose.getPermutation(), dim) - transpose.getPermutation().begin();
      value = transpose;
    }
  return !value.use_empty() && llvm::all_of(value.getUsers(), [&](Operation *user) {
    auto slice = dyn_cast<SliceOp>(user);
    return slice && slice.getType().getDimSize(dim) == 1;
  });
}

class Splitter {
public:
  explicit Splitter(func::FuncOp function) : function(function), parameters(function) {}

  void run() {
    // Collected first. Rewriting a value removes slices, which are not among these, and operations
    // before it, which are done.
    SmallVector<Value> values;
    for (Operation &op : function.getBody().front())
      if (op.getNumResults() == 1 && DimensionSplitter::isFollowed(&op) &&
          !op.getResult(0).use_empty())
        values.push_back(op.getResult(0));
    for (Value value : values) {
      Operation *user = *value.user_begin();
      if (isa<SliceOp>(user))
        splitSliced(value);
      else if (isa<ReshapeOp>(user) && value.hasOneUse())
        splitReshaped(value, cast<ReshapeOp>(user));
    }
    parameters.finish();
  }

private:
  /// A value that slices take apart.
  void splitSliced(Value value) {
    std::optional<Parts> parts = readParts(value);
    if (!parts)
      return;
    DimensionSplitter splitter(parameters, parts->count);
    if (!splitter.canSplit(value, parts->dim))
      return;
    rewriteSlices(splitter.split(value, parts->dim), *parts);
    splitter.eraseReplaced();
  }

  /// A value of which a reshape cuts out the dimension of the parts.
  void splitReshaped(Value value, ReshapeOp reshape) {
    for (int64_t dim = 0; dim < reshape.getInput().getType().getRank(); ++dim) {
      std::optional<int64_t> part = majorPart(reshape, dim);
      if (!part || !isTakenApart(reshape, *part))
        continue;
      DimensionSplitter splitter(parameters, reshape.getType().getDimSize(*part));
      if (!splitter.canSplit(value, dim))
        continue;
      reshape.setOperand(splitter.split(value, dim));
      splitter.eraseReplaced();
      return;
    }
  }

  func::FuncOp function;
  ParameterShape parameters;
};

struct SplitFusedProjectionsPass
    : mlir::autopar::impl::SplitFusedProjectionsPassBase<SplitFusedProjectionsPass> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (!function.isExternal() && function.getBody().hasOneBlock())
        Splitter(function).run();
  }
};

} // namespace
