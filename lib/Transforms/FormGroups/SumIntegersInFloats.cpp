// SPDX-License-Identifier: Apache-2.0
// The pass autopar-sum-integers-in-floats: the library has no products of integers, and loops over
// them are many times slower than its products of f32. Sums of whole numbers are exact in f32, in
// any order, as long as none can pass 2^24: that many terms are one piece, and pieces are added as
// integers.
#include "MadeFrom.h"

#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/WholeNumbers.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_SUMINTEGERSINFLOATSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Up to here f32 has every whole number.
constexpr int64_t kMostExact = 1 << 24;
/// And bf16, whose products are summed in f32.
constexpr int64_t kMostShort = 1 << 8;
/// Terms of a product of f32 that the runtime never computes in quarters
/// (docs/rationale/OwnProducts.md), whose sums are several times as large.
constexpr int64_t kMostTerms = 512;
/// Beyond that many pieces, adding them up is what takes the time.
constexpr int64_t kMostPieces = 64;
/// Channels that the library computes together: pieces of fewer, or of no multiple, are slow.
constexpr int64_t kChannels = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// The whole numbers from `least` to `most`.
struct Range {
  int64_t least, most;

  bool contains(Range other) const { return least <= other.least && other.most <= most; }
  int64_t magnitude() const { return std::max(-least, most); }

  static std::optional<Range> ofType(Type element) {
    auto integer = dyn_cast<IntegerType>(element);
    if (!integer || integer.getWidth() == 1 || integer.getWidth() > 32)
      return std::nullopt;
    int64_t count = int64_t{1} << integer.getWidth();
    return integer.isUnsigned() ? Range{0, count - 1} : Range{-count / 2, count / 2 - 1};
  }
};

std::optional<Range> rangeOf(Value value);

std::optional<Range> rangeOfConstant(ConstantOp op) {
  auto numbers = dyn_cast<DenseIntElementsAttr>(op.getValue());
  if (!numbers || numbers.empty())
    return std::nullopt;
  bool isUnsigned = numbers.getElementType().isUnsignedInteger();
  auto numberOf = [&](const APInt &number) {
    return isUnsigned ? static_cast<int64_t>(number.getZExtValue()) : number.getSExtValue();
  };
  if (numbers.isSplat()) {
    int64_t number = numberOf(numbers.getSplatValue<APInt>());
    return Range{number, number};
  }
  Range range{INT64_MAX, INT64_MIN};
  for (const APInt &number : numbers.getValues<APInt>()) {
    range.least = std::min(range.least, numberOf(number));
    range.most = std::max(range.most, numberOf(number));
  }
  return range;
}

/// What an operation makes of ranges, were its type wide enough.
std::optional<Range> rangeOfResult(Operation *op) {
  if (auto constant = dyn_cast<ConstantOp>(op))
    return rangeOfConstant(constant);
  if (!isa<CastOp, BinaryOp, ViewOpInterface, BroadcastOp, PadOp>(op))
    return std::nullopt;
  SmallVector<Range> ranges;
  for (Value operand : op->getOperands()) {
    std::optional<Range> range = rangeOf(operand);
    if (!range)
      return std::nullopt;
    ranges.push_back(*range);
  }
  Range a = ranges.front(), b = ranges.back();
  if (isa<PadOp>(op))
    return Range{std::min(a.least, b.least), std::max(a.most, b.most)};
  auto binary = dyn_cast<BinaryOp>(op);
  if (!binary)
    return a;
  switch (binary.getKind()) {
  case BinaryKind::Add:
    return Range{a.least + b.least, a.most + b.most};
  case BinaryKind::Sub:
    return Range{a.least - b.most, a.most - b.least};
  case BinaryKind::Max:
    return Range{std::max(a.least, b.least), std::max(a.most, b.most)};
  case BinaryKind::Min:
    return Range{std::min(a.least, b.least), std::min(a.most, b.most)};
  default:
    return std::nullopt;
  }
}

/// Which whole numbers a value of integers may hold: at most those of its type.
std::optional<Range> rangeOf(Value value) {
  std::optional<Range> all = Range::ofType(typeOf(value).getElementType());
  if (Operation *op = value.getDefiningOp(); op && all)
    if (std::optional<Range> range = rangeOfResult(op); range && all->contains(*range))
      return range;
  return all;
}

/// How what is summed is cut: `count` pieces of `size` along one dimension, together as long as
/// that or longer.
struct Pieces {
  int64_t count, size;

