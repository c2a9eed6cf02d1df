// SPDX-License-Identifier: Apache-2.0
// The pass autopar-multiply-bytes: the library multiplies integers of 8 bits and sums them in 32,
// several times as fast as the same numbers as floats. What they are less, their zero points, is
// taken from the sums:
//   sum of (a - p) (b - q) = sum of a b - p (sum of b - n q) - q (sum of a), of n terms.
// All of this wraps around as the operators do, so it is exact whatever the numbers are.
#include "MadeAtLoad.h"
#include "Prepare/IntegerRange.h"
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/Passes.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_MULTIPLYBYTESPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Up to so many rows kernels make weights as they read them (autopar-reduce-few-rows).
constexpr int64_t kMostRowsOfMade = 4;
/// What bytes without a sign are more than those with one.
constexpr int64_t kSign = 128;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

bool isByte(Value value) { return typeOf(value).getElementType().isInteger(8); }

/// All numbers of 8 bits, with or without a sign.
IntegerRange bytes(bool hasSign) {
  return hasSign ? IntegerRange{-kSign, kSign - 1} : IntegerRange{0, 2 * kSign - 1};
}

/// The bytes that were widened to i32.
Value bytesOf(Value value) {
  auto cast = value.getDefiningOp<CastOp>();
  return cast && isByte(cast.getInput()) ? cast.getInput() : Value();
}

/// Integers as bytes less a zero point, which is the same along what is summed.
struct Bytes {
  Value value;
  Value zero = {};                ///< in i32; null: 0
  SmallVector<int64_t> dims = {}; ///< of `value`, along which zero points differ
};

/// Where the dimensions of an operand are in the result; those that are summed, nowhere.
using Places = SmallVector<std::optional<int64_t>>;

/// Writes one product or convolution anew.
class Writer {
public:
  explicit Writer(Operation *op) : op(op), builder(op) {}
  virtual ~Writer() = default;

  /// Nothing happens where an operand is no bytes, or something else is better.
  void write() {
    for (int side : {0, 1}) {
      std::optional<Bytes> bytes = takeApart(side);
      if (!bytes)
        return;
      sides[side] = *bytes;
    }
    if (!mayWrite())
      return;
    for (int side : {0, 1})
      layThroughViews(side);
    giveSign();
    Value sum = made(sumOfBytes(), "/bytes");
    for (int side : {0, 1})
      if (sides[side].zero)
        sum = binary(BinaryKind::Sub, sum, takenBy(side), "/less." + Twine(side));
    setOpId(sum.getDefiningOp(), getOpId(op));
    op->getResult(0).replaceAllUsesWith(sum);
    op->erase();
  }

protected:
  virtual Places placesOf(int side) = 0;
  /// Asked with both sides taken apart.
  virtual bool mayWrite() = 0;
  virtual Operation *sumOfBytes() = 0;

  Value made(Operation *made, const Twine &suffix) { return madeFrom(op, made, suffix); }
  Value cast(Value value, Type element, const Twine &suffix) {
    return made(CastOp::create(builder, op->getLoc(), typeOf(value).clone(element), value), suffix);
  }

  Operation *op;
  OpBuilder builder;
  Bytes sides[2];

private:
  Value binary(BinaryKind kind, Value a, Value b, const Twine &suffix) {
    return made(BinaryOp::create(builder, op->getLoc(), kind, a, b), suffix);
  }
  Value number(int64_t number, const Twine &suffix) {
    auto type = RankedTensorType::get({}, builder.getI32Type());
    return made(autopar::ConstantOp::create(builder, op->getLoc(),
                                            DenseElementsAttr::get(type, int32_t(number))),
                suffix);
  }
  /// Repeated into `type`, of which `dims` are its dimensions in whatever order.
  Value spread(Value value, RankedTensorType type, ArrayRef<int64_t> dims, const Twine &suffix) {
    SmallVector<int64_t> order = llvm::to_vector(llvm::seq<int64_t>(0, dims.size())), sorted(dims);
    llvm::sort(order, [&](int64_t x, int64_t y) { return dims[x] < dims[y]; });
    llvm::sort(sorted);
    if (!llvm::is_sorted(dims)) {
      SmallVector<int64_t> shape =
          llvm::map_to_vector(order, [&](int64_t dim) { return typeOf(value).getDimSize(dim); });
      value =
          made(TransposeOp::create(builder, op->getLoc(), typeOf(value).clone(shape), value, order),
               suffix + ".ordered");
    }
    return typeOf(value) == type
               ? value
               : made(BroadcastOp::create(builder, op->getLoc(), type, value, sorted), suffix);
  }

