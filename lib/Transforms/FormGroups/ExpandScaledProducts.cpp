// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-scaled-products: scaling, rounding and the product as operations of their
// own, so that kernels which make an operand round it as well. Rows are scaled as by "rowwise"
// scaling in torchao (float8 training), by powers of two, which round nothing themselves.
#include "Stages/MadeFrom.h"
#include "Stages/Recompute.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
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

/// What an operand is made of: what this rank has of it, and how it is gathered, that first that
/// happens first.
struct Source {
  Value value;
  SmallVector<AllGatherOp, 2> gathers;
};

/// Writes what is made of one product, or of a part of it. Names begin with that operation's,
/// behind which stand kScaledInfix and `part`; they are added to `names`.
class Writer {
public:
  Writer(Operation *op, StringRef part, SmallVectorImpl<Attribute> &names)
      : op(op), builder(op), loc(op->getLoc()), part(part), names(names) {}

  /// Scales and rounds the operand, and gathers what is rounded.
  Rows rows(int side, const Source &source) {
    auto product = cast<DotGeneralOp>(op);
    auto contracted = static_cast<int64_t>(product.getLhsContract().size());
    SmallVector<int64_t> order = orderOf(product, side);
    Value value = source.value;
    if (!llvm::is_sorted(order))
      value = made(TransposeOp::create(builder, loc, value, order), "in.rows");
    Value wide = cast(value, builder.getF32Type(), "wide");
    RankedTensorType type = typeOf(wide);
    int64_t outer = type.getRank() - contracted;
    auto placeOf = [&](AllGatherOp gather) {
      return llvm::find(order, static_cast<int64_t>(gather.getDim())) - order.begin();
    };
    Value sizes = made(UnaryOp::create(builder, loc, UnaryKind::Abs, wide), "sizes");
    Value largest =
        made(ReduceOp::create(builder, loc, type.clone(type.getShape().take_front(outer)),
                              ReduceKind::Max, sizes, count(outer, contracted)),
             "largest");
    for (AllGatherOp gather : source.gathers) // a part of each row
      if (placeOf(gather) >= outer)
        largest = made(AllReduceOp::create(builder, loc, largest.getType(), ReduceKind::Max,
                                           largest, gather.getMesh(), gather.getAxes()),
                       "of.all");
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
    auto rounded = CastOp::create(builder, loc, type.clone(type.getShape(), *product.getScaledTo()),
                                  scaled, /*overflows=*/true);
    Rows rows{made(rounded, "rounded"), bitcast(inverse, builder.getF32Type(), "inverse")};
    for (AllGatherOp gather : source.gathers) {
      rows.numbers = gathered(rows.numbers, placeOf(gather), gather, "gathered");
      if (placeOf(gather) < outer)
        rows.inverse = gathered(rows.inverse, placeOf(gather), gather, "inverse.gathered");
    }
    return rows;
  }

