// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fold-parameters: what a program does to a parameter before it first uses it is
// done by reading it otherwise, or by the product that uses it.
#include "ParameterShape.h"
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Dialect/AutoPar/IR/ConstantFolding.h"
#include "autopar/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_FOLDPARAMETERSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// A reshape that is all that a parameter is used for becomes the parameter's shape.
void foldReshapes(func::FuncOp function) {
  ParameterShape parameters(function);
  for (BlockArgument argument : function.getBody().front().getArguments()) {
    while (parameters.mayChange(argument)) {
      auto reshape = dyn_cast<ReshapeOp>(*argument.user_begin());
      if (!reshape)
        break;
      parameters.change(argument, reshape.getType());
      reshape.getResult().replaceAllUsesWith(argument);
      reshape.erase();
    }
  }
  parameters.finish();
}

/// Whether a value is a parameter or constant, perhaps cast.
bool isWeight(Value value) {
  while (auto cast = value.getDefiningOp<CastOp>())
    value = cast.getInput();
  return isParameter(value) || value.getDefiningOp<ConstantOp>();
}

/// The operands and dimensions of a product, and the origin of each of its result dimensions.
struct Contraction {
  Value operands[2];
  SmallVector<int64_t> batch[2], contract[2];

  explicit Contraction(DotGeneralOp op)
      : operands{op.getLhs(), op.getRhs()}, batch{SmallVector<int64_t>(op.getLhsBatch()),
                                                  SmallVector<int64_t>(op.getRhsBatch())},
        contract{SmallVector<int64_t>(op.getLhsContract()),
                 SmallVector<int64_t>(op.getRhsContract())} {}

  SmallVector<int64_t> free(int side) const {
    SmallVector<int64_t> dims;
    for (int64_t dim = 0; dim < cast<RankedTensorType>(operands[side].getType()).getRank(); ++dim)
      if (!llvm::is_contained(batch[side], dim) && !llvm::is_contained(contract[side], dim))
        dims.push_back(dim);
    return dims;
  }

  void replace(DotGeneralOp op, PatternRewriter &rewriter) const {
    StringRef id = getOpId(op);
    auto made = DotGeneralOp::create(rewriter, op.getLoc(), op.getType(), operands[0], operands[1],
                                     batch[0], batch[1], contract[0], contract[1]);
    made.setByteBlocksAttr(op.getByteBlocksAttr());
    if (!id.empty())
      setOpId(made, id);
    rewriter.replaceOp(op, made);
  }
};

/// A product reads a transposed weight in its own order, if its result keeps its order.
struct FoldTransposeIntoDot : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotGeneralOp op, PatternRewriter &rewriter) const override {
    Contraction product(op);
    bool folded = false;
    for (int side : {0, 1}) {
      auto transpose = product.operands[side].getDefiningOp<TransposeOp>();
      if (!transpose || !isWeight(transpose.getInput()))
        continue;
      auto source = [&](ArrayRef<int64_t> dims) {
        return llvm::map_to_vector(dims,
                                   [&](int64_t dim) { return transpose.getPermutation()[dim]; });
      };
      if (!llvm::is_sorted(source(product.free(side))))
        continue;
      product.batch[side] = source(product.batch[side]);
      product.contract[side] = source(product.contract[side]);
      product.operands[side] = transpose.getInput();
      folded = true;
    }
    if (!folded)
      return failure();
    product.replace(op, rewriter);
    return success();
  }
};

/// An operand that is the same for every position of a batch dimension needs no such dimension: the
/// other operand's becomes a free one, if the result keeps its order.
struct FoldBroadcastIntoDot : OpRewritePattern<DotGeneralOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotGeneralOp op, PatternRewriter &rewriter) const override {
    for (int side : {0, 1})
      if (succeeded(fold(op, side, rewriter)))
        return success();
    return failure();
  }

