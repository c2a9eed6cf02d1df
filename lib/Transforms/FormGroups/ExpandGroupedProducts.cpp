// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-grouped-products: without a library few rows are sums over the matrices
// that they pick, and of more each group is a product of all rows, of which the others are zero.
// With one, rows are such sums where the step makes the matrices, or where most rows pick one of
// their own: only what is picked is made and read then.
// Products in parts are a product for each part before.
#include "MadeAtLoad.h"
#include "Prepare/GatherFirst.h"
#include "Stages/MadeFrom.h"
#include "Stages/Recompute.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"
#include "autopar/Transforms/MadeOfLess.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDGROUPEDPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Up to so many rows for each matrix a kernel makes what they pick, of fewer bytes, in less time
/// than a library call has matrices made, part by part.
constexpr int64_t kMadeRowsPerMatrix = 3;
/// Of matrices that lie in memory along what is summed, kernels read what rows pick faster than a
/// call that multiplies a row or two by each; but rows that pick the same read it again. So there
/// are at least this many matrices for each row.
constexpr int64_t kMatricesPerRow = 2;

std::string groupSuffix(int64_t number) { return (kGroupedInfix + Twine(number)).str(); }

RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

SmallVector<int64_t> range(int64_t count) { return llvm::to_vector(llvm::seq<int64_t>(0, count)); }

/// Writes one grouped product, or its gradient, anew.
template <typename Op>
class Writer {
public:
  explicit Writer(Op op)
      : op(op), builder(op), b(builder, op), group(op.getGroup()), rank(typeOf(group).getRank()) {}

  void write(Value result) {
    op.getResult().replaceAllUsesWith(result);
    op.erase();
  }

protected:
  Value made(Value value, const Twine &suffix) {
    return madeFrom(op, value.getDefiningOp(), suffix);
  }

  /// `value` [rows..., extent] where `mask` [rows...] holds, else zero.
  Value where(Value mask, Value value, const Twine &suffix) {
    RankedTensorType type = typeOf(value).clone(builder.getI1Type());
    Value wide =
        made(BroadcastOp::create(builder, op.getLoc(), type, mask, range(rank)), suffix + "/rows");
    Value zero = made(b.splatLike(value, 0), suffix + "/zero");
    return made(b.select(wide, value, zero), suffix);
  }
  /// Which rows compare so with a number.
  Value rowsThat(ComparePredicate predicate, int64_t number, const Twine &suffix) {
    Value other = made(b.splatLike(group, static_cast<double>(number)), suffix + "/number");
    return made(b.compare(predicate, group, other), suffix);
  }
  /// Rows of one group, zeros for all others.
  Value rowsOf(int64_t number, Value rows) {
    std::string suffix = groupSuffix(number);
    return where(rowsThat(ComparePredicate::Eq, number, suffix + "/is"), rows, suffix);
  }
  Value cast(Value value, Type element, const Twine &suffix) {
    return typeOf(value).getElementType() == element ? value : made(b.cast(value, element), suffix);
  }

  Op op;
  OpBuilder builder;
  FormulaBuilder b;
  Value group;
  int64_t rank; ///< of the rows
};

/// Writes a product in parts as one for each of them.
template <typename Op>
class PartsWriter : Writer<Op> {
  using Base = Writer<Op>;
  using Base::b, Base::builder, Base::group, Base::made, Base::op;

public:
  using Base::Base;

