// SPDX-License-Identifier: Apache-2.0
// Grouped products whose rows stand in tiles, for a GPU: a block computes a tile. Rows are read
// where they lie, by their numbers, and results stored so: nothing is sorted in memory.
#include "LoopNest.h"
#include "LoweringModels.h"
#include "Positions.h"
#include "ProductTile.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kTileRows = GroupedDotTilesOp::tileRows;
static_assert(kTileRows == kProductTile, "tiles of rows are those of products");

int64_t tilesOver(int64_t extent) { return (extent + kProductTile - 1) / kProductTile; }

/// Stores the part of a row that exists, at `first` of the flat memref on.
void storeRow(OpBuilder &builder, Location loc, const TileRow &row, Value memref, Value first,
              Value firstColumn, int64_t columns) {
  Type element = cast<MemRefType>(memref.getType()).getElementType();
  for (auto [column, sums] : llvm::zip(row.columns, row.sums)) {
    Positions p{builder, loc};
    Value position = p.add(firstColumn, column);
    emitWhere(builder, loc, p.isBelow(position, columns), [&](OpBuilder &b) {
      Positions inner{b, loc};
      Value at = inner.add(first, position);
      storeScalar(b, loc, sums.first, memref, at, element);
      storeScalar(b, loc, sums.second, memref, inner.add(at, inner.constant(1)), element);
    });
  }
}

SmallVector<int64_t> launchOf(int64_t blocks, const TileSide &lhs, const TileSide &rhs) {
  return {blocks, kProductThreads, sharedBytesOfProductTile(lhs, rhs)};
}

struct DotTilesModel : KernelLoweringOpInterface::ExternalModel<DotTilesModel, GroupedDotTilesOp> {
  bool isForGpusAlone(Operation *) const { return true; }
  int64_t getKernelExtent(Operation *op, int64_t) const {
    auto dot = cast<GroupedDotTilesOp>(op);
    return shapeOf(dot.getTileGroup())[0] * tilesOver(shapeOf(dot.getResult()).back());
  }

  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    auto dot = cast<GroupedDotTilesOp>(op);
    Location loc = op->getLoc();
    Positions p{builder, loc};
    int64_t depth = shapeOf(dot.getLhs()).back(), columns = shapeOf(dot.getResult()).back(),
            groups = shapeOf(dot.getRhs())[0], tiles = tilesOver(columns);
    Value block = emitBlockIndex(builder, loc), order = inputs[2];
    Value tile = arith::DivUIOp::create(builder, loc, block, p.constant(tiles));
    Value firstColumn =
        p.mul(arith::RemUIOp::create(builder, loc, block, p.constant(tiles)), kProductTile);
    Value firstRow = p.mul(tile, kTileRows), group = p.read(inputs[3], tile);

    TileSide lhs{inputs[0], /*alongTerms=*/true, {}};
    TileSide rhs{inputs[1], dot.getTransposed(), {}};
    emitWhere(builder, loc, p.isNumber(group), [&](OpBuilder &b) {
      Positions q{b, loc};
      Value isGroup = q.isBelow(group, groups);
      SmallVector<Value> rows;
      for (int64_t nth = 0; nth < kLinesOfThread; ++nth)
        rows.push_back(
            q.read(order, q.add(firstRow, emitLineOfThread(b, loc, lhs.alongTerms, nth))));
      lhs.at = [&](OpBuilder &at, Value step, int64_t nth, Value, Value position) {
        Positions r{at, loc};
        Value term = r.add(r.mul(step, kProductTerms), position);
        return TileVector{r.add(r.mul(rows[nth], depth), term),
                          r.both(r.isNumber(rows[nth]), r.isBelow(term, depth))};
      };
      // The matrix of the tile: lines of it are rows, or columns of the result.
      Value matrix = q.mul(group, depth * columns);
      rhs.at = [&](OpBuilder &at, Value step, int64_t, Value line, Value position) {
        Positions r{at, loc};
        Value term = r.mul(step, kProductTerms), column = firstColumn;
        (rhs.alongTerms ? term : column) = r.add(rhs.alongTerms ? term : column, position);
        (rhs.alongTerms ? column : term) = r.add(rhs.alongTerms ? column : term, line);
        Value inMatrix = rhs.alongTerms ? r.add(r.mul(column, depth), term)
                                        : r.add(r.mul(term, columns), column);
        return TileVector{r.add(matrix, inMatrix),
                          r.both(r.isBelow(term, depth), r.isBelow(column, columns))};
      };
      Value steps = arith::SelectOp::create(
          b, loc, isGroup, q.constant((depth + kProductTerms - 1) / kProductTerms), q.constant(0));
      emitProductTile(b, loc, lhs, rhs, steps, [&](OpBuilder &at, const TileRow &row) {
        Positions r{at, loc};
        Value number = r.read(order, r.add(firstRow, row.row));
        emitWhere(at, loc, r.isNumber(number), [&](OpBuilder &inner) {
          storeRow(inner, loc, row, outputs[0], Positions{inner, loc}.mul(number, columns),
                   firstColumn, columns);
        });
      });
    });
    return launchOf(getKernelExtent(op, 1), lhs, rhs);
  }
};

