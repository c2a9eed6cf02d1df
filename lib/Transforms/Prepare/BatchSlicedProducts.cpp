// SPDX-License-Identifier: Apache-2.0
// The pass autopar-batch-sliced-products: what steps of a loop that was written out read of a
// sequence and multiply by one matrix (an input projection) is multiplied for all steps at once.
#include "Stages/MadeFrom.h"
#include "autopar/Transforms/Passes.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_BATCHSLICEDPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Products from which on it pays.
constexpr size_t kManyProducts = 4;
/// The matrix is at least so many times as large as what a product reads and writes beside it.
constexpr int64_t kLargeMatrix = 4;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
int64_t sizeOf(Value value) { return typeOf(value).getNumElements(); }

/// A product whose left side is a part of a value.
struct SlicedProduct {
  DotGeneralOp product;
  SliceOp slice;
  int64_t dim;                     ///< of the value that is sliced
  SmallVector<int64_t> contracted; ///< dimensions of that value

  int64_t start() { return slice.getStarts()[dim]; }
  int64_t extent() { return slice.getType().getDimSize(dim); }
};

/// The one dimension of which `slice` has a part, side by side.
std::optional<int64_t> slicedDim(SliceOp slice) {
  std::optional<int64_t> sliced;
  for (auto [dim, extent] : llvm::enumerate(slice.getType().getShape())) {
    if (slice.getSteps()[dim] != 1)
      return std::nullopt;
    if (extent == slice.getInput().getType().getDimSize(dim))
      continue;
    if (sliced)
      return std::nullopt;
    sliced = dim;
  }
  return sliced;
}

/// Dimensions of a value that are those of a reshape of it which leaves out dimensions of one
/// element; nothing for any other reshape.
std::optional<SmallVector<int64_t>> keptDims(RankedTensorType from, RankedTensorType to) {
  SmallVector<int64_t> kept;
  for (auto [dim, extent] : llvm::enumerate(from.getShape())) {
    auto next = static_cast<int64_t>(kept.size());
    if (next < to.getRank() && to.getDimSize(next) == extent)
      kept.push_back(static_cast<int64_t>(dim));
    else if (extent != 1)
      return std::nullopt;
  }
  return static_cast<int64_t>(kept.size()) == to.getRank() ? std::optional(kept) : std::nullopt;
}

std::optional<SlicedProduct> slicedProduct(DotGeneralOp product) {
  Value left = product.getLhs();
  auto reshape = left.getDefiningOp<ReshapeOp>();
  auto slice = (reshape ? reshape.getInput() : left).getDefiningOp<SliceOp>();
  if (!slice || !product.getLhsBatch().empty() || product.getScaledTo())
    return std::nullopt;
  std::optional<int64_t> dim = slicedDim(slice);
  auto kept = keptDims(slice.getType(), typeOf(left));
  if (!dim || !kept ||
      kLargeMatrix * (sizeOf(left) + sizeOf(product.getResult())) >= sizeOf(product.getRhs()))
    return std::nullopt;
  SlicedProduct sliced{product, slice, *dim, {}};
  for (int64_t contracted : product.getLhsContract())
    sliced.contracted.push_back((*kept)[contracted]);
  if (llvm::is_contained(sliced.contracted, *dim))
    return std::nullopt;
  return sliced;
}

