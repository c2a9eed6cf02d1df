// SPDX-License-Identifier: Apache-2.0
// The pass autopar-sum-whole-numbers: a product or convolution of dequantized values sums whole
// numbers, and their scales multiply the sum.
#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SUMWHOLENUMBERSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// Whole numbers of at most so much: differences of 8 bits.
constexpr int64_t kMost = 255;

static bool isWholeConstant(autopar::ConstantOp op) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense)
    return false;
  if (auto floats = dyn_cast<DenseFPElementsAttr>(dense))
    return llvm::all_of(floats.getValues<APFloat>(), [](const APFloat &value) {
      return value.isInteger() && std::abs(value.convertToDouble()) <= kMost;
    });
  auto integers = dyn_cast<DenseIntElementsAttr>(dense);
  bool isUnsigned = integers && integers.getElementType().isUnsignedInteger();
  return integers && llvm::all_of(integers.getValues<APInt>(), [&](const APInt &value) {
           return isUnsigned ? value.ule(kMost) : value.sge(-kMost) && value.sle(kMost);
         });
}

/// Whether a value holds small whole numbers only: what was 8 bits, less a zero point.
static bool isWhole(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto constant = dyn_cast<autopar::ConstantOp>(op))
    return isWholeConstant(constant);
  if (auto cast = dyn_cast<CastOp>(op)) {
    auto from = dyn_cast<IntegerType>(cast.getInput().getType().getElementType());
    return from && (from.getWidth() == 8 || isWhole(cast.getInput()));
  }
  if (auto binary = dyn_cast<BinaryOp>(op))
    return binary.getKind() == BinaryKind::Sub && isWhole(binary.getLhs()) &&
           isWhole(binary.getRhs());
  return isa<BroadcastOp, ReshapeOp>(op) && isWhole(op->getOperand(0));
}

namespace {
/// A value that is `whole` times `factor`: one number, or one per place along dimension `dim`.
struct Scaled {
  Value whole, factor;
  std::optional<int64_t> dim;

  static std::optional<Scaled> of(Value value) {
    auto product = value.getDefiningOp<BinaryOp>();
    if (!product || product.getKind() != BinaryKind::Mul ||
        !product.getType().getElementType().isF32())
      return std::nullopt;
    for (auto [whole, other] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())}) {
      auto factor = other.getDefiningOp<BroadcastOp>();
      if (!factor || !isWhole(whole))
        continue;
      SmallVector<int64_t> dims;
      for (auto [extent, dim] : llvm::zip(factor.getInput().getType().getShape(), factor.getDims()))
        if (extent != 1)
          dims.push_back(dim);
      if (dims.size() > 1)
        continue;
      return Scaled{whole, factor.getInput(),
                    dims.empty() ? std::nullopt : std::optional<int64_t>(dims.front())};
    }
    return std::nullopt;
  }
};

struct SumWholeNumbersPass : mlir::autopar::impl::SumWholeNumbersPassBase<SumWholeNumbersPass> {
  void runOnOperation() override {
    SmallVector<Operation *> products;
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(op))
        products.push_back(op);
    });
    for (Operation *op : products)
      rewrite(op);
  }

private:
  /// Which dimension of the result is dimension `dim` of operand `number`; none if it is summed.
  static std::optional<int64_t> resultDim(Operation *op, unsigned number, int64_t dim) {
    if (auto dot = dyn_cast<DotGeneralOp>(op)) {
      ArrayRef<int64_t> batch = number == 0 ? dot.getLhsBatch() : dot.getRhsBatch();
      SmallVector<int64_t> free = number == 0 ? dot.getLhsFree() : dot.getRhsFree();
      int64_t before = batch.size() + (number == 0 ? 0 : dot.getLhsFree().size());
      if (auto *at = llvm::find(batch, dim); at != batch.end())
        return at - batch.begin();
      if (auto *at = llvm::find(free, dim); at != free.end())
        return before + (at - free.begin());
      return std::nullopt;
    }
    if (number == 0)
      return dim == 0 ? std::optional<int64_t>(0) : std::nullopt;
    auto transposed = dyn_cast<ConvolutionInputGradOp>(op);
    if (transposed && transposed.getGroups() > 1)
      return std::nullopt;
    return dim == (transposed ? 1 : 0) ? std::optional<int64_t>(1) : std::nullopt;
  }

  static void rewrite(Operation *op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    std::optional<Scaled> first = Scaled::of(op->getOperand(0)),
                          second = Scaled::of(op->getOperand(1));
    if (!first || !second || !type.getElementType().isF32())
      return;
    std::optional<int64_t> places[2];
    for (unsigned number : {0, 1})
      if (std::optional<int64_t> dim = (number == 0 ? first : second)->dim)
        if (!(places[number] = resultDim(op, number, *dim)))
          return;
    op->setOperands({first->whole, second->whole});
    OpBuilder builder(op->getContext());
    builder.setInsertionPointAfter(op);
    auto named = [&](Operation *made, StringRef suffix) {
      if (!getOpId(op).empty())
        setOpId(made, getOpId(op) + suffix);
      return made->getResult(0);
    };
    Location loc = op->getLoc();
    SmallPtrSet<Operation *, 2> made;
    auto lined = [&](Value factor, std::optional<int64_t> dim, StringRef suffix) {
      auto shape = dim ? SmallVector<int64_t>{type.getDimSize(*dim)} : SmallVector<int64_t>{};
      auto line = RankedTensorType::get(shape, type.getElementType());
      return factor.getType() == line
                 ? factor
                 : named(ReshapeOp::create(builder, loc, line, factor), suffix);
    };
    auto times = [&](Value value, Value factor, std::optional<int64_t> dim, StringRef suffix) {
      Type like = value.getType();
      SmallVector<int64_t> dims = dim ? SmallVector<int64_t>{*dim} : SmallVector<int64_t>{};
      if (factor.getType() != like)
        factor = named(BroadcastOp::create(builder, loc, like, factor, dims),
                       (suffix + ".broadcast").str());
      Operation *product = BinaryOp::create(builder, loc, BinaryKind::Mul, value, factor);
      made.insert(product);
      return named(product, suffix);
    };
    Value a = lined(first->factor, places[0], "/factor.0"),
          b = lined(second->factor, places[1], "/factor.1"), result = op->getResult(0);
    Value scaled;
    if (places[0] && places[1]) {
      scaled = times(times(result, a, places[0], "/scale.0"), b, places[1], "/scale");
    } else {
      // One of them is a number: the scales are multiplied first.
      bool isFirst = places[0].has_value();
      Value scale = times(isFirst ? a : b, isFirst ? b : a, std::nullopt, "/scales");
      scaled = times(result, scale, isFirst ? places[0] : places[1], "/scale");
    }
    result.replaceAllUsesExcept(scaled, made);
  }
};
} // namespace
