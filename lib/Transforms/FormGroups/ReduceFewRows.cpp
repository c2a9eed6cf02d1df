// SPDX-License-Identifier: Apache-2.0
// The pass autopar-reduce-few-rows: a product of few rows reads every weight once, so its time is
// that of reading weights. A kernel that sums along them reads them at the speed of memory, and
// makes them in passing where the step makes them of fewer bytes (quantized weights).
#include "MadeAtLoad.h"
#include "Stages/MadeFrom.h"

#include "autopar/Transforms/FewRows.h"
#include "autopar/Transforms/HeldForm.h"
#include "autopar/Transforms/LibraryContraction.h"
#include "autopar/Transforms/MadeOfLess.h"
#include "autopar/Transforms/Passes.h"
#include "autopar/Transforms/Stages.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_REDUCEFEWROWSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Below this many weights a call is as fast as a kernel.
constexpr int64_t kLeastWeights = 4096;

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

/// Whether weights are a parameter or constant, however it is looked at.
bool liesInMemory(Value weights) {
  while (auto view = weights.getDefiningOp<ViewOpInterface>())
    weights = view->getOperand(0);
  return (isa<BlockArgument>(weights) || weights.getDefiningOp<ConstantOp>()) && isAtLoad(weights);
}

int64_t rowsOf(DotGeneralOp product) {
  int64_t rows = 1;
  for (int64_t dim : product.getLhsFree())
    rows *= typeOf(product.getLhs()).getDimSize(dim);
  return rows;
}

/// The right side of a product as it is made or lies in memory, and where its dimensions are there.
struct Weights {
  Value value;
  SmallVector<int64_t> batch, free, contracted; ///< in the order of the product

  explicit Weights(DotGeneralOp product)
      : value(product.getRhs()), batch(product.getRhsBatch()), free(product.getRhsFree()),
        contracted(product.getRhsContract()) {
    while (auto transpose = value.getDefiningOp<TransposeOp>()) {
      renumber(transpose.getPermutation());
      value = transpose.getInput();
    }
  }
  void renumber(ArrayRef<int64_t> numbers) {
    for (int64_t &dim : llvm::concat<int64_t>(batch, free, contracted))
      dim = numbers[dim];
  }
  RankedTensorType type() const { return typeOf(value); }
};

/// Whether a product is of rows and a matrix of floats, and the matrix is not small.
bool hasWeights(DotGeneralOp product, const Weights &weights) {
  return !isContractionOfBytes(product) && product.getLhsBatch().empty() && !weights.free.empty() &&
         rowsOf(product) > 0 && weights.type().getNumElements() >= kLeastWeights;
}

/// Whether reading weights is what takes the time of a product, and a kernel is better at it.
bool onlyReadsWeights(DotGeneralOp product, int64_t mostRows, int64_t mostRowsOfMade) {
  Weights weights(product);
  int64_t rows = rowsOf(product);
  if (!hasWeights(product, weights))
    return false;
  bool isPacked =
      heldFormOf(weights.value) == HeldForm::Packed; // elsewhere, and not once more here
  return (rows <= mostRows && liesInMemory(weights.value) && !isPacked) ||
         (rows <= mostRowsOfMade && isMadeOfLess(product.getRhs()));
}

/// Whether a product of more rows is to read its weights as a kernel for few of them does.
bool readsAlongRows(DotGeneralOp product) {
  Weights weights(product);
  return hasWeights(product, weights) && liesInMemory(weights.value) &&
         llvm::is_sorted(weights.free) && // its results have this order
         heldFormOf(weights.value) == HeldForm::AlongRows;
}

/// Whether few rows meet a matrix of their own: a call for many such products has tiles for more
/// rows than there are.
bool isOfRowsOfBatch(DotGeneralOp product, int64_t mostRows) {
  return isLibraryContraction(product) && !product.getLhsBatch().empty() &&
         !product.getRhsFree().empty() && !product.getRhsContract().empty() &&
         rowsOf(product) <= mostRows;
}

/// Weights as they are laid out once, by what they are and the order of their dimensions: steps of
/// a recurrence, which multiply by the same ones, read one copy.
using LaidOut = DenseMap<std::tuple<Value, Attribute, Attribute>, Value>;

