// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-scaled-products: scaling, rounding and the product as operations of their
// own, so that kernels which make an operand round it as well. Rows are scaled as by "rowwise"
// scaling in torchao (float8 training), by powers of two, which round nothing themselves.
#include "MadeFrom.h"
#include "Stages/Recompute.h"

#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDSCALEDPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

// Of f32: its exponent is a number of 8 bits above 23 of mantissa. The largest number of f8E4M3FN
// is 1.75 * 2^8.
constexpr uint32_t kExponent = 0x7f800000;
constexpr uint32_t kLargestExponent = uint32_t{8} << 23;
/// Added to bits, raises the exponent where the mantissa is above 1.75.
constexpr uint32_t kAboveLargest = 0x001fffff;
/// Twice the bits of 1.0: less the bits of a power of two they are those of its inverse.
constexpr uint32_t kInverse = uint32_t{254} << 23;
/// Rows of zeros are scaled as if they held this.
constexpr float kLeast = 0x1p-100f;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

SmallVector<int64_t> count(int64_t begin, int64_t size) {
  return llvm::to_vector(llvm::seq<int64_t>(begin, begin + size));
}

/// An operand as it is multiplied: rows lie one after the other.
struct Rows {
  Value numbers; ///< [.., contracted], of 8 bits
  Value inverse; ///< one number a row, f32: by what sums are multiplied
};

/// Writes what is made of one product. Names begin with the product's, behind which stand
/// kScaledInfix and `part`; they are added to `names`.
class Writer {
public:
  Writer(DotGeneralOp op, StringRef part, SmallVectorImpl<Attribute> &names)
      : op(op), builder(op), loc(op.getLoc()), part(part), names(names),
        contracted(static_cast<int64_t>(op.getLhsContract().size())) {}

  /// Scales and rounds the operand.
  Rows rows(int side) {
    Value wide = cast(inRows(side), builder.getF32Type(), "wide");
    RankedTensorType type = typeOf(wide);
    int64_t outer = type.getRank() - contracted;
    Value sizes = made(UnaryOp::create(builder, loc, UnaryKind::Abs, wide), "sizes");
    Value largest =
        made(ReduceOp::create(builder, loc, type.clone(type.getShape().take_front(outer)),
                              ReduceKind::Max, sizes, count(outer, contracted)),
             "largest");
    largest = binary(BinaryKind::Max, largest, number(builder.getF32FloatAttr(kLeast), largest),
                     "above.zero");
    Value bits = bitcast(largest, builder.getI32Type(), "bits");
    bits = binary(BinaryKind::Add, bits, number(kAboveLargest, bits), "raised");
    bits = binary(BinaryKind::And, bits, number(kExponent, bits), "exponent");
    Value inverse = binary(BinaryKind::Sub, bits, number(kLargestExponent, bits), "inverse.bits"),
          scale = binary(BinaryKind::Sub, number(kInverse, bits), inverse, "scale.bits");
    scale = bitcast(scale, builder.getF32Type(), "scale");
    Value scaled =
        binary(BinaryKind::Mul, wide, repeated(scale, type, count(0, outer), "scales"), "scaled");
    // Nothing is beyond the largest number but infinity, which is to be seen.
    auto rounded = CastOp::create(builder, loc, type.clone(type.getShape(), *op.getScaledTo()),
                                  scaled, /*overflows=*/true);
    return {made(rounded, "rounded"), bitcast(inverse, builder.getF32Type(), "inverse")};
  }

  /// The product itself, in the operation's place.
  void product(const Rows &lhs, const Rows &rhs) {
    auto batch = static_cast<int64_t>(op.getLhsBatch().size());
    int64_t ofLhs = typeOf(lhs.inverse).getRank(), ofRhs = typeOf(rhs.inverse).getRank();
    SmallVector<int64_t> shared = count(0, batch);
    RankedTensorType stored = op.getType();
    if (stored.getElementType().isF16()) // which has no numbers as large as these sums
      stored = stored.clone(stored.getShape(), builder.getF32Type());
    Value sums =
        made(DotGeneralOp::create(builder, loc, stored, lhs.numbers, rhs.numbers, shared, shared,
                                  count(ofLhs, contracted), count(ofRhs, contracted)),
             "sums");
    Value wide = cast(sums, builder.getF32Type(), "wide");
    RankedTensorType type = typeOf(wide);
    wide = binary(BinaryKind::Mul, wide,
                  repeated(lhs.inverse, type, count(0, ofLhs), "lhs.inverses"), "by.lhs");
    shared.append(count(ofLhs, ofRhs - batch));
    wide = binary(BinaryKind::Mul, wide, repeated(rhs.inverse, type, shared, "rhs.inverses"),
                  "by.rhs");
    Value result = cast(wide, op.getType().getElementType(), "narrow");
    setOpId(result.getDefiningOp(), getOpId(op));
    op.getResult().replaceAllUsesWith(result);
    op.erase();
  }

private:
  Value made(Operation *made, const Twine &suffix) {
    Value result = madeFrom(op, made, kScaledInfix + part + suffix);
    names.push_back(builder.getStringAttr(getOpId(made)));
    return result;
  }