  /// `window` terms are summed for each place along a dimension of that extent, of which at most
  /// `most` may be; sizes are multiples of `unit` if possible.
  static std::optional<Pieces> of(int64_t extent, int64_t window, int64_t most, int64_t unit) {
    int64_t largest = window > 0 ? most / window : 0;
    if (largest == 0 || extent == 0)
      return std::nullopt;
    if (extent <= largest)
      return Pieces{1, extent};
    largest = largest >= unit ? largest / unit * unit : largest;
    unit = std::min(unit, largest);
    if (llvm::divideCeil(extent, largest) > kMostPieces)
      return std::nullopt;
    // Rather some pieces more than numbers behind the last.
    for (int64_t size = largest; 2 * size > largest; size -= unit)
      if (extent % size == 0)
        return Pieces{extent / size, size};
    int64_t count = llvm::divideCeil(extent, largest);
    return Pieces{count, static_cast<int64_t>(
                             llvm::alignTo(llvm::divideCeil(extent, count), uint64_t(unit)))};
  }
};

/// Writes one product or convolution anew.
class Writer {
public:
  Writer(Operation *op, Value lhs, Value rhs)
      : op(op), builder(op), loc(op->getLoc()), lhs(lhs), rhs(rhs) {}

  void writeProduct(Pieces pieces, size_t contraction) {
    auto product = cast<DotGeneralOp>(op);
    SmallVector<int64_t> batch[2] = {SmallVector<int64_t>(product.getLhsBatch()),
                                     SmallVector<int64_t>(product.getRhsBatch())},
                         contract[2] = {SmallVector<int64_t>(product.getLhsContract()),
                                        SmallVector<int64_t>(product.getRhsContract())};
    SmallVector<int64_t> shape(typeOf(op->getResult(0)).getShape());
    if (pieces.count > 1) {
      for (int side : {0, 1}) {
        int64_t cut = contract[side][contraction];
        Value &operand = side == 0 ? lhs : rhs;
        operand = split(operand, cut, pieces, side);
        for (int64_t &dim : batch[side])
          dim += dim > cut;
        for (int64_t &dim : contract[side])
          dim += dim >= cut;
        batch[side].insert(batch[side].begin(), cut);
      }
      shape.insert(shape.begin(), pieces.count);
    }
    finish(made(DotGeneralOp::create(builder, loc, inF32(shape), lhs, rhs, batch[0], batch[1],
                                     contract[0], contract[1]),
                "/f32"),
           0, pieces.count);
  }

  /// Pieces are groups of channels, and the results of each are channels of the result.
  void writeConvolution(Pieces pieces) {
    auto convolution = cast<ConvolutionOp>(op);
    SmallVector<int64_t> shape(convolution.getType().getShape());
    int64_t groups = convolution.getGroups();
    if (pieces.count > 1) {
      lhs = padded(lhs, 1, pieces, "/padded.0");
      Value apart = split(rhs, 1, pieces, 1);
      SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(typeOf(apart).getRank())),
                           filter(typeOf(apart).getShape());
      std::swap(order[0], order[1]);
      std::swap(filter[0], filter[1]);
      Value ordered =
          made(TransposeOp::create(builder, loc, typeOf(apart).clone(filter), apart, order),
               "/filter.by.pieces");
      filter[1] *= filter[0];
      rhs = reshaped(ordered, ArrayRef(filter).drop_front(), "/filter");
      groups = pieces.count;
      shape[1] *= pieces.count;
    }
    auto sums = ConvolutionOp::create(builder, loc, inF32(shape), lhs, rhs,
                                      convolution.getStrides(), convolution.getPadBegin(),
                                      convolution.getPadEnd(), convolution.getInputDilation(),
                                      convolution.getFilterDilation(), groups);
    sums->setAttr(kWholeNumbers, builder.getUnitAttr());
    finish(made(sums, "/f32"), 1, pieces.count);
  }