  /// An operand as bytes: what was widened and less a zero point, through views if that is one
  /// number; or whatever is known to be that small.
  std::optional<Bytes> takeApart(int side) {
    Value operand = op->getOperand(side), core = operand;
    while (auto view = core.getDefiningOp<ViewOpInterface>())
      core = view->getOperand(0);
    if (Value bytes = bytesOf(core))
      return Bytes{bytes};
    auto difference = core.getDefiningOp<BinaryOp>();
    Value widened = difference && difference.getKind() == BinaryKind::Sub
                        ? bytesOf(difference.getLhs())
                        : Value();
    if (widened)
      if (auto known = lessZero(widened, difference.getRhs(), core == operand, side))
        return known;
    std::optional<IntegerRange> range = integerRangeOf(operand);
    bool isSmall = range && (bytes(true).contains(*range) || bytes(false).contains(*range));
    return isSmall ? std::optional(Bytes{operand}) : std::nullopt;
  }

  std::optional<Bytes> lessZero(Value widened, Value zeros, bool isOperand, int side) {
    std::string suffix = "/zero." + std::to_string(side);
    if (auto constant = zeros.getDefiningOp<autopar::ConstantOp>()) {
      auto splat = dyn_cast<SplatElementsAttr>(constant.getValue());
      if (!splat)
        return std::nullopt;
      return Bytes{widened, number(splat.getSplatValue<APInt>().getSExtValue(), suffix)};
    }
    auto broadcast = zeros.getDefiningOp<BroadcastOp>();
    if (!broadcast)
      return std::nullopt;
    Value zero = broadcast.getInput();
    if (typeOf(zero).getNumElements() == 1) {
      RankedTensorType scalar = typeOf(zero).clone(ArrayRef<int64_t>());
      if (typeOf(zero) != scalar)
        zero = made(ReshapeOp::create(builder, op->getLoc(), scalar, zero), suffix);
      return Bytes{widened, zero};
    }
    Places places = placesOf(side);
    for (auto [dim, extent] : llvm::zip(broadcast.getDims(), typeOf(zero).getShape()))
      if (!isOperand || !places[dim] || typeOf(widened).getDimSize(dim) != extent)
        return std::nullopt;
    return Bytes{widened, zero, SmallVector<int64_t>(broadcast.getDims())};
  }

  /// From the bytes to what the operation reads of them.
  void layThroughViews(int side) {
    Value operand = op->getOperand(side), &value = sides[side].value;
    std::string suffix = "/bytes." + std::to_string(side);
    if (!isByte(value)) { // integers that are small enough
      bool hasSign = bytes(true).contains(*integerRangeOf(value));
      Type element = hasSign ? builder.getIntegerType(8) : builder.getIntegerType(8, false);
      value = cast(value, element, suffix);
      return;
    }
    SmallVector<Operation *> views;
    while (auto view = operand.getDefiningOp<ViewOpInterface>()) {
      views.push_back(view);
      operand = view->getOperand(0);
    }
    Type element = typeOf(value).getElementType();
    for (auto [number, view] : llvm::enumerate(llvm::reverse(views))) {
      IRMapping mapping;
      mapping.map(view->getOperand(0), value);
      Operation *copy = builder.clone(*view, mapping);
      copy->getResult(0).setType(typeOf(view->getResult(0)).clone(element));
      value = made(copy, suffix + "." + Twine(number));
    }
  }

  /// The library's right side has a sign.
  void giveSign() {
    Bytes &side = sides[1];
    if (side.zero && matchPattern(side.zero, m_Zero()))
      side.zero = {};
    if (!typeOf(side.value).getElementType().isUnsignedInteger())
      return;
    Value wide = cast(side.value, builder.getI32Type(), "/unsigned"), sign = number(kSign, "/sign");
    Value less = binary(BinaryKind::Sub, wide, spread(sign, typeOf(wide), {}, "/signs"), "/signed");
    side.value = cast(less, builder.getIntegerType(8), "/signed.bytes");
    DenseIntElementsAttr known;
    if (!side.zero)
      side.zero = number(-kSign, "/zero.signed");
    else if (matchPattern(side.zero, m_Constant(&known)))
      side.zero = number(known.getSplatValue<APInt>().getSExtValue() - kSign, "/zero.signed");
    else
      side.zero = binary(BinaryKind::Sub, side.zero,
                         spread(sign, typeOf(side.zero), {}, "/zero.signs"), "/zero.signed");
    if (matchPattern(side.zero, m_Zero()))
      side.zero = {};
  }

