// SPDX-License-Identifier: Apache-2.0
// The pass autopar-expand-grouped-products: without a library few rows are sums over the matrices
// that they pick, and of more each group is a product of all rows, of which the others are zero.
// With one, rows are such sums where the step makes the matrices: only what is picked is made then.
#include "MadeFrom.h"
#include "MadeOfLess.h"
#include "Prepare/GatherFirst.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_EXPANDGROUPEDPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Up to so many rows for each matrix a kernel makes what they pick, of fewer bytes, in less time
/// than all matrices take to be made and read.
constexpr int64_t kMadeRowsPerMatrix = 6;

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
    std::string suffix = "/group." + std::to_string(number);
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
      std::string suffix = "/group." + std::to_string(number);
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
      std::string suffix = "/group." + std::to_string(number);
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
      if (isa<GroupedDotOp, GroupedDotRhsGradOp>(op))
        products.push_back(op);
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

  /// Whether sums over the picked matrices take less time than products.
  bool isReadFaster(GroupedDotOp dot, bool isLibrary) const {
    int64_t count = typeOf(dot.getGroup()).getNumElements(),
            groups = typeOf(dot.getRhs()).getDimSize(0);
    if (groups == 0)
      return false;
    return (count <= rows && !isLibrary) ||
           (count <= kMadeRowsPerMatrix * groups && isMadeOfLess(dot.getRhs()));
  }
};

} // namespace