  /// The product itself, in the operation's place. Where columns of it are all that is read (of
  /// joined products), these are divided, by who reads them.
  void product(const Rows &lhs, const Rows &rhs) {
    auto product = cast<DotGeneralOp>(op);
    auto batch = static_cast<int64_t>(product.getLhsBatch().size()),
         contracted = static_cast<int64_t>(product.getLhsContract().size());
    int64_t ofLhs = typeOf(lhs.inverse).getRank(), ofRhs = typeOf(rhs.inverse).getRank();
    SmallVector<int64_t> shared = count(0, batch);
    RankedTensorType stored = product.getType();
    if (stored.getElementType().isF16()) // which has no numbers as large as these sums
      stored = stored.clone(stored.getShape(), builder.getF32Type());
    Value sums =
        made(DotGeneralOp::create(builder, loc, stored, lhs.numbers, rhs.numbers, shared, shared,
                                  count(ofLhs, contracted), count(ofRhs, contracted)),
             "sums");
    auto isOfColumns = [&](Operation *user) {
      auto slice = dyn_cast<SliceOp>(user);
      return slice &&
             slice.getType().getShape().take_front(ofLhs) == stored.getShape().take_front(ofLhs);
    };
    if (!llvm::all_of(op->getUsers(), isOfColumns))
      return divide(sums, lhs.inverse, rhs.inverse, batch);
    for (Operation *user : llvm::make_early_inc_range(op->getUsers())) {
      auto slice = cast<SliceOp>(user);
      auto ofColumns = [&](ArrayRef<int64_t> list) {
        SmallVector<int64_t> own(list.take_front(batch));
        llvm::append_range(own, list.drop_front(ofLhs));
        return own;
      };
      Writer writer(slice, "", names);
      Value own = writer.slice(sums, slice.getStarts(), slice.getSteps(),
                               slice.getType().getShape(), "sums");
      Value inverse =
          writer.slice(rhs.inverse, ofColumns(slice.getStarts()), ofColumns(slice.getSteps()),
                       ofColumns(slice.getType().getShape()), "inverses");
      writer.divide(own, lhs.inverse, inverse, batch);
    }
    op->erase();
  }

private:
  Value made(Operation *made, const Twine &suffix) {
    Value result = madeFrom(op, made, kScaledInfix + part + suffix);
    names.push_back(builder.getStringAttr(getOpId(made)));
    return result;
  }

  /// The dimensions of an operand as [batch, what it has alone, contracted].
  static SmallVector<int64_t> orderOf(DotGeneralOp op, int side) {
    SmallVector<int64_t> order(side == 0 ? op.getLhsBatch() : op.getRhsBatch());
    llvm::append_range(order, side == 0 ? op.getLhsFree() : op.getRhsFree());
    llvm::append_range(order, side == 0 ? op.getLhsContract() : op.getRhsContract());
    return order;
  }

  /// Divides the sums of each row and column, in the operation's place.
  void divide(Value sums, Value ofRows, Value ofColumns, int64_t batch) {
    Value wide = cast(sums, builder.getF32Type(), "wide");
    RankedTensorType type = typeOf(wide);
    int64_t rows = typeOf(ofRows).getRank();
    SmallVector<int64_t> dims = count(0, batch);
    dims.append(count(rows, typeOf(ofColumns).getRank() - batch));
    wide = binary(BinaryKind::Mul, wide, repeated(ofRows, type, count(0, rows), "lhs.inverses"),
                  "by.lhs");
    wide = binary(BinaryKind::Mul, wide, repeated(ofColumns, type, dims, "rhs.inverses"), "by.rhs");
    Value result = cast(wide, typeOf(op->getResult(0)).getElementType(), "narrow");
    setOpId(result.getDefiningOp(), getOpId(op));
    op->getResult(0).replaceAllUsesWith(result);
    op->erase();
  }

  Value slice(Value value, ArrayRef<int64_t> starts, ArrayRef<int64_t> steps,
              ArrayRef<int64_t> shape, const Twine &suffix) {
    return made(SliceOp::create(builder, loc, typeOf(value).clone(shape), value, starts, steps),
                suffix);
  }

  /// `gather` of another value, in the same micro-batches and stage.
  Value gathered(Value value, int64_t dim, AllGatherOp gather, const Twine &suffix) {
    RankedTensorType type = typeOf(value), from = typeOf(gather.getInput()),
                     to = typeOf(gather.getResult());
    auto place = static_cast<int64_t>(gather.getDim());
    SmallVector<int64_t> shape(type.getShape());
    shape[dim] *= to.getDimSize(place) / from.getDimSize(place);
    auto own = AllGatherOp::create(builder, loc, type.clone(shape), value, dim, gather.getMesh(),
                                   gather.getAxes());
    made(own, suffix);
    own->setDiscardableAttrs(gather->getDiscardableAttrDictionary()); // when it runs, above all
    setOpId(own, StringRef(cast<StringAttr>(names.back()).getValue()));
    return own.getResult();
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

  Operation *op;
  OpBuilder builder;
  Location loc;
  std::string part;
  SmallVectorImpl<Attribute> &names;
};

class Expander {
public:
  explicit Expander(func::FuncOp function) : function(function) {
    function.walk([&](DotGeneralOp op) {
      if (op.getScaledTo())
        products.push_back(op);
    });
    // Where the product is computed again in the backward pass, all that it is made of is.
    if (auto named = function->getAttrOfType<ArrayAttr>(kRecomputeAttribute))
      again.insert_range(named);
    for (DotGeneralOp op : products)
      for (int side : {0, 1})
        forms[op.getOperand(side)].insert(formOf(op, side));
  }

