// SPDX-License-Identifier: Apache-2.0
// The pass autopar-round-in-blocks: products whose left side may be rounded to 8 bits in blocks
// (byte_blocks). Every one of them is, so that all plans compute the same; where there is a kernel
// for the weights bytes are multiplied, and scales and zero points follow per block:
//   sum of (s a) (t (b - z)) = s t (sum of a b - z (sum of a)), a and b whole numbers.
#include "MadeFrom.h"

#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/ByteSums.h"
#include "autopar/Transforms/FewRows.h"
#include "autopar/Transforms/Passes.h"

#include "mlir/IR/Matchers.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_ROUNDINBLOCKSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// The largest magnitude of a block becomes this.
constexpr float kSteps = 127;
/// Below this many weights a call is as fast as a kernel.
constexpr int64_t kLeastWeights = 4096;

/// Whether each element of `value` is this whole number.
bool isAll(Value value, int64_t number) {
  if (auto broadcast = value.getDefiningOp<BroadcastOp>())
    value = broadcast.getInput();
  DenseElementsAttr elements;
  return matchPattern(value, m_Constant(&elements)) && elements.isSplat() &&
         elements.getSplatValue<APInt>() == number;
}

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// A left side [rows, blocks, block] as whole numbers.
struct Rounded {
  Value bytes;  ///< i8 [rows, parts, blocks, block / parts]: first that of each byte's first number
  Value scales; ///< f32 [rows, blocks]
  Value sums;   ///< of bytes, f32 [rows, blocks]
  Value floats; ///< what bytes and scales stand for, as the product reads it; null before
};

/// Weights [columns, blocks, block] as whole numbers that few bytes are made of.
struct Weights {
  Value numbers; ///< of 8 bits without a sign, [columns, blocks, block / parts, parts]
  Value zeros;   ///< f32 [columns, blocks], or one for all; null: none
  Value scales;  ///< f32 [columns, blocks], or one for all
  int64_t parts() const { return typeOf(numbers).getShape().back(); }
};

class Writer {
public:
  explicit Writer(DotGeneralOp product)
      : product(product), builder(product), loc(product.getLoc()), block(*product.getByteBlocks()) {
  }

  int64_t rows() { return typeOf(product.getLhs()).getNumElements() / (blocks() * block); }
  int64_t columns() {
    int64_t columns = 1;
    for (int64_t dim : product.getRhsFree())
      columns *= typeOf(product.getRhs()).getDimSize(dim);
    return columns;
  }
  int64_t blocks() {
    return typeOf(product.getLhs()).getDimSize(product.getLhsContract().front()) / block;
  }

  std::optional<Weights> weights();
  Rounded round(int64_t parts);
  /// The left side of rounded numbers, as the product reads it.
  Value roundedLhs(const Rounded &rounded);
  void multiplyBytes(const Rounded &lhs, const Weights &rhs);
  /// The bytes that hold the weights, as the kernel for many rows takes them; null if there is
  /// none.
  Value bytesOf(const Weights &weights);
  /// The same by that kernel.
  void multiplyInTiles(const Rounded &lhs, const Weights &rhs, Value bytes);

private:
  Value made(Operation *op, const Twine &suffix) { return madeFrom(product, op, suffix); }
  Value binary(BinaryKind kind, Value a, Value b, const Twine &suffix) {
    return made(BinaryOp::create(builder, loc, kind, a, b), suffix);
  }
  Value unary(UnaryKind kind, Value value, const Twine &suffix) {
    return made(UnaryOp::create(builder, loc, kind, value), suffix);
  }
  Value cast(Value value, Type element, const Twine &suffix) {
    return made(CastOp::create(builder, loc, typeOf(value).clone(element), value), suffix);
  }
  Value reshaped(Value value, ArrayRef<int64_t> shape, const Twine &suffix) {
    if (typeOf(value).getShape() == shape)
      return value;
    return made(ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value), suffix);
  }
  Value transposed(Value value, ArrayRef<int64_t> order, const Twine &suffix) {
    if (llvm::is_sorted(order))
      return value;
    return made(TransposeOp::create(builder, loc, value, order), suffix);
  }
  Value repeated(Value value, ArrayRef<int64_t> shape, ArrayRef<int64_t> dims,
                 const Twine &suffix) {
    return made(BroadcastOp::create(builder, loc, typeOf(value).clone(shape), value, dims), suffix);
  }
  Value reduced(ReduceKind kind, Value value, ArrayRef<int64_t> dims, const Twine &suffix) {
    SmallVector<int64_t> kept;
    for (auto [dim, extent] : llvm::enumerate(typeOf(value).getShape()))
      if (!llvm::is_contained(dims, static_cast<int64_t>(dim)))
        kept.push_back(extent);
    return made(ReduceOp::create(builder, loc, typeOf(value).clone(kept), kind, value, dims),
                suffix);
  }
  Value number(float number, Value like, const Twine &suffix) {
    return made(
        ConstantOp::create(builder, loc,
                           DenseElementsAttr::get(typeOf(like), builder.getF32FloatAttr(number))),
        suffix);
  }
  SmallVector<int64_t> lhsOrder() {
    SmallVector<int64_t> order(product.getLhsBatch());
    llvm::append_range(order, product.getLhsFree());
    order.push_back(product.getLhsContract().front());
    return order;
  }
  Value perBlock(Value value, ArrayRef<int64_t> shape);
  Value inLanes(Value perBlock, const Twine &suffix);
  Value zerosInLanes(const Weights &weights);
  void replaceProduct(Value result);

  DotGeneralOp product;
  OpBuilder builder;
  Location loc;
  int64_t block;
};

