// SPDX-License-Identifier: Apache-2.0
// The pass autopar-tile-grouped-products. Which row stands where in which tile follows from running
// counts of the rows of each group, so that every run has the same order.
#include "Stages/MadeFrom.h"
#include "Stages/Recompute.h"

#include "autopar/Dialect/AutoPar/Gradients/FormulaBuilder.h"
#include "autopar/Transforms/LibraryGroupedProduct.h"
#include "autopar/Transforms/Passes.h"

namespace mlir::autopar {
#define GEN_PASS_DEF_TILEGROUPEDPRODUCTSPASS
#include "autopar/Transforms/Passes.h.inc"
} // namespace mlir::autopar

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kTileRows = GroupedDotTilesOp::tileRows;

/// Where the rows of groups stand.
struct Tiles {
  Value order;     ///< [tiles * kTileRows] rows
  Value group;     ///< [tiles]; -1 behind the last one
  Value firstTile; ///< [groups + 1]: the last one is of the rows of no group
};

/// Writes the order of the rows of one value of groups.
class OrderWriter {
public:
  OrderWriter(Operation *op, Value group, int64_t groups)
      : op(op), builder(op), b(builder, op), group(group), groups(groups),
        rows(FormulaBuilder::typeOf(group).getNumElements()) {}

  Tiles write();

private:
  Value made(Value value, const Twine &suffix) {
    return madeFrom(op, value.getDefiningOp(), kGroupedInfix + "tiles" + suffix);
  }
  RankedTensorType type(ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, builder.getI32Type());
  }
  Value iota(ArrayRef<int64_t> shape, int64_t dim, const Twine &suffix) {
    return made(IotaOp::create(builder, op->getLoc(), type(shape), dim), suffix);
  }
  Value spread(Value value, ArrayRef<int64_t> shape, int64_t dim, const Twine &suffix) {
    RankedTensorType wide = FormulaBuilder::typeOf(value).clone(shape);
    return made(BroadcastOp::create(builder, op->getLoc(), wide, value, ArrayRef(dim)), suffix);
  }
  Value number(Value like, int64_t value, const Twine &suffix) {
    return made(b.splatLike(like, static_cast<double>(value)), suffix);
  }
  /// How many elements stand before each along `dim`, or the sum of those.
  Value sumBefore(Value value, int64_t dim, const Twine &suffix) {
    auto sum = CumulativeOp::create(builder, op->getLoc(), value.getType(), ReduceKind::Sum, value,
                                    dim, /*exclusive=*/true, /*reverse=*/false);
    return made(sum, suffix);
  }
  Value picked(Value from, Value at, ArrayRef<int64_t> dims, const Twine &suffix) {
    return made(GatherOp::create(builder, op->getLoc(), type({rows}), from, at, dims, 0), suffix);
  }

  Operation *op;
  OpBuilder builder;
  FormulaBuilder b;
  Value group;
  int64_t groups, rows;
};