struct RhsGradTilesModel
    : KernelLoweringOpInterface::ExternalModel<RhsGradTilesModel, GroupedDotRhsGradTilesOp> {
  bool isForGpusAlone(Operation *) const { return true; }
  int64_t getKernelExtent(Operation *op, int64_t) const {
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    return shape[0] * tilesOver(shape[1]) * tilesOver(shape[2]);
  }

  SmallVector<int64_t> emitGpuKernel(Operation *op, OpBuilder &builder, ValueRange inputs,
                                     ValueRange outputs) const {
    Location loc = op->getLoc();
    Positions p{builder, loc};
    ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
    int64_t depth = shape[1], columns = shape[2];
    SmallVector<Value> indices = emitDelinearize(builder, loc, emitBlockIndex(builder, loc),
                                                 {shape[0], tilesOver(depth), tilesOver(columns)});
    Value group = indices[0], firstRow = p.mul(indices[1], kProductTile),
          firstColumn = p.mul(indices[2], kProductTile), order = inputs[2];
    Value begin = p.read(inputs[3], group), end = p.read(inputs[3], p.add(group, p.constant(1)));
    constexpr int64_t stepsOfTile = kTileRows / kProductTerms;
    Value steps = p.mul(arith::SubIOp::create(builder, loc, end, begin), stepsOfTile);
    Value first = p.mul(begin, kTileRows);
    // A line of either side is what belongs to one row of the operands.
    auto side = [&](Value memref, int64_t length, Value firstOfTile) {
      return TileSide{memref, /*alongTerms=*/false,
                      [=](OpBuilder &at, Value step, int64_t, Value line, Value position) {
                        Positions r{at, loc};
                        Value term = r.add(r.mul(step, kProductTerms), line);
                        Value row = r.read(order, r.add(first, term)),
                              column = r.add(firstOfTile, position);
                        return TileVector{r.add(r.mul(row, length), column),
                                          r.both(r.isNumber(row), r.isBelow(column, length))};
                      }};
    };
    TileSide lhs = side(inputs[0], depth, firstRow), rhs = side(inputs[1], columns, firstColumn);
    Value matrix = p.mul(group, depth * columns);
    emitProductTile(builder, loc, lhs, rhs, steps, [&](OpBuilder &at, const TileRow &row) {
      Positions r{at, loc};
      Value number = r.add(firstRow, row.row);
      emitWhere(at, loc, r.isBelow(number, depth), [&](OpBuilder &inner) {
        Positions s{inner, loc};
        storeRow(inner, loc, row, outputs[0], s.add(matrix, s.mul(number, columns)), firstColumn,
                 columns);
      });
    });
    return launchOf(getKernelExtent(op, 1), lhs, rhs);
  }
};

} // namespace

void autopar::attachGroupedProductModels(MLIRContext &context) {
  GroupedDotTilesOp::attachInterface<DotTilesModel>(context);
  GroupedDotRhsGradTilesOp::attachInterface<RhsGradTilesModel>(context);
}