  SmallVector<Op> write() {
    constexpr bool isGradient = std::is_same_v<Op, GroupedDotRhsGradOp>;
    RankedTensorType type = op.getType();
    int64_t parts = op.getLhs().getType().getDimSize(0);
    groups = typeOf(isGradient ? op.getResult() : op->getOperand(1)).getDimSize(0);
    own = groups / parts;
    SmallVector<int64_t> shape(type.getShape());
    shape[0] = isGradient ? own : 1;
    SmallVector<Op> products;
    SmallVector<Value> results;
    for (int64_t part = 0; part < parts; ++part) {
      std::string suffix = (kGroupedInfix + "part." + Twine(part)).str();
      Value rows = rowsOf(part, op.getLhs(), suffix + "/lhs"), numbers = numbersIn(part, suffix);
      auto among = builder.getI64IntegerAttr(op.getAmong().value_or(groups));
      if constexpr (isGradient)
        products.push_back(Op::create(builder, op.getLoc(), type.clone(shape), rows,
                                      rowsOf(part, op.getGradient(), suffix + "/gradient"), numbers,
                                      among));
      else
        products.push_back(Op::create(
            builder, op.getLoc(), type.clone(ArrayRef(shape).drop_front()), rows,
            cut(op.getRhs(), part, own, suffix + "/matrices"), numbers, op.getTransposed(), among));
      Value product = made(products.back(), suffix + "/product");
      results.push_back(isGradient ? product
                                   : made(b.reshape(product, shape), parts == 1 ? "" : suffix));
    }
    Base::write(parts == 1 ? results.front()
                           : made(ConcatOp::create(builder, op.getLoc(), type, results, 0), ""));
    return products;
  }

private:
  /// `extent` positions of the first dimension, of which there are as many before for each part.
  Value cut(Value value, int64_t part, int64_t extent, const Twine &suffix) {
    RankedTensorType type = typeOf(value);
    if (type.getDimSize(0) == extent)
      return value;
    SmallVector<int64_t> shape(type.getShape()), starts(type.getRank(), 0),
        steps(type.getRank(), 1);
    shape[0] = extent;
    starts[0] = part * extent;
    return made(b.slice(value, starts, steps, shape), suffix);
  }
  Value rowsOf(int64_t part, Value value, const Twine &suffix) {
    Value rows = cut(value, part, 1, suffix + "/part");
    return made(b.reshape(rows, typeOf(rows).getShape().drop_front()), suffix);
  }
  /// The numbers of groups as they are in a part.
  Value numbersIn(int64_t part, const Twine &suffix) {
    if (part == 0)
      return group;
    Value first = made(b.splatLike(group, static_cast<double>(part * own)), suffix + "/first");
    return made(b.sub(group, first), suffix + "/numbers");
  }

  int64_t groups = 0, own = 0; ///< of a part
};

class DotWriter : Writer<GroupedDotOp> {
public:
  using Writer::Writer;

  void writeSums() {
    RankedTensorType lhs = op.getLhs().getType(), rhs = op.getRhs().getType();
    Type sum = lhs.getElementType().isF64() ? lhs.getElementType() : Type(builder.getF32Type());
    SmallVector<int64_t> positions(typeOf(group).getShape()), shape(positions);
    positions.push_back(1);
    llvm::append_range(shape, rhs.getShape().drop_front());
    Value numbers = made(
        ReshapeOp::create(builder, op.getLoc(), typeOf(group).clone(positions), group), "/numbers");
    auto gather = GatherOp::create(builder, op.getLoc(), rhs.clone(shape), op.getRhs(), numbers,
                                   ArrayRef<int64_t>(0), 0);
    Value picked = made(gather, "/picked");
    SmallVector<int64_t> dims = range(rank);
    int64_t depth = rank + op.getDepthDim() - 1;
    dims.push_back(depth);
    Value rows = made(BroadcastOp::create(builder, op.getLoc(), RankedTensorType::get(shape, sum),
                                          cast(op.getLhs(), sum, "/rows.cast"), dims),
                      "/rows.repeated");
    Value terms = made(b.mul(rows, cast(picked, sum, "/picked.cast")), "/terms");
    Value sums = made(b.sum(terms, {depth}), "/sums");
    Value isGroup = made(b.binary(BinaryKind::And, rowsThat(ComparePredicate::Ge, 0, "/at.least"),
                                  rowsThat(ComparePredicate::Lt, rhs.getDimSize(0), "/below")),
                         "/is.group");
    Value result = where(isGroup, sums, "/of.groups");
    write(cast(result, op.getType().getElementType(), ""));
    gatherFirst(gather);
  }