  /// The operand as [batch, what it has alone, contracted].
  Value inRows(int side) {
    Value value = op.getOperand(side);
    ArrayRef<int64_t> contract = side == 0 ? op.getLhsContract() : op.getRhsContract();
    SmallVector<int64_t> order(side == 0 ? op.getLhsBatch() : op.getRhsBatch());
    llvm::append_range(order, side == 0 ? op.getLhsFree() : op.getRhsFree());
    llvm::append_range(order, contract);
    if (llvm::is_sorted(order))
      return value;
    return made(TransposeOp::create(builder, loc, value, order), "in.rows");
  }

  Value cast(Value value, Type element, const Twine &suffix) {
    RankedTensorType type = typeOf(value);
    if (type.getElementType() == element)
      return value;
    return made(CastOp::create(builder, loc, type.clone(type.getShape(), element), value), suffix);
  }

  Value bitcast(Value value, Type element, const Twine &suffix) {
    RankedTensorType type = typeOf(value);
    return made(BitcastOp::create(builder, loc, type.clone(type.getShape(), element), value),
                suffix);
  }

  Value binary(BinaryKind kind, Value lhs, Value rhs, const Twine &suffix) {
    return made(BinaryOp::create(builder, loc, kind, lhs, rhs), suffix);
  }

  /// `number` for every element of `like`.
  Value number(TypedAttr number, Value like) {
    return made(ConstantOp::create(builder, loc, DenseElementsAttr::get(typeOf(like), number)),
                "number");
  }
  Value number(uint32_t bits, Value like) {
    return number(builder.getI32IntegerAttr(static_cast<int32_t>(bits)), like);
  }

  Value repeated(Value value, RankedTensorType type, ArrayRef<int64_t> dims, const Twine &suffix) {
    return made(BroadcastOp::create(builder, loc, type, value, dims), suffix);
  }

  DotGeneralOp op;
  OpBuilder builder;
  Location loc;
  std::string part;
  SmallVectorImpl<Attribute> &names;
  int64_t contracted;
};

struct ExpandScaledProductsPass
    : mlir::autopar::impl::ExpandScaledProductsPassBase<ExpandScaledProductsPass> {
  void runOnOperation() override {
    SmallVector<DotGeneralOp> products;
    getOperation().walk([&](DotGeneralOp op) {
      if (op.getScaledTo())
        products.push_back(op);
    });
    // Where the product is computed again in the backward pass, all that it is made of is.
    auto named = getOperation()->getAttrOfType<ArrayAttr>(kRecomputeAttribute);
    SmallVector<Attribute> again = named ? llvm::to_vector(named) : SmallVector<Attribute>();
    DenseSet<Attribute> isAgain(again.begin(), again.end());
    for (DotGeneralOp op : products) {
      bool computesAgain = isAgain.contains(op->getAttr("autopar.id"));
      SmallVector<Attribute> names;
      Rows lhs = rowsOf(op, 0, computesAgain, names), rhs = rowsOf(op, 1, computesAgain, names);
      Writer(op, "", names).product(lhs, rhs);
      if (computesAgain)
        again.append(names);
    }
    if (named)
      getOperation()->setAttr(kRecomputeAttribute, ArrayAttr::get(&getContext(), again));
  }

private:
  /// Products that read one value alike, in the same pass over the model, share its rows.
  Rows rowsOf(DotGeneralOp op, int side, bool computesAgain, SmallVectorImpl<Attribute> &names) {
    Builder builder(op.getContext());
    NamedAttrList alike(op->getDiscardableAttrDictionary());
    alike.erase("autopar.id");
    alike.set("again", builder.getBoolAttr(computesAgain));
    auto add = [&](StringRef name, ArrayRef<int64_t> ofLhs, ArrayRef<int64_t> ofRhs) {
      alike.set(name, builder.getDenseI64ArrayAttr(side == 0 ? ofLhs : ofRhs));
    };
    add("batch", op.getLhsBatch(), op.getRhsBatch());
    add("contract", op.getLhsContract(), op.getRhsContract());
    Rows &rows = known[{op.getOperand(side), alike.getDictionary(op.getContext())}];
    if (!rows.numbers)
      rows = Writer(op, side == 0 ? "lhs/" : "rhs/", names).rows(side);
    return rows;
  }

  DenseMap<std::pair<Value, Attribute>, Rows> known;
};

} // namespace