  void run() {
    for (DotGeneralOp op : products) {
      bool computesAgain = again.contains(op->getAttr("autopar.id"));
      SmallVector<Attribute> names;
      Rows lhs = rowsOf(op, 0, names), rhs = rowsOf(op, 1, names);
      Writer(op, "", names).product(lhs, rhs);
      if (computesAgain)
        again.insert_range(names);
    }
    for (auto &[value, source] : sources)
      for (AllGatherOp gather : llvm::reverse(source.gathers))
        gather.erase();
    if (function->hasAttr(kRecomputeAttribute))
      function->setAttr(kRecomputeAttribute,
                        ArrayAttr::get(function.getContext(), again.getArrayRef()));
  }

private:
  /// Of products that read one value alike, in the same pass over the model.
  Attribute formOf(DotGeneralOp op, int side) const {
    Builder builder(op.getContext());
    NamedAttrList form(op->getDiscardableAttrDictionary());
    form.erase("autopar.id");
    form.set("again", builder.getBoolAttr(again.contains(op->getAttr("autopar.id"))));
    auto add = [&](StringRef name, ArrayRef<int64_t> ofLhs, ArrayRef<int64_t> ofRhs) {
      form.set(name, builder.getDenseI64ArrayAttr(side == 0 ? ofLhs : ofRhs));
    };
    add("batch", op.getLhsBatch(), op.getRhsBatch());
    add("contract", op.getLhsContract(), op.getRhsContract());
    return form.getDictionary(op.getContext());
  }

  /// They share its rows.
  Rows rowsOf(DotGeneralOp op, int side, SmallVectorImpl<Attribute> &names) {
    Value value = op.getOperand(side);
    Rows &rows = known[{value, formOf(op, side)}];
    if (!rows.numbers)
      rows = Writer(op, side == 0 ? "lhs/" : "rhs/", names).rows(side, sourceOf(value));
    return rows;
  }

  /// Parameters that are gathered for nothing but products of 8 bits are rounded before: gathers
  /// move half the bytes, and each rank rounds what it has. Rows of two forms (forward and back)
  /// have as many bytes as what they are rounded from. Activations are waited for, and a second
  /// collective, of what rows were multiplied by, may take longer than the bytes do.
  const Source &sourceOf(Value value) {
    auto [it, isNew] = sources.try_emplace(value, Source{value, {}});
    auto isScaled = [](Operation *user) {
      auto product = dyn_cast<DotGeneralOp>(user);
      return product && product.getScaledTo();
    };
    if (!isNew || forms[value].size() > 2 || !llvm::all_of(value.getUsers(), isScaled))
      return it->second;
    Source source{value, {}};
    while (auto gather = source.value.getDefiningOp<AllGatherOp>()) {
      if (source.value != value && !source.value.hasOneUse())
        break;
      source.value = gather.getInput();
      source.gathers.insert(source.gathers.begin(), gather);
    }
    if (parameterIn(source.value))
      it->second = source;
    return it->second;
  }

  func::FuncOp function;
  SmallVector<DotGeneralOp> products;
  llvm::SetVector<Attribute> again; ///< ids
  DenseMap<Value, DenseSet<Attribute>> forms;
  DenseMap<Value, Source> sources;
  DenseMap<std::pair<Value, Attribute>, Rows> known;
};

struct ExpandScaledProductsPass
    : mlir::autopar::impl::ExpandScaledProductsPassBase<ExpandScaledProductsPass> {
  void runOnOperation() override { Expander(getOperation()).run(); }
};

} // namespace