/// Weights that stay in memory are laid out once so that what is summed lies side by side.
void layAlongRows(DotGeneralOp product, Weights &weights, LaidOut &laidOut) {
  SmallVector<int64_t> order(weights.free), numbers(order.size() + weights.contracted.size());
  llvm::sort(order);
  SmallVector<int64_t> summed(weights.contracted);
  llvm::sort(summed);
  llvm::append_range(order, summed);
  if (llvm::is_sorted(order))
    return;
  OpBuilder builder(product);
  Value &known = laidOut[{weights.value, builder.getDenseI64ArrayAttr(order),
                          product->getAttr(kStageAttribute)}];
  if (!known) {
    SmallVector<int64_t> shape =
        llvm::map_to_vector(order, [&](int64_t dim) { return weights.type().getDimSize(dim); });
    auto transpose = TransposeOp::create(builder, product.getLoc(), weights.type().clone(shape),
                                         weights.value, order);
    transpose->setAttr(kLaidOut, builder.getUnitAttr());
    known = madeFrom(product, transpose, "/along.rows");
  }
  weights.value = known;
  for (auto [now, before] : llvm::enumerate(order))
    numbers[before] = now;
  weights.renumber(numbers);
}

/// A product of the same rows by weights that are laid out so.
void readAlongRows(DotGeneralOp product, LaidOut &laidOut) {
  Weights weights(product);
  layAlongRows(product, weights, laidOut);
  product.getRhsMutable().assign(weights.value);
  product.setRhsContract(weights.contracted);
}

class SumWriter {
public:
  SumWriter(DotGeneralOp product, LaidOut &laidOut)
      : product(product), builder(product), loc(product.getLoc()), weights(product),
        laidOut(laidOut) {}

  /// The dimensions of the weights, of which the contracted ones are summed, and the rows: in
  /// front, or behind a batch that is in front. Those of a batch are the row's own, as they are the
  /// weights'.
  void write() {
    if (weights.batch.empty() && liesInMemory(weights.value))
      layAlongRows(product, weights, laidOut);
    rowsAt = llvm::equal(weights.batch, llvm::seq<int64_t>(0, weights.batch.size()))
                 ? weights.batch.size()
                 : 0;
    Value rows = rowsOfLhs(), wide = inSumType(weights.value);
    SmallVector<int64_t> shape(weights.type().getShape());
    shape.insert(shape.begin() + rowsAt, rowsOf(product));
    SmallVector<int64_t> ofBatch = placesOf(weights.batch), ofSum = placesOf(weights.contracted),
                         rowDims{rowsAt}, kept(ofBatch);
    llvm::append_range(rowDims, ofBatch);
    llvm::append_range(rowDims, ofSum);
    kept.push_back(rowsAt);
    llvm::append_range(kept, placesOf(weights.free));
    SmallVector<int64_t> left =
        llvm::map_to_vector(sorted(kept), [&](int64_t place) { return shape[place]; });
    SmallVector<int64_t> order = llvm::map_to_vector(kept, [&](int64_t place) -> int64_t {
      return llvm::count_if(kept, [&](int64_t other) { return other < place; });
    });
    RankedTensorType all = typeOf(wide).clone(shape);
    SmallVector<int64_t> weightDims =
        placesOf(llvm::to_vector(llvm::seq<int64_t>(0, weights.type().getRank())));
    Value a = made(BroadcastOp::create(builder, loc, all, rows, sorted(rowDims)), "/rows.repeated");
    // Of one row nothing is repeated: it must not look like something that is made of the weights.
    Operation *repeated =
        rowsOf(product) == 1
            ? ReshapeOp::create(builder, loc, all, wide).getOperation()
            : BroadcastOp::create(builder, loc, all, wide, weightDims).getOperation();
    Value b = made(repeated, "/weights.repeated");
    Value terms = made(BinaryOp::create(builder, loc, BinaryKind::Mul, a, b), "/terms");
    auto sum =
        ReduceOp::create(builder, loc, all.clone(left), ReduceKind::Sum, terms, sorted(ofSum));
    Value result = made(sum, "");
    sum->setAttr(weights.batch.empty() ? kFewRows : kRowsOfBatch, builder.getUnitAttr());
    if (Type element = product.getType().getElementType(); element != sumType())
      result =
          made(CastOp::create(builder, loc, typeOf(result).clone(element), result), "/rounded");
    result = reshaped(transposed(result, order, "/columns"), product.getType().getShape());
    product.getResult().replaceAllUsesWith(result);
    Operation *unread = product.getRhs().getDefiningOp();
    product->erase();
    while (isa_and_nonnull<TransposeOp>(unread) && unread->use_empty()) {
      Operation *next = unread->getOperand(0).getDefiningOp();
      unread->erase();
      unread = next;
    }
  }

private:
  Value made(Operation *op, const Twine &suffix) { return madeFrom(product, op, suffix); }