/// What is repeated along each block, [columns, blocks] or one number; null if `value` of `shape`
/// is nothing of that kind.
Value Writer::perBlock(Value value, ArrayRef<int64_t> shape) {
  auto broadcast = value.getDefiningOp<BroadcastOp>();
  if (!broadcast)
    return {};
  int64_t matrix[] = {columns(), blocks()};
  if (broadcast.getDims().empty())
    return broadcast.getInput();
  if (broadcast.getInput().getType().getShape() != shape.drop_back() ||
      !llvm::equal(broadcast.getDims(), llvm::seq<int64_t>(0, shape.size() - 1)))
    return {};
  return reshaped(broadcast.getInput(), matrix, "/per.block");
}

/// (numbers - zero points) * scales in blocks, which the product alone reads.
std::optional<Weights> Writer::weights() {
  Value value = product.getRhs();
  RankedTensorType type = typeOf(value);
  if (product.getRhsContract().front() != type.getRank() - 1 || !product.getRhsBatch().empty() ||
      !value.hasOneUse())
    return std::nullopt;
  SmallVector<int64_t> shape(type.getShape().drop_back());
  shape.append({blocks(), block});
  if (auto reshape = value.getDefiningOp<ReshapeOp>())
    value = reshape.getInput();
  auto scaled = value.getDefiningOp<BinaryOp>();
  if (!scaled || scaled.getKind() != BinaryKind::Mul || !scaled->hasOneUse() ||
      typeOf(value).getShape() != ArrayRef<int64_t>(shape))
    return std::nullopt;
  Value whole = scaled.getLhs(), zeros;
  auto difference = whole.getDefiningOp<BinaryOp>();
  if (difference && difference.getKind() == BinaryKind::Sub && difference->hasOneUse()) {
    whole = difference.getLhs();
    zeros = difference.getRhs();
  }
  auto widened = whole.getDefiningOp<CastOp>();
  if (!widened || !widened->hasOneUse() ||
      !typeOf(widened.getInput()).getElementType().isUnsignedInteger(8))
    return std::nullopt;
  // Several numbers of one byte lie side by side.
  Value numbers = widened.getInput();
  auto apart = numbers.getDefiningOp<ReshapeOp>();
  ArrayRef<int64_t> packed = apart ? typeOf(apart.getInput()).getShape() : ArrayRef<int64_t>();
  bool isPacked =
      packed.size() == shape.size() + 1 && packed.drop_back(2) == ArrayRef(shape).drop_back();
  int64_t parts = isPacked ? packed.back() : 1;
  if (!ByteVectors::of(blocks(), block / parts))
    return std::nullopt;
  Weights weights;
  weights.scales = perBlock(scaled.getRhs(), shape);
  weights.zeros = zeros ? perBlock(zeros, shape) : Value();
  if (!weights.scales || (zeros && !weights.zeros))
    return std::nullopt;
  weights.numbers = reshaped(isPacked ? apart.getInput() : numbers,
                             {columns(), blocks(), block / parts, parts}, "/numbers");
  return weights;
}