  void writeProducts() {
    RankedTensorType rhs = op.getRhs().getType();
    Value sum;
    for (int64_t number = 0; number < rhs.getDimSize(0); ++number) {
      std::string suffix = groupSuffix(number);
      Value rows = rowsOf(number, op.getLhs());
      SmallVector<int64_t> shape(rhs.getShape()), starts{number, 0, 0}, steps(3, 1);
      shape[0] = 1;
      Value matrix =
          made(SliceOp::create(builder, op.getLoc(), rhs.clone(shape), op.getRhs(), starts, steps),
               suffix + "/matrix");
      matrix = made(b.reshape(matrix, ArrayRef(shape).drop_front()), suffix + "/plain");
      Value product = made(DotGeneralOp::create(builder, op.getLoc(), op.getType(), rows, matrix,
                                                {}, {}, rank, op.getDepthDim() - 1),
                           suffix + "/product");
      sum = sum ? made(b.add(product, sum), suffix + "/sum") : product;
    }
    write(sum ? sum : made(b.zeros(op.getType()), ""));
  }
};

class GradientWriter : Writer<GroupedDotRhsGradOp> {
public:
  using Writer::Writer;

  void writeProducts() {
    SmallVector<int64_t> shape(op.getType().getShape());
    shape[0] = 1;
    SmallVector<Value> products;
    for (int64_t number = 0; number < op.getType().getDimSize(0); ++number) {
      std::string suffix = groupSuffix(number);
      Value rows = rowsOf(number, op.getLhs());
      RankedTensorType type = op.getType().clone(ArrayRef(shape).drop_front());
      Value product = made(DotGeneralOp::create(builder, op.getLoc(), type, rows, op.getGradient(),
                                                {}, {}, range(rank), range(rank)),
                           suffix + "/product");
      products.push_back(made(b.reshape(product, shape), suffix + "/matrix"));
    }
    write(products.empty()
              ? made(b.zeros(op.getType()), "")
              : made(ConcatOp::create(builder, op.getLoc(), op.getType(), products, 0), ""));
  }
};

struct ExpandGroupedProductsPass
    : mlir::autopar::impl::ExpandGroupedProductsPassBase<ExpandGroupedProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    SmallVector<Operation *> products;
    getOperation().walk([&](Operation *op) {
      if (auto dot = dyn_cast<GroupedDotOp>(op))
        addProducts(dot, products);
      else if (auto gradient = dyn_cast<GroupedDotRhsGradOp>(op))
        addProducts(gradient, products);
    });
    for (Operation *op : products) {
      auto dot = dyn_cast<GroupedDotOp>(op);
      bool isLibrary = isLibraryGroupedProduct(op, target);
      if (dot && isReadFaster(dot, isLibrary))
        DotWriter(dot).writeSums();
      else if (isLibrary || isTiledGroupedProduct(op, target))
        continue;
      else if (dot)
        DotWriter(dot).writeProducts();
      else
        GradientWriter(cast<GroupedDotRhsGradOp>(op)).writeProducts();
    }
    if (products.empty())
      return;
    // What made all matrices.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(getOperation().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
  }

  /// The product, or those of its parts.
  template <typename Op>
  static void addProducts(Op op, SmallVector<Operation *> &products) {
    if (op.getInParts())
      llvm::append_range(products, PartsWriter<Op>(op).write());
    else
      products.push_back(op);
  }

  /// Whether sums over the picked matrices take less time than products.
  bool isReadFaster(GroupedDotOp dot, bool isLibrary) const {
    int64_t count = typeOf(dot.getGroup()).getNumElements(),
            groups = typeOf(dot.getRhs()).getDimSize(0);
    if (groups == 0)
      return false;
    bool liesAlongSums = dot.getTransposed() && isAtLoad(dot.getRhs());
    return (count <= rows && !isLibrary) ||
           (isLibrary && liesAlongSums && count * kMatricesPerRow <= groups) ||
           (count <= kMadeRowsPerMatrix * groups && isMadeOfLess(dot.getRhs()));
  }
};

} // namespace
