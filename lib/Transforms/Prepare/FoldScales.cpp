// SPDX-License-Identifier: Apache-2.0
// The pass autopar-fold-scales: a product or convolution by a known weight, scaled per column or
// channel by known numbers (batch normalization at inference), is one by a scaled weight.
#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_FOLDSCALESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// One by a weight, which is its second operand.
static bool isProduct(Operation *op) {
  return isa_and_nonnull<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(op);
}

/// Whether a value is made of parameters and constants alone; `budget` bounds the walk.
static bool isKnown(Value value, int &budget) {
  if (--budget < 0)
    return false;
  if (isa<BlockArgument>(value))
    return isParameter(value);
  Operation *op = value.getDefiningOp();
  return isPure(op) && !isa<RandomOp>(op) && !isProduct(op) && op->getNumRegions() == 0 &&
         llvm::all_of(op->getOperands(), [&](Value operand) { return isKnown(operand, budget); });
}

static bool isKnown(Value value) {
  int budget = 64;
  return isKnown(value, budget);
}

/// The vector that `factor` repeats along everything but `dims` of the result, as a tensor over
/// those dimensions; null if it is none.
static Value vectorAlong(OpBuilder &builder, Value factor, ArrayRef<int64_t> dims) {
  auto broadcast = factor.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  RankedTensorType input = broadcast.getInput().getType();
  SmallVector<int64_t> covered, extents;
  for (auto [extent, dim] : llvm::zip(input.getShape(), broadcast.getDims()))
    if (extent != 1) {
      covered.push_back(dim);
      extents.push_back(extent);
    }
  if (covered != dims)
    return {};
  auto type = RankedTensorType::get(extents, input.getElementType());
  if (input == type)
    return broadcast.getInput();
  return ReshapeOp::create(builder, factor.getLoc(), type, broadcast.getInput());
}

namespace {
struct FoldScalesPass : mlir::autopar::impl::FoldScalesPassBase<FoldScalesPass> {
  void runOnOperation() override {
    SmallVector<BinaryOp> products;
    getOperation().walk([&](BinaryOp op) {
      if (op.getKind() == BinaryKind::Mul)
        products.push_back(op);
    });
    for (BinaryOp op : products)
      fold(op);
  }

private:
  void fold(BinaryOp op) {
    if (!foldInto(op, op.getLhs(), op.getRhs()))
      (void)foldInto(op, op.getRhs(), op.getLhs());
  }

  /// Folds `factor` if `scaled` is a product by a known weight, perhaps with a known bias added.
  bool foldInto(BinaryOp op, Value scaled, Value factor) {
    Value product = scaled, shift;
    auto add = scaled.getDefiningOp<BinaryOp>();
    if (add && add.getKind() == BinaryKind::Add && add->hasOneUse()) {
      bool isLeft = isProduct(add.getLhs().getDefiningOp());
      product = isLeft ? add.getLhs() : add.getRhs();
      shift = isLeft ? add.getRhs() : add.getLhs();
    }
    Operation *library = product.getDefiningOp();
    auto transposed = dyn_cast_or_null<ConvolutionInputGradOp>(library);
    if (!isProduct(library) || (transposed && transposed.getGroups() > 1) || !product.hasOneUse() ||
        !isa<FloatType>(cast<RankedTensorType>(product.getType()).getElementType()) ||
        !isKnown(library->getOperand(1)) || !isKnown(factor) || (shift && !isKnown(shift)))
      return false;
    SmallVector<int64_t> resultDims{1}, weightDims{transposed ? 1 : 0};
    if (auto dot = dyn_cast<DotGeneralOp>(library)) {
      weightDims = dot.getRhsFree();
      int64_t rank = dot.getType().getRank();
      resultDims = llvm::to_vector(llvm::seq<int64_t>(rank - weightDims.size(), rank));
    }
    // The factor may stand behind the product: what it is made of is moved before it.
    moveBefore(factor.getDefiningOp(), library);
    OpBuilder builder(library);
    Value vector = vectorAlong(builder, factor, resultDims), shiftVector;
    if (shift) {
      moveBefore(shift.getDefiningOp(), library);
      shiftVector = vectorAlong(builder, shift, resultDims);
    }
    if (!vector || (shift && !shiftVector))
      return false;
    auto named = [&](Operation *made, StringRef suffix) {
      if (!getOpId(op).empty())
        setOpId(made, getOpId(op) + suffix);
      return made->getResult(0);
    };
    Location loc = op.getLoc();
    auto times = [&](Value value, Value repeated, StringRef suffix) {
      return named(BinaryOp::create(builder, loc, BinaryKind::Mul, value, repeated), suffix);
    };
    Value weight = library->getOperand(1);
    Value repeated = named(BroadcastOp::create(builder, loc, weight.getType(), vector, weightDims),
                           "/weight.factor");
    library->setOperand(1, times(weight, repeated, "/weight"));
    if (shift) {
      Value moved = times(shiftVector, vector, "/bias");
      Value spread = named(BroadcastOp::create(builder, loc, shift.getType(), moved, resultDims),
                           "/bias.broadcast");
      add->setOperand(add.getLhs() == product ? 1 : 0, spread);
    }
    op.replaceAllUsesWith(scaled);
    op.erase();
    return true;
  }

  static void moveBefore(Operation *op, Operation *place) {
    if (!op || op->getBlock() != place->getBlock() || op->isBeforeInBlock(place))
      return;
    for (Value operand : op->getOperands())
      moveBefore(operand.getDefiningOp(), place);
    op->moveBefore(place);
  }
};
} // namespace