/// Blocks of f32 are divided by 1/127 of their largest magnitude and rounded, as onnxruntime does
/// it.
Rounded Writer::round(int64_t parts) {
  int64_t shape[] = {rows(), blocks(), block / parts, parts};
  Value blocked =
      reshaped(transposed(product.getLhs(), lhsOrder(), "/rows"), shape, "/rows.in.blocks");
  blocked = transposed(blocked, {0, 3, 1, 2}, "/rows.in.parts");
  SmallVector<int64_t> all(typeOf(blocked).getShape());
  Value largest =
      reduced(ReduceKind::Max, unary(UnaryKind::Abs, blocked, "/sizes"), {1, 3}, "/largest");
  Value steps = number(kSteps, largest, "/steps"), none = number(0, largest, "/none");
  Rounded rounded;
  rounded.scales = binary(BinaryKind::Div, largest, steps, "/scales");
  RankedTensorType isType = typeOf(largest).clone(builder.getI1Type());
  Value isNone = made(CompareOp::create(builder, loc, isType, ComparePredicate::Eq, largest, none),
                      "/is.none");
  Value factors = binary(BinaryKind::Div, steps, largest, "/inverse");
  factors =
      made(SelectOp::create(builder, loc, typeOf(largest), isNone, none, factors), "/factors");
  Value scaled =
      binary(BinaryKind::Mul, blocked, repeated(factors, all, {0, 2}, "/factors.all"), "/scaled");
  Value whole = unary(UnaryKind::Round, scaled, "/whole");
  rounded.bytes = cast(whole, builder.getI8Type(), "/bytes");
  Value wide = cast(rounded.bytes, builder.getI32Type(), "/wide");
  rounded.sums =
      cast(reduced(ReduceKind::Sum, wide, {1, 3}, "/bytes.sum"), builder.getF32Type(), "/sums");
  return rounded;
}

Value Writer::roundedLhs(const Rounded &rounded) {
  RankedTensorType type = typeOf(product.getLhs());
  SmallVector<int64_t> order = lhsOrder(), shape, back(order.size());
  for (auto [now, before] : llvm::enumerate(order)) {
    shape.push_back(type.getDimSize(before));
    back[before] = static_cast<int64_t>(now);
  }
  Value wide = cast(rounded.bytes, builder.getF32Type(), "/rounded");
  Value scales = repeated(rounded.scales, typeOf(wide).getShape(), {0, 2}, "/rounded.scales");
  Value value = binary(BinaryKind::Mul, wide, scales, "/rounded.rows");
  return transposed(reshaped(value, shape, "/rounded.shape"), back, "/rounded.lhs");
}

/// [rows, columns, parts, blocks, bytes], of which parts and bytes are summed as integers.
void Writer::multiplyBytes(const Rounded &lhs, const Weights &rhs) {
  int64_t parts = rhs.parts();
  int64_t all[] = {rows(), columns(), parts, blocks(), block / parts};
  int64_t sums[] = {rows(), columns(), blocks()};
  auto wide = [&](Value bytes, ArrayRef<int64_t> dims, const Twine &suffix) {
    return cast(repeated(bytes, all, dims, suffix + ".repeated"), builder.getI32Type(),
                suffix + ".wide");
  };
  Value numbers = transposed(rhs.numbers, {0, 3, 1, 2}, "/weights.in.parts");
  Value terms = binary(BinaryKind::Mul, wide(lhs.bytes, {0, 2, 3, 4}, "/rows"),
                       wide(numbers, {1, 2, 3, 4}, "/weights"), "/terms");
  Value sum = reduced(ReduceKind::Sum, terms, {2, 4}, "/byte.sums");
  sum.getDefiningOp()->setAttr(kByteSum, builder.getUnitAttr());
  sum = cast(sum, builder.getF32Type(), "/block.sums");
  auto ofRows = [&](Value value, const Twine &suffix) {
    return repeated(value, sums, {0, 2}, suffix);
  };
  auto ofColumns = [&](Value value, const Twine &suffix) {
    bool isSingle = typeOf(value).getRank() == 0;
    return repeated(value, sums, isSingle ? ArrayRef<int64_t>() : ArrayRef<int64_t>{1, 2}, suffix);
  };
  if (rhs.zeros)
    sum = binary(BinaryKind::Sub, sum,
                 binary(BinaryKind::Mul, ofRows(lhs.sums, "/rows.sums"),
                        ofColumns(rhs.zeros, "/zeros"), "/zero.sums"),
                 "/less.zeros");
  Value scales = binary(BinaryKind::Mul, ofRows(lhs.scales, "/rows.scales"),
                        ofColumns(rhs.scales, "/weights.scales"), "/scales.of.both");
  Value result =
      reduced(ReduceKind::Sum, binary(BinaryKind::Mul, sum, scales, "/of.blocks"), {2}, "");
  result.getDefiningOp()->setAttr(kFewRows, builder.getUnitAttr());
  replaceProduct(result);
}