  /// The zero points of a side times the sums of the other one; of the right side, whose sums are
  /// made at load where they are weights, less its own zero point.
  Value takenBy(int side) {
    int other = 1 - side;
    std::string suffix = "/sums." + std::to_string(other);
    Value wide = cast(sides[other].value, builder.getI32Type(), suffix + ".wide");
    Places places = placesOf(other);
    SmallVector<int64_t> summed, left, shape;
    int64_t terms = 1;
    for (auto [dim, place] : llvm::enumerate(places)) {
      int64_t extent = typeOf(wide).getDimSize(dim);
      (place ? left : summed).push_back(dim);
      if (place)
        shape.push_back(extent);
      else
        terms *= extent;
    }
    Value sums = made(ReduceOp::create(builder, op->getLoc(), typeOf(wide).clone(shape),
                                       ReduceKind::Sum, wide, summed),
                      suffix);
    if (other == 1 && sides[1].zero) {
      SmallVector<int64_t> dims = llvm::map_to_vector(sides[1].dims, [&](int64_t dim) -> int64_t {
        return llvm::find(left, dim) - left.begin();
      });
      Value zeros = spread(sides[1].zero, typeOf(sums), dims, suffix + ".zeros"),
            count = spread(number(terms, suffix + ".terms"), typeOf(sums), {}, suffix + ".count");
      sums = binary(BinaryKind::Sub, sums, binary(BinaryKind::Mul, zeros, count, suffix + ".less"),
                    suffix + ".centred");
    }
    Value factors = inResult(sums, other, left, suffix + ".spread"),
          zeros = inResult(sides[side].zero, side, sides[side].dims, "/zeros." + Twine(side));
    return binary(BinaryKind::Mul, zeros, factors, "/taken." + Twine(side));
  }

  /// What lies along dimensions of a side, repeated as the result needs it.
  Value inResult(Value value, int side, ArrayRef<int64_t> dims, const Twine &suffix) {
    Places places = placesOf(side);
    return spread(value, typeOf(op->getResult(0)),
                  llvm::map_to_vector(dims, [&](int64_t dim) { return *places[dim]; }), suffix);
  }
};

class ProductWriter : public Writer {
public:
  explicit ProductWriter(DotGeneralOp product) : Writer(product), product(product) {}

private:
  Places placesOf(int side) override {
    Places places(typeOf(product->getOperand(side)).getRank());
    ArrayRef<int64_t> batch = side == 0 ? product.getLhsBatch() : product.getRhsBatch();
    SmallVector<int64_t> rows = product.getLhsFree(),
                         free = side == 0 ? rows : product.getRhsFree();
    int64_t next = 0;
    for (int64_t dim : batch)
      places[dim] = next++;
    next += side == 0 ? 0 : rows.size();
    for (int64_t dim : free)
      places[dim] = next++;
    return places;
  }

  /// Weights that the step makes are left to kernels that read what they are made of, if rows are
  /// few (autopar-reduce-few-rows).
  bool mayWrite() override {
    int64_t rows = 1;
    for (int64_t dim : product.getLhsFree())
      rows *= typeOf(product.getLhs()).getDimSize(dim);
    return rows > kMostRowsOfMade || isAtLoad(sides[1].value) || !product.getLhsBatch().empty();
  }

  Operation *sumOfBytes() override {
    return DotGeneralOp::create(builder, op->getLoc(), product.getType(), sides[0].value,
                                sides[1].value, product.getLhsBatch(), product.getRhsBatch(),
                                product.getLhsContract(), product.getRhsContract());
  }

  DotGeneralOp product;
};

/// The input has one zero point, with which it is padded. That of filters is 0 once they have
/// signs: what windows of the input sum up to is not made.
class ConvolutionWriter : public Writer {
public:
  explicit ConvolutionWriter(ConvolutionOp convolution)
      : Writer(convolution), convolution(convolution) {}

private:
  Places placesOf(int side) override {
    Places places(convolution.getType().getRank());
    if (side == 1)
      places[0] = 1; // channels
    return places;
  }

