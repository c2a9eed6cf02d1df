// SPDX-License-Identifier: Apache-2.0
// Patterns of autopar-raise-composites on products with matrices that a lookup picks for each row,
// as exporters write a mixture of experts: the looked up matrices would be as many as there are
// rows.
#include "CompositeMatching.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A product with gathered matrices: rows times the matrices of their groups.
class PickedProduct {
public:
  /// Nothing where a product is something else.
  static std::optional<PickedProduct> of(DotGeneralOp product) {
    auto gather = product.getRhs().getDefiningOp<GatherOp>();
    bool picksMatrices = gather && gather->hasOneUse() && gather.getBatchDims() == 0 &&
                         gather.getDims() == ArrayRef<int64_t>{0} &&
                         gather.getInput().getType().getRank() == 3;
    bool isPlain = product.getLhsContract().size() == 1 && !product.getScaledTo() &&
                   !product.getByteBlocks() &&
                   isa<FloatType>(product.getLhs().getType().getElementType());
    if (!picksMatrices || !isPlain)
      return std::nullopt;
    PickedProduct picked(product, gather);
    if (picked.rows == 0 || product.getRhsContract()[0] < picked.rows || !picked.hasRowsInOrder())
      return std::nullopt;
    return picked;
  }

  void rewrite(PatternRewriter &rewriter) {
    FormulaBuilder b(rewriter, product);
    RankedTensorType result = product.getType();
    SmallVector<int64_t> rowShape(result.getShape().drop_back());
    replaceKeepingId<GroupedDotOp>(
        rewriter, product, result, leftRows(b, rowShape), gather.getInput(), groups(b, rowShape),
        /*transposed=*/product.getRhsContract()[0] == rows + 1, IntegerAttr());
  }

private:
  PickedProduct(DotGeneralOp product, GatherOp gather)
      : product(product), gather(gather), rows(gather.getIndices().getType().getRank() - 1) {}

  /// Whether the dimensions of rows come first in the result, in their order, and the columns last:
  /// those that both sides have, and either more of the left side or of the right one.
  bool hasRowsInOrder() {
    ArrayRef<int64_t> batch = product.getRhsBatch();
    for (auto [place, dim] : llvm::enumerate(batch))
      if (dim != static_cast<int64_t>(place))
        return false;
    return static_cast<int64_t>(batch.size()) == rows || product.getLhsFree().empty();
  }

  /// The left side as [rows..., depth], repeated for rows that only the right side has.
  Value leftRows(FormulaBuilder &b, SmallVector<int64_t> shape) {
    SmallVector<int64_t> order(product.getLhsBatch());
    llvm::append_range(order, product.getLhsFree());
    order.push_back(product.getLhsContract()[0]);
    Value left = b.transpose(product.getLhs(), order);
    RankedTensorType type = b.typeOf(left);
    shape.push_back(type.getShape().back());
    if (type.getShape() == ArrayRef<int64_t>(shape))
      return left;
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, type.getRank() - 1));
    dims.push_back(shape.size() - 1);
    return BroadcastOp::create(b.builder, b.loc, type.clone(shape), left, dims);
  }

  /// The group of each row, as the lookup reads positions: [rows...].
  Value groups(FormulaBuilder &b, ArrayRef<int64_t> shape) {
    RankedTensorType type = gather.getIndices().getType();
    Value group = b.reshape(gather.getIndices(), type.getShape().drop_back());
    Value extent =
        b.splatLike(group, static_cast<double>(gather.getInput().getType().getDimSize(0)));
    group = b.clampPositions(group, extent);
    if (static_cast<int64_t>(shape.size()) == rows)
      return group;
    SmallVector<int64_t> dims = llvm::to_vector(llvm::seq<int64_t>(0, rows));
    return BroadcastOp::create(b.builder, b.loc, b.typeOf(group).clone(shape), group, dims);
  }

  DotGeneralOp product;
  GatherOp gather;
  int64_t rows; ///< dimensions of the numbers that are looked up
};

struct RaiseGroupedProduct : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotGeneralOp root, PatternRewriter &rewriter) const override {
    std::optional<PickedProduct> picked = PickedProduct::of(root);
    if (!picked)
      return failure();
    picked->rewrite(rewriter);
    return success();
  }
};

} // namespace

void mlir::autopar::populateGroupedProductPatterns(RewritePatternSet &patterns) {
  patterns.add<RaiseGroupedProduct>(patterns.getContext());
}
