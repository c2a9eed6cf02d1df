// SPDX-License-Identifier: Apache-2.0
// The pass autopar-join-products: products of one value with several weights (query, key and value
// of an attention; gate and value of an MLP) become one product with the weights side by side. It
// reads the value once, and has enough columns to occupy a GPU where there are few rows.
#include "MadeAtLoad.h"
#include "Stages/MadeFrom.h"

#include "autopar/Dialect/AutoPar/IR/Arguments.h"
#include "autopar/Interfaces/LoweringInterface.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/LibraryEpilogue.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_JOINPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Calls between the first product and another one with which it is joined: scores of an attention
/// may stand before its values. What is read much later would lie in memory until then.
constexpr int64_t kMostCallsBetween = 1;
/// Bytes at multiples of which parts of a result begin: libraries and kernels read as many at once.
constexpr int64_t kPartAlignment = 16;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether nothing else reads a weight or what it is made of, which would then lie in memory twice.
bool isReadOnce(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<ConstantOp>(op) ||
         (value.hasOneUse() && (!op || llvm::all_of(op->getOperands(), isReadOnce)));
}

/// What a library computes, products that are scaled to 8 bits (written as several operations
/// later) included.
bool isCall(Operation *op) {
  auto product = dyn_cast<DotGeneralOp>(op);
  return isLibraryContraction(op) || (product && product.getScaledTo());
}

/// A product and the bias behind it.
struct Part {
  DotGeneralOp product;
  BinaryOp add; ///< null without a bias
  Value bias;   ///< of the shape of the columns

  Operation *last() { return add ? add.getOperation() : product.getOperation(); }
  Value result() { return last()->getResult(0); }
  /// The dimension of the weight, and of the result, along which parts lie side by side.
  int64_t weightDim() { return product.getRhsFree().front(); }
  int64_t resultDim() {
    return product.getType().getRank() - static_cast<int64_t>(product.getRhsFree().size());
  }
  int64_t columns() { return product.getType().getDimSize(resultDim()); }
};

/// Adds the bias that is all that reads a product.
void readBias(Part &part) {
  auto add = part.product->hasOneUse() ? dyn_cast<BinaryOp>(*part.product->user_begin()) : nullptr;
  if (!add || add.getKind() != BinaryKind::Add || add.getLhs() == add.getRhs())
    return;
  bool isLeft = add.getLhs() == part.product.getResult();
  Value bias = biasOf(isLeft ? add.getRhs() : add.getLhs(), part.product);
  if (!bias || !isAtLoad(bias))
    return;
  part.add = add;
  part.bias = bias;
}

/// Whether a library or a kernel reads the value where it lies, as a part of something larger.
bool isReadAsItLies(Value value) {
  return llvm::all_of(value.getUsers(), [](Operation *user) {
    if (isa<ViewOpInterface>(user))
      return isReadAsItLies(user->getResult(0));
    return isa<AttentionOp>(user) || isCall(user) ||
           (isa<ElementLoweringOpInterface>(user) && !isa<DotGeneralOp, ConvolutionOp>(user));
  });
}

/// Whether the library does more behind this product than it could for a part of one: it adds what
/// is no bias, or activates what no kernel reads anyway. Behind a scaled product it does nothing.
bool hasOwnEpilogue(Part &part) {
  Value result = part.result();
  if (part.product.getScaledTo() || !result.hasOneUse())
    return false;
  Operation *user = *result.user_begin();
  if (auto unary = dyn_cast<UnaryOp>(user)) {
    auto gated = unary->hasOneUse() ? dyn_cast<BinaryOp>(*unary->user_begin()) : nullptr;
    return isEpilogueActivation(unary.getKind()) && !(gated && gated.getKind() == BinaryKind::Mul);
  }
  auto add = dyn_cast<BinaryOp>(user);
  return add && add.getKind() == BinaryKind::Add;
}

std::optional<Part> partOf(DotGeneralOp product) {
  if (!isCall(product) || product.getRhsFree().empty() || !staysFromLoad(product.getRhs()) ||
      !isReadOnce(product.getRhs()))
    return std::nullopt;
  Part part{product, {}, {}};
  if (!product.getScaledTo()) // else the sums are divided first, by who reads the part
    readBias(part);
  RankedTensorType type = product.getType();
  int64_t elements = llvm::product_of(type.getShape().drop_front(part.resultDim()));
  bool isAligned = elements * type.getElementTypeBitWidth() / 8 % kPartAlignment == 0;
  if (!isAligned || hasOwnEpilogue(part) || !isReadAsItLies(part.result()))
    return std::nullopt;
  return part;
}

/// Whether two products of one value differ in the number of their columns at most.
bool fitTogether(Part &a, Part &b) {
  DotGeneralOp x = a.product, y = b.product;
  auto shapeBeside = [](Part &part) {
    SmallVector<int64_t> shape(part.product.getRhs().getType().getShape());
    shape[part.weightDim()] = 0;
    return shape;
  };
  return x.getLhsBatch() == y.getLhsBatch() && x.getRhsBatch() == y.getRhsBatch() &&
         x.getLhsContract() == y.getLhsContract() && x.getRhsContract() == y.getRhsContract() &&
         x.getRhs().getType().getElementType() == y.getRhs().getType().getElementType() &&
         x.getType().getElementType() == y.getType().getElementType() &&
         x.getScaledTo() == y.getScaledTo() &&
         x->getAttr("autopar.stage") == y->getAttr("autopar.stage") &&
         x->getAttr("autopar.phase") == y->getAttr("autopar.phase") &&
         shapeBeside(a) == shapeBeside(b);
}