  bool mayWrite() override {
    auto isOne = [](int64_t step) { return step == 1; };
    auto isNegative = [](int64_t pad) { return pad < 0; };
    int64_t rank = convolution.getType().getRank();
    return rank >= 3 && rank <= 5 && llvm::all_of(convolution.getInputDilation(), isOne) &&
           llvm::none_of(convolution.getPadBegin(), isNegative) &&
           llvm::none_of(convolution.getPadEnd(), isNegative) && hasFastGroups() &&
           hasPlainFilter() && isPaddable();
  }

  /// The library has no fast code for other groups of bytes.
  bool hasFastGroups() {
    constexpr int64_t block = 16;
    int64_t groups = convolution.getGroups(),
            channels = typeOf(convolution.getInput()).getDimSize(1),
            filters = typeOf(convolution.getFilter()).getDimSize(0);
    bool isDepthwise =
        channels == groups && filters == groups && convolution.getType().getRank() == 4;
    return groups == 1 || isDepthwise ||
           (channels / groups % block == 0 && filters / groups % block == 0);
  }

  bool hasPlainFilter() {
    Value filter = sides[1].value;
    bool hasSign = isByte(filter) ? !typeOf(filter).getElementType().isUnsignedInteger()
                                  : bytes(true).contains(*integerRangeOf(filter));
    if (!sides[1].zero)
      return hasSign;
    DenseIntElementsAttr known;
    return matchPattern(sides[1].zero, m_Constant(&known)) &&
           known.getSplatValue<APInt>().getSExtValue() == (hasSign ? 0 : kSign);
  }

  bool pads() {
    auto isSome = [](int64_t pad) { return pad != 0; };
    return llvm::any_of(convolution.getPadBegin(), isSome) ||
           llvm::any_of(convolution.getPadEnd(), isSome);
  }
  /// Whether the zero point is a byte as the input's are.
  bool isPaddable() {
    if (!sides[0].zero || !pads())
      return true;
    std::optional<IntegerRange> zero = integerRangeOf(sides[0].zero);
    bool hasSign = !typeOf(sides[0].value).getElementType().isUnsignedInteger();
    return zero && bytes(hasSign).contains(*zero);
  }

  Operation *sumOfBytes() override {
    SmallVector<int64_t> padBegin(convolution.getPadBegin()), padEnd(convolution.getPadEnd());
    Value input = sides[0].value;
    if (sides[0].zero && pads()) {
      SmallVector<int64_t> low(2, 0), shape(typeOf(input).getShape());
      llvm::append_range(low, padBegin);
      for (auto [dim, pad] : llvm::enumerate(llvm::zip(padBegin, padEnd)))
        shape[dim + 2] += std::get<0>(pad) + std::get<1>(pad);
      Value border = cast(sides[0].zero, typeOf(input).getElementType(), "/border");
      input =
          made(PadOp::create(builder, op->getLoc(), typeOf(input).clone(shape), input, border, low),
               "/padded");
      padBegin.assign(padBegin.size(), 0);
      padEnd = padBegin;
    }
    return ConvolutionOp::create(builder, op->getLoc(), convolution.getType(), input,
                                 sides[1].value, convolution.getStrides(), padBegin, padEnd,
                                 convolution.getInputDilation(), convolution.getFilterDilation(),
                                 convolution.getGroups());
  }

  ConvolutionOp convolution;
};

struct MultiplyBytesPass : mlir::autopar::impl::MultiplyBytesPassBase<MultiplyBytesPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> sums;
    auto isEmpty = [](Value value) { return typeOf(value).getNumElements() == 0; };
    getOperation().walk([&](Operation *op) {
      if (isa<DotGeneralOp, ConvolutionOp>(op) &&
          typeOf(op->getResult(0)).getElementType().isSignlessInteger(32) &&
          !isEmpty(op->getResult(0)) && llvm::none_of(op->getOperands(), isEmpty))
        sums.push_back(op);
    });
    for (Operation *op : sums) {
      if (auto product = dyn_cast<DotGeneralOp>(op))
        ProductWriter(product).write();
      else
        ConvolutionWriter(cast<ConvolutionOp>(op)).write();
    }
  }
};

} // namespace