private:
  static LogicalResult fold(DotGeneralOp op, int side, PatternRewriter &rewriter) {
    Contraction product(op);
    auto broadcast = product.operands[side].getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return failure();
    RankedTensorType wide = broadcast.getType(), input = broadcast.getInput().getType();
    SmallVector<bool> repeats(wide.getRank(), true);
    for (auto [i, dim] : llvm::enumerate(broadcast.getDims()))
      repeats[dim] = input.getDimSize(i) != wide.getDimSize(dim);
    // Everything that is repeated has to be a batch dimension.
    SmallVector<int64_t> shape, position(wide.getRank(), -1);
    for (int64_t dim = 0; dim < wide.getRank(); ++dim) {
      if (repeats[dim] && !llvm::is_contained(product.batch[side], dim))
        return failure();
      if (!repeats[dim]) {
        position[dim] = static_cast<int64_t>(shape.size());
        shape.push_back(wide.getDimSize(dim));
      }
    }
    Contraction folded = product;
    folded.batch[0].clear();
    folded.batch[1].clear();
    for (auto [l, r] : llvm::zip(product.batch[0], product.batch[1]))
      if (int64_t dim = side == 0 ? l : r; !repeats[dim]) {
        folded.batch[side].push_back(position[dim]);
        folded.batch[1 - side].push_back(side == 0 ? r : l);
      }
    for (int64_t &dim : folded.contract[side])
      dim = position[dim];
    if (!keepsOrder(product, folded, side, position))
      return failure();
    if (input.getShape() == ArrayRef<int64_t>(shape))
      folded.operands[side] = broadcast.getInput();
    else
      folded.operands[side] = ReshapeOp::create(rewriter, op.getLoc(),
                                                RankedTensorType::get(shape, wide.getElementType()),
                                                broadcast.getInput());
    folded.replace(op, rewriter);
    return success();
  }

  /// Whether the result dimensions come from the same operand dimensions. A batch dimension that is
  /// dropped counts as one of the other operand.
  static bool keepsOrder(const Contraction &product, const Contraction &folded, int side,
                         ArrayRef<int64_t> position) {
    auto other = [&](const Contraction &c) { return c.batch[1 - side]; };
    SmallVector<std::pair<int, int64_t>> before, after;
    for (int64_t dim : other(product))
      before.push_back({1 - side, dim});
    for (int64_t dim : other(folded))
      after.push_back({1 - side, dim});
    for (int s : {0, 1})
      for (int64_t dim : product.free(s))
        before.push_back({s, s == side ? position[dim] : dim});
    SmallVector<int64_t> sideFree;
    for (int64_t dim : product.free(side))
      sideFree.push_back(position[dim]);
    for (int s : {0, 1})
      for (int64_t dim : s == side ? sideFree : folded.free(s))
        after.push_back({s, dim});
    return before == after;
  }
};

/// What depends on constants only is computed now, where that does not make the program larger.
struct FoldConstants : RewritePattern {
  explicit FoldConstants(MLIRContext *context) : RewritePattern(MatchAnyOpTypeTag(), 1, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    // A repeated constant is smaller as it stands.
    if (op->getNumOperands() == 0 || op->getNumResults() != 1 || isa<BroadcastOp>(op) ||
        !isa_and_nonnull<AutoParDialect>(op->getDialect()))
      return failure();
    SmallVector<DenseElementsAttr> operands;
    for (Value operand : op->getOperands()) {
      auto constant = operand.getDefiningOp<ConstantOp>();
      auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : nullptr;
      if (!dense)
        return failure();
      operands.push_back(dense);
    }
    auto values = evaluateConstant(op, operands);
    if (!values)
      return failure();
    auto constant = ConstantOp::create(rewriter, op->getLoc(), values->front());
    if (StringRef id = getOpId(op); !id.empty())
      setOpId(constant, id);
    rewriter.replaceOp(op, constant);
    return success();
  }
};

struct FoldParametersPass : mlir::autopar::impl::FoldParametersPassBase<FoldParametersPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldTransposeIntoDot, FoldBroadcastIntoDot, FoldConstants>(&getContext());
    FrozenRewritePatternSet frozen(std::move(patterns));
    GreedyRewriteConfig config;
    config.setUseTopDownTraversal(true);
    config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
    for (auto function : getOperation().getOps<func::FuncOp>()) {
      if (function.isExternal())
        continue;
      foldReshapes(function);
      if (failed(applyPatternsGreedily(function, frozen, config))) {
        function.emitOpError("is still changing after " + Twine(config.getMaxIterations()) +
                             " rounds of folding parameters");
        return signalPassFailure();
      }
    }
  }
};

} // namespace