private:
  Value made(Operation *made, const Twine &suffix) { return madeFrom(op, made, suffix); }

  RankedTensorType inF32(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getF32Type());
  }

  Value reshaped(Value value, ArrayRef<int64_t> shape, const Twine &suffix) {
    if (typeOf(value).getShape() == shape)
      return value;
    return made(ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value), suffix);
  }

  /// Zeros add nothing to sums.
  Value padded(Value value, int64_t dim, Pieces pieces, const Twine &suffix) {
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] = pieces.count * pieces.size;
    if (shape[dim] == type.getDimSize(dim))
      return value;
    Attribute number = builder.getZeroAttr(type.getElementType());
    auto zero = DenseElementsAttr::get(RankedTensorType::get({}, type.getElementType()), number);
    Value border = made(ConstantOp::create(builder, loc, zero), suffix + ".zero");
    SmallVector<int64_t> low(type.getRank(), 0);
    return made(PadOp::create(builder, loc, type.clone(shape), value, border, low), suffix);
  }

  /// Operand `number` as [.., pieces, size, ..].
  Value split(Value value, int64_t dim, Pieces pieces, int number) {
    value = padded(value, dim, pieces, "/padded." + Twine(number));
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[dim] = pieces.size;
    shape.insert(shape.begin() + dim, pieces.count);
    return reshaped(value, shape, "/pieces." + Twine(number));
  }

  /// The integers of the pieces that lie one after the other along `dim`, added.
  void finish(Value sums, int64_t dim, int64_t count) {
    RankedTensorType result = typeOf(op->getResult(0));
    Value total;
    for (int64_t piece = 0; piece < count; ++piece) {
      Value sum = count == 1 ? sums : pieceOf(sums, dim, piece, count);
      sum = reshaped(sum, result.getShape(), "/piece." + Twine(piece));
      Value whole = made(CastOp::create(builder, loc, result, sum), "/whole." + Twine(piece));
      total = total ? made(BinaryOp::create(builder, loc, BinaryKind::Add, total, whole),
                           "/sum." + Twine(piece))
                    : whole;
    }
    setOpId(total.getDefiningOp(), getOpId(op));
    op->getResult(0).replaceAllUsesWith(total);
    op->erase();
  }

  Value pieceOf(Value sums, int64_t dim, int64_t piece, int64_t count) {
    SmallVector<int64_t> shape(typeOf(sums).getShape()), starts(shape.size(), 0),
        steps(shape.size(), 1);
    shape[dim] /= count;
    starts[dim] = piece * shape[dim];
    return made(SliceOp::create(builder, loc, inF32(shape), sums, starts, steps),
                "/slice." + Twine(piece));
  }

  Operation *op;
  OpBuilder builder;
  Location loc;
  Value lhs, rhs;
};

struct SumIntegersInFloatsPass
    : mlir::autopar::impl::SumIntegersInFloatsPassBase<SumIntegersInFloatsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> sums;
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp>(op) &&
          typeOf(op->getResult(0)).getElementType().isSignlessInteger(32))
        sums.push_back(op);
    });
    for (Operation *op : sums)
      rewrite(op);
  }

private:
  void rewrite(Operation *op) {
    std::optional<Range> lhs = rangeOf(op->getOperand(0)), rhs = rangeOf(op->getOperand(1));
    if (!lhs || !rhs || typeOf(op->getResult(0)).getNumElements() == 0)
      return;
    Builder builder(op->getContext());
    bool isShort = bf16 && std::max(lhs->magnitude(), rhs->magnitude()) <= kMostShort;
    Type element = isShort ? Type(builder.getBF16Type()) : Type(builder.getF32Type());
    int64_t most = kMostExact / std::max<int64_t>(1, lhs->magnitude() * rhs->magnitude());
    if (auto product = dyn_cast<DotGeneralOp>(op)) {
      most = isShort ? most : std::min(most, kMostTerms);
      size_t longest = 0;
      int64_t terms = 1;
      auto extentOf = [&](size_t number) {
        return typeOf(product.getLhs()).getDimSize(product.getLhsContract()[number]);
      };
      for (size_t number = 0; number < product.getLhsContract().size(); ++number) {
        terms *= extentOf(number);
        longest = extentOf(number) > extentOf(longest) ? number : longest;
      }
      if (terms == 0 || product.getLhsContract().empty())
        return;
      int64_t extent = extentOf(longest);
      if (std::optional<Pieces> pieces = Pieces::of(extent, terms / extent, most, 1))
        writerOf(op, element).writeProduct(*pieces, longest);
      return;
    }
    ArrayRef<int64_t> filter = typeOf(op->getOperand(1)).getShape();
    int64_t window = llvm::product_of(filter.drop_front(2));
    std::optional<Pieces> pieces = Pieces::of(filter[1], window, most, kChannels);
    if (pieces && (pieces->count == 1 || cast<ConvolutionOp>(op).getGroups() == 1))
      writerOf(op, element).writeConvolution(*pieces);
  }

  Writer writerOf(Operation *op, Type element) {
    return {op, asFloats(op->getOperand(0), element), asFloats(op->getOperand(1), element)};
  }

  /// Made once for all that read it.
  Value asFloats(Value value, Type element) {
    Value &known = floats[{value, element}];
    if (known)
      return known;
    OpBuilder builder(value.getContext());
    builder.setInsertionPointAfterValue(value);
    auto made = CastOp::create(builder, value.getLoc(), typeOf(value).clone(element), value);
    if (Operation *op = value.getDefiningOp())
      madeFrom(op, made, element.isBF16() ? "/bf16" : "/f32");
    return known = made;
  }

  DenseMap<std::pair<Value, Type>, Value> floats;
};

} // namespace