struct BatchSlicedProductsPass
    : mlir::autopar::impl::BatchSlicedProductsPassBase<BatchSlicedProductsPass> {
  void runOnOperation() override {
    // What is multiplied, which dimension is sliced, by what, and how.
    using Kind = std::tuple<Value, int64_t, Value, Attribute, Attribute, Attribute, Type>;
    llvm::MapVector<Kind, SmallVector<SlicedProduct>> kinds;
    for (DotGeneralOp product : getOperation().getOps<DotGeneralOp>())
      if (std::optional<SlicedProduct> one = slicedProduct(product)) {
        Builder builder(product);
        kinds[{one->slice.getInput(), one->dim, product.getRhs(),
               builder.getDenseI64ArrayAttr(one->contracted), product.getRhsContractAttr(),
               product.getByteBlocksAttr(), product.getType().getElementType()}]
            .push_back(std::move(*one));
      }
    for (auto &[kind, products] : kinds)
      if (products.size() >= kManyProducts && lieSideBySide(products))
        batch(products);
  }

private:
  /// Whether the parts, in whatever order, are one stretch of the value, none of them twice.
  static bool lieSideBySide(ArrayRef<SlicedProduct> products) {
    SmallVector<SlicedProduct> inOrder(products);
    llvm::sort(inOrder, [](SlicedProduct &a, SlicedProduct &b) { return a.start() < b.start(); });
    for (size_t next = 1; next < inOrder.size(); ++next)
      if (inOrder[next].start() != inOrder[next - 1].start() + inOrder[next - 1].extent())
        return false;
    return true;
  }

  /// One product ahead of the first one, of which each takes its part.
  static void batch(MutableArrayRef<SlicedProduct> products) {
    SlicedProduct &first = products.front();
    DotGeneralOp product = first.product;
    Value source = first.slice.getInput();
    int64_t begin = first.start(), extent = 0, dim = first.dim;
    for (SlicedProduct &one : products) {
      begin = std::min(begin, one.start());
      extent += one.extent();
    }
    OpBuilder builder(product);
    if (extent != typeOf(source).getDimSize(dim))
      source = madeFrom(product, part(builder, source, dim, begin, extent), "/all.steps");
    // Result dimensions: the left side's, in order, then the right side's.
    SmallVector<int64_t> shape;
    int64_t along = 0;
    for (auto [place, length] : llvm::enumerate(typeOf(source).getShape())) {
      if (static_cast<int64_t>(place) == dim)
        along = static_cast<int64_t>(shape.size());
      if (!llvm::is_contained(first.contracted, static_cast<int64_t>(place)))
        shape.push_back(length);
    }
    for (int64_t place : product.getRhsFree())
      shape.push_back(typeOf(product.getRhs()).getDimSize(place));
    auto whole = DotGeneralOp::create(
        builder, product.getLoc(), product.getType().clone(shape), source, product.getRhs(),
        ArrayRef<int64_t>(), ArrayRef<int64_t>(), first.contracted, product.getRhsContract());
    whole.setByteBlocksAttr(product.getByteBlocksAttr());
    Value all = madeFrom(product, whole, "/of.all.steps");
    for (SlicedProduct &one : products)
      replace(one, all, along, one.start() - begin);
  }

  /// From `start` on along a dimension.
  static SliceOp part(OpBuilder &builder, Value value, int64_t dim, int64_t start, int64_t extent) {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape(type.getShape()), starts(type.getRank(), 0),
        steps(type.getRank(), 1);
    shape[dim] = extent;
    starts[dim] = start;
    return SliceOp::create(builder, value.getLoc(), type.clone(shape), value, starts, steps);
  }

  /// What was multiplied becomes a part of `all`, which begins at `start` of dimension `along`.
  static void replace(SlicedProduct &one, Value all, int64_t along, int64_t start) {
    DotGeneralOp product = one.product;
    OpBuilder builder(product);
    SliceOp slice = part(builder, all, along, start, one.extent());
    bool isWhole = slice.getType() == product.getType();
    Value step = madeFrom(product, slice, isWhole ? "" : "/step");
    if (!isWhole)
      step =
          madeFrom(product, ReshapeOp::create(builder, product.getLoc(), product.getType(), step));
    product.getResult().replaceAllUsesWith(step);
    auto reshape = product.getLhs().getDefiningOp<ReshapeOp>();
    product.erase();
    if (reshape && reshape->use_empty())
      reshape.erase();
    if (one.slice->use_empty())
      one.slice.erase();
  }
};

} // namespace
