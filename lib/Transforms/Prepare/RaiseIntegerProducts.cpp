// SPDX-License-Identifier: Apache-2.0
// The pass autopar-raise-integer-products: a product or convolution of dequantized values is one of
// integers, and their scales multiply the sum.
#include "IntegerRange.h"

#include "autopar/Dialect/AutoPar/IR/AutoPar.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_RAISEINTEGERPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

/// Whole numbers of at most so much: differences of 8 bits.
constexpr int64_t kMost = 255;
/// Sums of i32 stay below.
constexpr int64_t kMostSum = int64_t{1} << 31;

namespace {
/// What multiplies every number of a tensor: one number, or one per place along dimension `dim`.
struct Factor {
  Value value;
  std::optional<int64_t> dim;

  static std::optional<Factor> of(Value factors) {
    if (auto constant = factors.getDefiningOp<autopar::ConstantOp>()) {
      auto numbers = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!numbers)
        return std::nullopt;
      OpBuilder builder(constant);
      auto number = numbers.resizeSplat(numbers.getType().clone(ArrayRef<int64_t>()));
      auto one = autopar::ConstantOp::create(builder, constant.getLoc(), number);
      if (!getOpId(constant).empty())
        setOpId(one, getOpId(constant) + "/one");
      return Factor{one, std::nullopt};
    }
    auto broadcast = factors.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return std::nullopt;
    std::optional<int64_t> along;
    for (auto [extent, dim] :
         llvm::zip(broadcast.getInput().getType().getShape(), broadcast.getDims())) {
      if (extent != 1 && along)
        return std::nullopt;
      along = extent != 1 ? std::optional<int64_t>(dim) : along;
    }
    return Factor{broadcast.getInput(), along};
  }
};

/// A value that is `whole`, which holds whole numbers up to `magnitude`, times a factor.
struct Scaled {
  Value whole;
  int64_t magnitude;
  Factor factor;

  static std::optional<Scaled> of(Value value) {
    auto product = value.getDefiningOp<BinaryOp>();
    if (!product || product.getKind() != BinaryKind::Mul ||
        !product.getType().getElementType().isF32())
      return std::nullopt;
    for (auto [whole, other] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())}) {
      std::optional<IntegerRange> range = integerRangeOf(whole);
      if (range && range->magnitude() <= kMost)
        if (std::optional<Factor> factor = Factor::of(other))
          return Scaled{whole, range->magnitude(), *factor};
    }
    return std::nullopt;
  }
};

struct RaiseIntegerProductsPass
    : mlir::autopar::impl::RaiseIntegerProductsPassBase<RaiseIntegerProductsPass> {
  using Base::Base;

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

  /// How many products an element of the result is a sum of, at most.
  static int64_t termsOf(Operation *op) {
    int64_t terms = 1;
    if (auto dot = dyn_cast<DotGeneralOp>(op)) {
      for (int64_t dim : dot.getLhsContract())
        terms *= dot.getLhs().getType().getDimSize(dim);
      return terms;
    }
    ArrayRef<int64_t> filter = cast<RankedTensorType>(op->getOperand(1).getType()).getShape();
    auto transposed = dyn_cast<ConvolutionInputGradOp>(op);
    return llvm::product_of(filter.drop_front(2)) *
           (transposed ? filter[0] / transposed.getGroups() : filter[1]);
  }

  /// What `whole` was before it became floats.
  static Value asIntegers(OpBuilder &builder, Value whole) {
    Operation *made = whole.getDefiningOp();
    Type i32 = builder.getI32Type();
    if (auto cast = dyn_cast<CastOp>(made); cast && isa<IntegerType>(elementOf(cast.getInput())))
      whole = cast.getInput();
    if (elementOf(whole) == i32)
      return whole;
    auto type = cast<RankedTensorType>(whole.getType()).clone(i32);
    auto integers = CastOp::create(builder, made->getLoc(), type, whole);
    if (!getOpId(made).empty())
      setOpId(integers, getOpId(made) + "/i32");
    return integers;
  }

  static Type elementOf(Value value) {
    return cast<RankedTensorType>(value.getType()).getElementType();
  }

  void rewrite(Operation *op) {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    std::optional<Scaled> first = Scaled::of(op->getOperand(0)),
                          second = Scaled::of(op->getOperand(1));
    if (!first || !second || !type.getElementType().isF32())
      return;
    std::optional<int64_t> places[2];
    for (unsigned number : {0, 1})
      if (std::optional<int64_t> dim = (number == 0 ? first : second)->factor.dim)
        if (!(places[number] = resultDim(op, number, *dim)))
          return;
    OpBuilder builder(op);
    bool isIntegers =
        target == Target::Cpu &&
        termsOf(op) < kMostSum / std::max<int64_t>(1, first->magnitude * second->magnitude);
    if (isIntegers) {
      op->setOperands({asIntegers(builder, first->whole), asIntegers(builder, second->whole)});
      op->getResult(0).setType(type.clone(builder.getI32Type()));
    } else {
      op->setOperands({first->whole, second->whole});
    }
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
    Value a = lined(first->factor.value, places[0], "/factor.0"),
          b = lined(second->factor.value, places[1], "/factor.1"), result = op->getResult(0),
          sum = result;
    if (isIntegers) {
      Operation *floats = CastOp::create(builder, loc, type, result);
      made.insert(floats);
      sum = named(floats, "/sum");
    }
    Value scaled;
    if (places[0] && places[1]) {
      scaled = times(times(sum, a, places[0], "/scale.0"), b, places[1], "/scale");
    } else {
      // One of them is a number: the scales are multiplied first.
      bool isFirst = places[0].has_value();
      Value scale = times(isFirst ? a : b, isFirst ? b : a, std::nullopt, "/scales");
      scaled = times(sum, scale, isFirst ? places[0] : places[1], "/scale");
    }
    result.replaceAllUsesExcept(scaled, made);
  }
};
} // namespace
