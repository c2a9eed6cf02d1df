// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-integer-products: where the library has no products of integers, loops
// over them are many times slower than its products of f32. Sums of whole numbers are exact in f32,
// in any order, as long as none can pass 2^24: that many terms are one piece, and pieces are added
// as integers.
#include "Prepare/IntegerRange.h"
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/WholeNumbers.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDINTEGERPRODUCTSPASS
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
constexpr int64_t kMostPieces = 256;
/// Channels that the library computes together: pieces of fewer, or of no multiple, are slow.
constexpr int64_t kChannels = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

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
      lhs = channelsByPieces(pieces, groups);
      Value filter = swapped(split(rhs, 1, pieces, 1), 0, 1, "/filter.by.pieces");
      rhs = joined(filter, 0, "/filter");
      shape[1] *= pieces.count;
    }
    auto sums = ConvolutionOp::create(builder, loc, inF32(shape), lhs, rhs,
                                      convolution.getStrides(), convolution.getPadBegin(),
                                      convolution.getPadEnd(), convolution.getInputDilation(),
                                      convolution.getFilterDilation(), groups * pieces.count);
    sums->setAttr(kWholeNumbers, builder.getUnitAttr());
    finish(made(sums, "/f32"), 1, pieces.count);
  }

  /// Without groups of its own, where there is more than one piece.
  void writeTransposedConvolution(Pieces pieces) {
    auto convolution = cast<ConvolutionInputGradOp>(op);
    SmallVector<int64_t> shape(convolution.getType().getShape());
    if (pieces.count > 1) {
      lhs = padded(lhs, 1, pieces, "/padded.0");
      rhs = padded(rhs, 0, pieces, "/padded.1");
      shape[1] *= pieces.count;
    }
    Operation *sums = ConvolutionInputGradOp::create(
        builder, loc, inF32(shape), lhs, rhs, convolution.getStrides(), convolution.getPadBegin(),
        convolution.getPadEnd(), convolution.getInputDilation(), convolution.getFilterDilation(),
        convolution.getGroups() * pieces.count);
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

  Value swapped(Value value, int64_t first, int64_t second, const Twine &suffix) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(typeOf(value).getRank())),
                         shape(typeOf(value).getShape());
    std::swap(order[first], order[second]);
    std::swap(shape[first], shape[second]);
    return made(TransposeOp::create(builder, loc, typeOf(value).clone(shape), value, order),
                suffix);
  }

  /// Dimension `dim` and the one behind it as one.
  Value joined(Value value, int64_t dim, const Twine &suffix) {
    SmallVector<int64_t> shape(typeOf(value).getShape());
    shape[dim + 1] *= shape[dim];
    shape.erase(shape.begin() + dim);
    return reshaped(value, shape, suffix);
  }

  /// The input of a convolution with the channels of a piece, from all its groups, side by side.
  Value channelsByPieces(Pieces pieces, int64_t groups) {
    if (groups == 1)
      return padded(lhs, 1, pieces, "/padded.0");
    SmallVector<int64_t> shape(typeOf(lhs).getShape());
    shape[1] /= groups;
    shape.insert(shape.begin() + 1, groups);
    Value apart = split(reshaped(lhs, shape, "/groups"), 2, pieces, 0);
    Value ordered = swapped(apart, 1, 2, "/channels.by.pieces");
    return joined(joined(ordered, 1, "/groups.of.pieces"), 1, "/channels");
  }

  /// The integers of the pieces that lie one after the other along `dim`, added. Who wants floats
  /// of them has those of the only piece.
  void finish(Value sums, int64_t dim, int64_t count) {
    RankedTensorType result = typeOf(op->getResult(0));
    for (Operation *user : llvm::make_early_inc_range(op->getUsers()))
      if (count == 1 && isa<CastOp>(user) && user->getResult(0).getType() == sums.getType()) {
        user->getResult(0).replaceAllUsesWith(sums);
        user->erase();
      }
    if (op->use_empty())
      return op->erase();
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

/// Which numbers are multiplied, and as what.
struct Terms {
  Type element;      ///< of the operands as floats
  int64_t mostTerms; ///< of which no sum can pass what f32 has
};

struct ExpandIntegerProductsPass
    : mlir::autopar::impl::ExpandIntegerProductsPassBase<ExpandIntegerProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> sums;
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(op) &&
          typeOf(op->getResult(0)).getElementType().isSignlessInteger(32) &&
          !isContractionOfBytes(op))
        sums.push_back(op);
    });
    for (Operation *op : sums)
      if (std::optional<Terms> terms = termsOf(op))
        rewrite(op, *terms);
  }