Tiles OrderWriter::write() {
  int64_t all = groups + 1, tiles = rows / kTileRows + std::min(all, rows);
  Value plain = group;
  if (FormulaBuilder::typeOf(group).getRank() != 1)
    plain = made(b.reshape(group, {rows}), "/plain");
  // Rows of no group are one more group.
  Value below = number(plain, groups, "/groups"), zero = number(plain, 0, "/zero");
  Value isGroup = made(b.binary(BinaryKind::And,
                                made(b.compare(ComparePredicate::Ge, plain, zero), "/at.least"),
                                made(b.compare(ComparePredicate::Lt, plain, below), "/below")),
                       "/is.group");
  Value own = made(b.select(isGroup, plain, below), "/own");
  if (own.getType() != type({rows}))
    own = made(b.cast(own, builder.getI32Type()), "/own.narrow");

  Value isOf = made(b.compare(ComparePredicate::Eq, spread(own, {all, rows}, 1, "/own.wide"),
                              iota({all, rows}, 0, "/group")),
                    "/is.of.group");
  Value ones = made(b.cast(isOf, builder.getI32Type()), "/ones");
  Value before = sumBefore(ones, 1, "/before"), count = made(b.sum(ones, {1}), "/count");
  Value full = number(count, kTileRows, "/tile.rows");
  Value needed =
      made(b.div(made(b.add(count, number(count, kTileRows - 1, "/partial")), "/upper"), full),
           "/needed");
  Value first = sumBefore(needed, 0, "/first"), end = made(b.sum(needed, {0}), "/end");

  Value ownColumn = made(b.reshape(own, {rows, 1}), "/own.column");
  Value row = iota({rows}, 0, "/row");
  Value pair = made(
      ConcatOp::create(builder, op->getLoc(), type({rows, 2}),
                       ValueRange{ownColumn, made(b.reshape(row, {rows, 1}), "/row.column")}, 1),
      "/pair");
  Value place = made(b.add(made(b.mul(picked(first, ownColumn, {0}, "/first.of.row"),
                                      number(row, kTileRows, "/rows.of.tile")),
                                "/start"),
                           picked(before, pair, {0, 1}, "/before.row")),
                     "/place");
  Value empty = made(b.splat(type({tiles * kTileRows}), -1), "/empty");
  Value order =
      made(ScatterOp::create(builder, op->getLoc(), empty.getType(), ScatterKind::Assign, empty,
                             made(b.reshape(place, {rows, 1}), "/place.column"), row, 0),
           "/order");

  // A tile is of the last group whose first tile is not behind it.
  Value begins = made(b.compare(ComparePredicate::Le, spread(first, {all, tiles}, 0, "/first.wide"),
                                iota({all, tiles}, 1, "/tile")),
                      "/begins");
  Value begun =
      made(b.sum(made(b.cast(begins, builder.getI32Type()), "/begins.count"), {0}), "/begun");
  Value none = number(begun, -1, "/none");
  Value last = made(b.add(begun, none), "/last");
  Value ends = made(
      BroadcastOp::create(builder, op->getLoc(), type({tiles}), end, ArrayRef<int64_t>{}), "/ends");
  Value exists =
      made(b.compare(ComparePredicate::Lt, iota({tiles}, 0, "/number"), ends), "/exists");
  return {order, made(b.select(exists, last, none), "/group.of.tile"), first};
}

struct TileGroupedProductsPass
    : mlir::autopar::impl::TileGroupedProductsPassBase<TileGroupedProductsPass> {
  using Base::Base;

  void runOnOperation() override {
    // What is computed again in another phase is ordered again there.
    DenseMap<std::tuple<Value, int64_t, Attribute>, Tiles> known;
    SmallVector<Operation *> products;
    getOperation().walk([&](Operation *op) {
      if (isTiledGroupedProduct(op, Target::Cuda))
        products.push_back(op);
    });
    for (Operation *op : products) {
      Value group = op->getOperand(2);
      int64_t groups = groupsOf(op);
      Tiles &tiles = known[{group, groups, op->getAttr("autopar.phase")}];
      if (!tiles.order)
        tiles = OrderWriter(op, group, groups).write();
      replace(op, tiles);
    }
  }

private:
  static int64_t groupsOf(Operation *op) {
    Value matrices = isa<GroupedDotOp>(op) ? op->getOperand(1) : op->getResult(0);
    return cast<RankedTensorType>(matrices.getType()).getDimSize(0);
  }

  void replace(Operation *op, const Tiles &tiles) {
    OpBuilder builder(op);
    Operation *tiled;
    if (auto dot = dyn_cast<GroupedDotOp>(op))
      tiled = GroupedDotTilesOp::create(builder, op->getLoc(), dot.getType(), dot.getLhs(),
                                        dot.getRhs(), tiles.order, tiles.group,
                                        dot.getTransposedAttr(), dot.getAmongAttr());
    else {
      auto gradient = cast<GroupedDotRhsGradOp>(op);
      tiled = GroupedDotRhsGradTilesOp::create(
          builder, op->getLoc(), gradient.getType(), gradient.getLhs(), gradient.getGradient(),
          tiles.order, tiles.firstTile, gradient.getAmongAttr());
    }
    op->getResult(0).replaceAllUsesWith(madeFrom(op, tiled));
    op->erase();
  }
};

} // namespace