  static SmallVector<int64_t> sorted(ArrayRef<int64_t> dims) {
    SmallVector<int64_t> result(dims);
    llvm::sort(result);
    return result;
  }

  Value reshaped(Value value, ArrayRef<int64_t> shape) {
    if (typeOf(value).getShape() == shape)
      return value;
    return made(ReshapeOp::create(builder, loc, typeOf(value).clone(shape), value), "/reshape");
  }

  Value transposed(Value value, ArrayRef<int64_t> order, const Twine &suffix) {
    if (llvm::is_sorted(order))
      return value;
    SmallVector<int64_t> shape =
        llvm::map_to_vector(order, [&](int64_t dim) { return typeOf(value).getDimSize(dim); });
    return made(TransposeOp::create(builder, loc, typeOf(value).clone(shape), value, order),
                suffix);
  }

  /// Integers are summed as such, narrow floats in f32.
  Type sumType() {
    Type element = product.getType().getElementType();
    return isa<IntegerType>(element) || element.isF64() ? element : builder.getF32Type();
  }

  Value inSumType(Value value) {
    if (typeOf(value).getElementType() == sumType())
      return value;
    return made(CastOp::create(builder, loc, typeOf(value).clone(sumType()), value), "/cast");
  }

  /// Where dimensions of the weights are beside the rows.
  SmallVector<int64_t> placesOf(ArrayRef<int64_t> dims) const {
    return llvm::map_to_vector(dims, [&](int64_t dim) { return dim < rowsAt ? dim : dim + 1; });
  }

  /// The left side with its rows as one dimension and the others in the order of the weights.
  Value rowsOfLhs() {
    SmallVector<std::pair<int64_t, int64_t>> places; // of the weights and rows, of the left side
    for (auto [there, here] : llvm::zip(placesOf(weights.batch), product.getLhsBatch()))
      places.push_back({there, here});
    for (int64_t here : product.getLhsFree())
      places.push_back({rowsAt, here});
    for (auto [there, here] : llvm::zip(placesOf(weights.contracted), product.getLhsContract()))
      places.push_back({there, here});
    llvm::sort(places);
    SmallVector<int64_t> order, shape;
    int64_t last = -1;
    for (auto [there, here] : places) {
      int64_t extent = typeOf(product.getLhs()).getDimSize(here);
      order.push_back(here);
      if (there == last)
        shape.back() *= extent;
      else
        shape.push_back(extent);
      last = there;
    }
    if (product.getLhsFree().empty())
      shape.insert(shape.begin() + rowsAt, 1);
    return inSumType(reshaped(transposed(product.getLhs(), order, "/transpose"), shape));
  }

  DotGeneralOp product;
  OpBuilder builder;
  Location loc;
  Weights weights;
  LaidOut &laidOut;
  int64_t rowsAt = 0; ///< place of the rows beside the dimensions of the weights
};

struct ReduceFewRowsPass : mlir::autopar::impl::ReduceFewRowsPassBase<ReduceFewRowsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<DotGeneralOp> products, alongRows;
    getOperation().walk([&](DotGeneralOp op) {
      if (onlyReadsWeights(op, rows, rowsOfMade) || isOfRowsOfBatch(op, rowsOfBatch))
        products.push_back(op);
      else if (readsAlongRows(op))
        alongRows.push_back(op);
    });
    LaidOut laidOut;
    for (DotGeneralOp product : products)
      SumWriter(product, laidOut).write();
    for (DotGeneralOp product : alongRows)
      readAlongRows(product, laidOut);
  }
};

} // namespace