private:
  std::optional<Terms> termsOf(Operation *op) {
    std::optional<IntegerRange> lhs = integerRangeOf(op->getOperand(0)),
                                rhs = integerRangeOf(op->getOperand(1));
    if (!lhs || !rhs || typeOf(op->getResult(0)).getNumElements() == 0)
      return std::nullopt;
    // The library's transposed convolutions of bf16 yield no f32.
    bool isShort = bf16 && !isa<ConvolutionInputGradOp>(op) &&
                   std::max(lhs->magnitude(), rhs->magnitude()) <= kMostShort;
    int64_t most = kMostExact / std::max<int64_t>(1, lhs->magnitude() * rhs->magnitude());
    if (most == 0)
      return std::nullopt;
    Builder builder(op->getContext());
    return Terms{isShort ? Type(builder.getBF16Type()) : Type(builder.getF32Type()), most};
  }

  void rewrite(Operation *op, Terms terms) {
    if (auto product = dyn_cast<DotGeneralOp>(op))
      return rewriteProduct(product, terms);
    ArrayRef<int64_t> filter = typeOf(op->getOperand(1)).getShape();
    int64_t window = llvm::product_of(filter.drop_front(2));
    if (auto transposed = dyn_cast<ConvolutionInputGradOp>(op)) {
      int64_t groups = transposed.getGroups();
      std::optional<Pieces> pieces =
          Pieces::of(filter[0] / groups, window, terms.mostTerms, kChannels);
      if (pieces && (pieces->count == 1 || groups == 1))
        writerOf(op, terms).writeTransposedConvolution(*pieces);
    } else if (window > terms.mostTerms) {
      rewriteHalves(cast<ConvolutionOp>(op), terms, window);
    } else if (auto pieces = Pieces::of(filter[1], window, terms.mostTerms, kChannels)) {
      writerOf(op, terms).writeConvolution(*pieces);
    }
  }

  void rewriteProduct(DotGeneralOp product, Terms terms) {
    int64_t most = terms.element.isF32() ? std::min(terms.mostTerms, kMostTerms) : terms.mostTerms;
    size_t longest = 0;
    int64_t count = 1;
    auto extentOf = [&](size_t number) {
      return typeOf(product.getLhs()).getDimSize(product.getLhsContract()[number]);
    };
    for (size_t number = 0; number < product.getLhsContract().size(); ++number) {
      count *= extentOf(number);
      longest = extentOf(number) > extentOf(longest) ? number : longest;
    }
    if (count == 0 || product.getLhsContract().empty())
      return;
    int64_t extent = extentOf(longest);
    if (std::optional<Pieces> pieces = Pieces::of(extent, count / extent, most, 1))
      writerOf(product, terms).writeProduct(*pieces, longest);
  }

  /// A window that is more than a piece: its halves along the longest dimension are windows of two
  /// convolutions.
  void rewriteHalves(ConvolutionOp op, Terms terms, int64_t window) {
    bool isSpread = llvm::any_of(op.getInputDilation(), [](int64_t step) { return step != 1; });
    if (isSpread || llvm::divideCeil(window, terms.mostTerms) > kMostPieces)
      return;
    ArrayRef<int64_t> extents = op.getFilter().getType().getShape().drop_front(2);
    int64_t along = llvm::max_element(extents) - extents.begin(), middle = extents[along] / 2;
    ConvolutionOp halves[2] = {partOfWindow(op, along, 0, middle),
                               partOfWindow(op, along, middle, extents[along])};
    OpBuilder builder(op);
    Value sum = BinaryOp::create(builder, op.getLoc(), BinaryKind::Add, halves[0], halves[1]);
    madeFrom(op, sum.getDefiningOp());
    op.replaceAllUsesWith(sum);
    op.erase();
    for (ConvolutionOp half : halves)
      rewrite(half, terms);
  }

  /// What the places from `begin` to `end` of the window add to the sums.
  ConvolutionOp partOfWindow(ConvolutionOp op, int64_t along, int64_t begin, int64_t end) {
    OpBuilder builder(op);
    std::string name = ("/window." + Twine(begin)).str();
    auto sliced = [&](Value value, int64_t from, int64_t to, StringRef what) -> Value {
      SmallVector<int64_t> shape(typeOf(value).getShape()), starts(shape.size(), 0),
          steps(shape.size(), 1);
      if (from == 0 && to == shape[along + 2])
        return value;
      shape[along + 2] = to - from;
      starts[along + 2] = from;
      return madeFrom(
          op,
          SliceOp::create(builder, op.getLoc(), typeOf(value).clone(shape), value, starts, steps),
          name + what);
    };
    SmallVector<int64_t> padBegin(op.getPadBegin()), padEnd(op.getPadEnd());
    int64_t extent = op.getInput().getType().getDimSize(along + 2),
            dilation = op.getFilterDilation()[along];
    padBegin[along] -= begin * dilation;
    padEnd[along] -= (op.getFilter().getType().getDimSize(along + 2) - end) * dilation;
    // The library's padding is at least 0: what lies beyond is cut off.
    Value input = sliced(op.getInput(), std::max<int64_t>(0, -padBegin[along]),
                         extent - std::max<int64_t>(0, -padEnd[along]), "/input"),
          filter = sliced(op.getFilter(), begin, end, "/filter");
    padBegin[along] = std::max<int64_t>(0, padBegin[along]);
    padEnd[along] = std::max<int64_t>(0, padEnd[along]);
    auto part = ConvolutionOp::create(builder, op.getLoc(), op.getType(), input, filter,
                                      op.getStrides(), padBegin, padEnd, op.getInputDilation(),
                                      op.getFilterDilation(), op.getGroups());
    madeFrom(op, part, name);
    return part;
  }

  Writer writerOf(Operation *op, Terms terms) {
    return {op, asFloats(op->getOperand(0), terms.element),
            asFloats(op->getOperand(1), terms.element)};
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