//===-- many rows ----------------------------------------------------------------------------===//

/// What `parts` numbers of fewer bits are made of that lie in each byte, the lowest bits first;
/// null if `numbers`, which may be in another shape, are made in another way.
static Value packedIn(Value numbers, int64_t parts) {
  int64_t bits = 8 / parts;
  while (auto reshape = numbers.getDefiningOp<ReshapeOp>())
    numbers = reshape.getInput();
  auto masked = numbers.getDefiningOp<BinaryOp>();
  if (!masked || masked.getKind() != BinaryKind::And || !isAll(masked.getRhs(), (1 << bits) - 1))
    return {};
  auto shifted = masked.getLhs().getDefiningOp<BinaryOp>();
  if (!shifted || shifted.getKind() != BinaryKind::ShiftRight)
    return {};
  auto bytes = shifted.getLhs().getDefiningOp<BroadcastOp>(),
       starts = shifted.getRhs().getDefiningOp<BroadcastOp>();
  int64_t last = typeOf(numbers).getRank() - 1;
  if (!bytes || !llvm::equal(bytes.getDims(), llvm::seq<int64_t>(0, last)) || !starts ||
      starts.getDims() != ArrayRef<int64_t>{last})
    return {};
  DenseElementsAttr places;
  if (!matchPattern(starts.getInput(), m_Constant(&places)) || places.getNumElements() != parts)
    return {};
  for (auto [part, start] : llvm::enumerate(places.getValues<APInt>()))
    if (start != part * bits)
      return {};
  return bytes.getInput();
}

/// [columns, blocks, block / parts].
Value Writer::bytesOf(const Weights &weights) {
  ArrayRef<int64_t> shape = typeOf(weights.numbers).getShape().drop_back();
  if (!BlockDotOp::isPossible(columns(), blocks(), shape.back(), weights.parts()))
    return {};
  Value bytes = weights.parts() == 1 ? weights.numbers : packedIn(weights.numbers, weights.parts());
  return bytes ? reshaped(bytes, shape, "/weights.bytes") : Value();
}

/// What is given per column and block, as [columns / 16, blocks, 16], laid out at load where it is
/// known there; one number stays one.
Value Writer::inLanes(Value perBlock, const Twine &suffix) {
  constexpr int64_t lanes = BlockDotOp::columnLanes;
  if (typeOf(perBlock).getRank() == 0)
    return perBlock;
  int64_t shape[] = {columns() / lanes, lanes, typeOf(perBlock).getDimSize(1)};
  Value laidOut = transposed(reshaped(perBlock, shape, suffix + ".columns"), {0, 2, 1}, suffix);
  laidOut.getDefiningOp()->setAttr(kLaidOut, builder.getUnitAttr());
  return laidOut;
}