/// Products of one value that follow one another.
struct Join {
  SmallVector<Part> parts;
  int64_t firstCall = 0; ///< which of the function's calls the first product is

  bool takes(Part &part, int64_t call) {
    int64_t between = call - firstCall - static_cast<int64_t>(parts.size());
    return between <= kMostCallsBetween && fitTogether(parts.front(), part);
  }
};

class JoinWriter {
public:
  explicit JoinWriter(Join &join)
      : parts(join.parts), first(join.parts.front().product), builder(first), loc(first.getLoc()) {}

  void write() {
    Value result = writeProduct();
    if (llvm::any_of(parts, [](Part &part) { return part.add != nullptr; }))
      result = addBiases(result);
    int64_t dim = parts.front().resultDim(), offset = 0;
    SmallVector<int64_t> starts(typeOf(result).getRank(), 0), steps(starts.size(), 1);
    for (Part &part : parts) {
      starts[dim] = offset;
      offset += part.columns();
      Value slice =
          madeFrom(part.last(),
                   SliceOp::create(builder, loc, typeOf(part.result()), result, starts, steps), "");
      part.result().replaceAllUsesWith(slice);
    }
    for (Part &part : parts) {
      if (part.add)
        part.add->erase();
      part.product->erase();
    }
  }

private:
  Value made(Operation *op, StringRef suffix) { return madeFrom(first, op, suffix); }

  /// What is known at load may stand behind the first product, where only a later one reads it.
  void moveToFirst(Value value) {
    Operation *op = value.getDefiningOp();
    if (!op || op->isBeforeInBlock(first))
      return;
    for (Value operand : op->getOperands())
      moveToFirst(operand);
    op->moveBefore(first);
  }

  Value sideBySide(ArrayRef<Value> values, int64_t dim, StringRef suffix) {
    SmallVector<int64_t> shape(typeOf(values.front()).getShape());
    shape[dim] = 0;
    for (Value value : values) {
      moveToFirst(value);
      shape[dim] += typeOf(value).getDimSize(dim);
    }
    RankedTensorType type = typeOf(values.front()).clone(shape);
    return made(ConcatOp::create(builder, loc, type, values, dim), suffix);
  }

  Value writeProduct() {
    SmallVector<Value> weights;
    for (Part &part : parts)
      weights.push_back(part.product.getRhs());
    Value weight = sideBySide(weights, parts.front().weightDim(), "/joined.weights");
    auto joined = DotGeneralOp::create(builder, loc, joinedType(), first.getLhs(), weight,
                                       first.getLhsBatch(), first.getRhsBatch(),
                                       first.getLhsContract(), first.getRhsContract());
    joined.setScaledToAttr(first.getScaledToAttr());
    return made(joined, "/joined");
  }

  RankedTensorType joinedType() {
    RankedTensorType type = first.getType();
    SmallVector<int64_t> shape(type.getShape());
    int64_t &columns = shape[parts.front().resultDim()];
    columns = 0;
    for (Part &part : parts)
      columns += part.columns();
    return type.clone(shape);
  }

  /// Parts without a bias have zeros.
  Value addBiases(Value product) {
    int64_t dim = parts.front().resultDim(), rank = typeOf(product).getRank();
    SmallVector<Value> biases;
    for (Part &part : parts) {
      Value bias = part.bias;
      if (!bias) {
        RankedTensorType type = part.product.getType();
        auto vector = type.clone(type.getShape().drop_front(dim));
        bias = madeFrom(
            part.product,
            ConstantOp::create(builder, loc, cast<ElementsAttr>(builder.getZeroAttr(vector))),
            "/zeros");
      }
      biases.push_back(bias);
    }
    Value bias = sideBySide(biases, 0, "/joined.biases");
    Value repeated = made(BroadcastOp::create(builder, loc, typeOf(product), bias,
                                              llvm::to_vector(llvm::seq<int64_t>(dim, rank))),
                          "/joined.biases.repeated");
    return made(BinaryOp::create(builder, loc, BinaryKind::Add, product, repeated),
                "/joined.biased");
  }

  SmallVector<Part> &parts;
  DotGeneralOp first;
  OpBuilder builder;
  Location loc;
};

struct JoinProductsPass : mlir::autopar::impl::JoinProductsPassBase<JoinProductsPass> {
  void runOnOperation() override {
    std::vector<Join> joins;
    DenseMap<Value, SmallVector<size_t>> ofValue;
    int64_t calls = 0;
    for (Operation &op : getOperation().getOps()) {
      if (!isCall(&op) && !isa<AttentionOp>(op))
        continue;
      int64_t call = calls++;
      auto product = dyn_cast<DotGeneralOp>(op);
      std::optional<Part> part = product ? partOf(product) : std::nullopt;
      if (!part)
        continue;
      SmallVector<size_t> &known = ofValue[product.getLhs()];
      auto join =
          llvm::find_if(known, [&](size_t number) { return joins[number].takes(*part, call); });
      if (join != known.end()) {
        joins[*join].parts.push_back(*part);
      } else {
        known.push_back(joins.size());
        joins.push_back({{*part}, call});
      }
    }
    for (Join &join : joins)
      if (join.parts.size() > 1)
        JoinWriter(join).write();
  }
};

} // namespace