/// Zero points as the bytes that they are made of: with several in each where rows of them are
/// whole bytes.
Value Writer::zerosInLanes(const Weights &weights) {
  Value zeros = weights.zeros;
  while (auto reshape = zeros.getDefiningOp<ReshapeOp>())
    zeros = reshape.getInput();
  auto widened = zeros.getDefiningOp<CastOp>();
  if (!widened || !typeOf(widened.getInput()).getElementType().isUnsignedInteger(8))
    return inLanes(weights.zeros, "/zeros.in.lanes");
  Value bytes = widened.getInput();
  if (typeOf(bytes).getRank() == 0)
    return bytes;
  int64_t parts = weights.parts();
  Value packed = parts > 1 ? packedIn(bytes, parts) : Value();
  if (packed && typeOf(packed).getNumElements() * parts == columns() * blocks())
    bytes = reshaped(packed, {columns(), blocks() / parts}, "/zeros.packed");
  else
    bytes = reshaped(bytes, {columns(), blocks()}, "/zeros.bytes");
  return inLanes(bytes, "/zeros.in.lanes");
}

void Writer::multiplyInTiles(const Rounded &lhs, const Weights &rhs, Value bytes) {
  Value scales = inLanes(rhs.scales, "/scales.in.lanes"), zeros;
  if (typeOf(scales).getRank() == 0)
    scales =
        repeated(scales, {columns() / BlockDotOp::columnLanes, blocks(), BlockDotOp::columnLanes},
                 {}, "/scales.in.lanes");
  if (rhs.zeros)
    zeros = zerosInLanes(rhs);
  auto type = RankedTensorType::get({rows(), columns()}, builder.getF32Type());
  replaceProduct(made(BlockDotOp::create(builder, loc, type, lhs.bytes, lhs.scales, bytes, scales,
                                         zeros, zeros ? lhs.sums : Value()),
                      ""));
}

void Writer::replaceProduct(Value result) {
  result = reshaped(result, product.getType().getShape(), "/reshape");
  product.getResult().replaceAllUsesWith(result);
  SmallVector<Operation *> unread{product};
  while (!unread.empty()) {
    Operation *op = unread.pop_back_val();
    if (!op->use_empty() || !isMemoryEffectFree(op))
      continue;
    SetVector<Operation *> makers;
    for (Value operand : op->getOperands())
      if (Operation *maker = operand.getDefiningOp())
        makers.insert(maker);
    op->erase();
    llvm::append_range(unread, makers);
  }
}

struct RoundInBlocksPass : mlir::autopar::impl::RoundInBlocksPassBase<RoundInBlocksPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) {
      if (op.getByteBlocks() && typeOf(op.getLhs()).getElementType().isF32() &&
          op.getType().getNumElements() != 0 && typeOf(op.getLhs()).getNumElements() != 0)
        products.push_back(op);
    });
    for (DotGeneralOp product : products)
      rewrite(product);
  }

private:
  /// Of products that read one value alike and share what it is rounded to.
  static Attribute formOf(DotGeneralOp product, int64_t parts) {
    Builder builder(product.getContext());
    NamedAttrList form(product->getDiscardableAttrDictionary());
    form.erase("autopar.id");
    form.set("block", product.getByteBlocksAttr());
    form.set("parts", builder.getI64IntegerAttr(parts));
    form.set("contract", builder.getDenseI64ArrayAttr(product.getLhsContract()));
    return form.getDictionary(product.getContext());
  }

  void rewrite(DotGeneralOp product) {
    Writer writer(product);
    std::optional<Weights> weights;
    if (product.getLhsBatch().empty() && typeOf(product.getRhs()).getNumElements() >= kLeastWeights)
      weights = writer.weights();
    bool areFew = writer.rows() <= rows;
    Value bytes = weights && !areFew ? writer.bytesOf(*weights) : Value();
    if (!areFew && !bytes)
      weights.reset();
    int64_t parts = weights ? weights->parts() : 1;
    Rounded &lhs = known[{product.getLhs(), formOf(product, parts)}];
    if (!lhs.bytes)
      lhs = writer.round(parts);
    if (weights && areFew)
      return writer.multiplyBytes(lhs, *weights);
    if (weights)
      return writer.multiplyInTiles(lhs, *weights, bytes);
    if (!lhs.floats)
      lhs.floats = writer.roundedLhs(lhs);
    product.getLhsMutable().assign(lhs.floats);
    product.removeByteBlocksAttr();
  }

  DenseMap<std::pair<Value, Attribute>, Rounded> known;
};

} // namespace
