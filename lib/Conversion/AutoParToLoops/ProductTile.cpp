// SPDX-License-Identifier: Apache-2.0
// Each of four warps has 64 x 64 of a tile's sums in registers. Copies bring the terms of the next
// steps into shared memory while tensor cores multiply those of this one (cp.async, ldmatrix and
// mma.sync of PTX: every GPU from sm_80 on has them). Lines have a gap of 16 bytes behind them, so
// that the eight lines of a small matrix lie in different banks.
#include "ProductTile.h"
#include "LoopNest.h"
#include "Positions.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/NVGPU/IR/NVGPUDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kStages = 3;    ///< steps that lie in shared memory
constexpr int64_t kVector = 8;    ///< elements of a copy: 16 bytes
constexpr int64_t kWarpTile = 64; ///< rows and columns of a warp
/// Rows, columns and terms of the product of one instruction.
constexpr int64_t kRows = 16, kColumns = 8, kDepth = 16;

int64_t lineLength(bool alongTerms) { return alongTerms ? kProductTerms : kProductTile; }
int64_t pitchOf(bool alongTerms) { return lineLength(alongTerms) + kVector; }
int64_t linesOf(bool alongTerms) { return alongTerms ? kProductTile : kProductTerms; }
/// Elements of a side in shared memory, of one step.
int64_t elementsOf(bool alongTerms) { return linesOf(alongTerms) * pitchOf(alongTerms); }

class ProductTileEmitter {
public:
  ProductTileEmitter(OpBuilder &builder, Location loc, const TileSide &lhs, const TileSide &rhs)
      : loc(loc), lhs(lhs), rhs(rhs),
        element(cast<MemRefType>(lhs.memref.getType()).getElementType()),
        stageElements(elementsOf(lhs.alongTerms) + elementsOf(rhs.alongTerms)) {
    shared = emitDynamicShared(builder, loc, 0, kStages * stageElements, element);
    lane = emitLaneIndex(builder, loc);
    Positions p{builder, loc};
    Value warp = p.div(emitThreadIndex(builder, loc), kWarpThreads);
    firstRow = p.mul(p.div(warp, kProductTile / kWarpTile), kWarpTile);
    firstColumn = p.mul(p.rem(warp, kProductTile / kWarpTile), kWarpTile);
  }

  SmallVector<Value> emitSums(OpBuilder &builder, Value steps);
  void emitRows(OpBuilder &builder, ArrayRef<Value> sums,
                function_ref<void(OpBuilder &, const TileRow &)> store);

private:
  using Vectors = SmallVector<TileVector, kLinesOfThread>;
  /// Four small matrices of a side.
  using Fragments = SmallVector<Value, 4>;

  /// Where the side begins in shared memory in stage `stage`.
  Value baseOf(OpBuilder &b, const TileSide &side, Value stage) {
    Positions p{b, loc};
    return p.add(p.mul(stage, stageElements), &side == &lhs ? 0 : elementsOf(lhs.alongTerms));
  }
  Vectors vectorsOf(OpBuilder &b, const TileSide &side, Value step);
  void copy(OpBuilder &b, const TileSide &side, const Vectors &vectors, Value stage);
  Fragments load(OpBuilder &b, const TileSide &side, Value base, int64_t across, int64_t term);
  void multiply(OpBuilder &b, Value stage, SmallVector<Value> &sums);

  Location loc;
  const TileSide &lhs, &rhs;
  Type element;
  int64_t stageElements;
  Value shared, lane, firstRow, firstColumn; ///< of the warp in the tile
};

int64_t vectorsOfLine(bool alongTerms) { return lineLength(alongTerms) / kVector; }

ProductTileEmitter::Vectors ProductTileEmitter::vectorsOf(OpBuilder &b, const TileSide &side,
                                                          Value step) {
  Positions p{b, loc};
  Value position = p.mul(p.rem(emitThreadIndex(b, loc), vectorsOfLine(side.alongTerms)), kVector);
  Vectors vectors;
  for (int64_t nth = 0; nth < kLinesOfThread; ++nth)
    vectors.push_back(
        side.at(b, step, nth, emitLineOfThread(b, loc, side.alongTerms, nth), position));
  return vectors;
}

void ProductTileEmitter::copy(OpBuilder &b, const TileSide &side, const Vectors &vectors,
                              Value stage) {
  Positions p{b, loc};
  Value base = baseOf(b, side, stage);
  Value position = p.mul(p.rem(emitThreadIndex(b, loc), vectorsOfLine(side.alongTerms)), kVector);
  for (auto [nth, vector] : llvm::enumerate(vectors)) {
    Value line = emitLineOfThread(b, loc, side.alongTerms, static_cast<int64_t>(nth));
    Value to = p.add(p.add(base, p.mul(line, pitchOf(side.alongTerms))), position);
    Value count =
        arith::SelectOp::create(b, loc, vector.exists, p.constant(kVector), p.constant(0));
    nvgpu::DeviceAsyncCopyOp::create(b, loc, nvgpu::DeviceAsyncTokenType::get(b.getContext()),
                                     shared, to, side.memref, vector.element,
                                     b.getIndexAttr(kVector), count, /*bypassL1=*/b.getUnitAttr());
  }
}

/// Lane l gives the address of a line of 8 elements of small matrix l / 8. Across the tile they
/// begin at `across`; of the right side two columns of small matrices stand side by side.
ProductTileEmitter::Fragments ProductTileEmitter::load(OpBuilder &b, const TileSide &side,
                                                       Value base, int64_t across, int64_t term) {
  // Of the left side the second small matrix lies below the first, of the right side behind it
  // along the terms.
  bool isLeft = &side == &lhs;
  Positions p{b, loc};
  Value line = p.rem(lane, 8), number = p.div(lane, 8);
  Value low = p.mul(p.rem(number, 2), 8), high = p.mul(p.div(number, 2), 8);
  Value acrossTile = isLeft ? low : high, alongTerms = isLeft ? high : low;
  (side.alongTerms ? acrossTile : alongTerms) =
      p.add(side.alongTerms ? acrossTile : alongTerms, line);
  acrossTile = p.add(p.add(acrossTile, isLeft ? firstRow : firstColumn), across);
  alongTerms = p.add(alongTerms, term);
  Value lines = side.alongTerms ? acrossTile : alongTerms,
        position = side.alongTerms ? alongTerms : acrossTile;
  Value at = p.add(base, p.add(p.mul(lines, pitchOf(side.alongTerms)), position));
  auto type = VectorType::get({4, 2}, element);
  Value loaded = nvgpu::LdMatrixOp::create(b, loc, type, shared, at,
                                           /*transpose=*/!side.alongTerms, /*numTiles=*/4);
  Fragments fragments;
  for (int64_t i = 0; i < 4; ++i) {
    Value pair = vector::ExtractOp::create(b, loc, loaded, i);
    if (element.isBF16())
      pair = LLVM::BitcastOp::create(b, loc, b.getI32Type(), pair);
    fragments.push_back(pair);
  }
  return fragments;
}

/// Adds the terms of a stage.
void ProductTileEmitter::multiply(OpBuilder &b, Value stage, SmallVector<Value> &sums) {
  Type f32 = b.getF32Type();
  auto resultType = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  auto kind = element.isBF16() ? NVVM::MMATypes::bf16 : NVVM::MMATypes::f16;
  Value left = baseOf(b, lhs, stage), right = baseOf(b, rhs, stage);
  for (int64_t term = 0; term < kProductTerms; term += kDepth) {
    SmallVector<Fragments> rows, columns;
    for (int64_t across = 0; across < kWarpTile; across += kRows) {
      rows.push_back(load(b, lhs, left, across, term));
      columns.push_back(load(b, rhs, right, across, term));
    }
    size_t number = 0;
    for (const Fragments &row : rows)
      for (int64_t column = 0; column < kWarpTile / kColumns; ++column, number += 4) {
        ArrayRef<Value> two = ArrayRef(columns[column / 2]).slice(column % 2 * 2, 2);
        Value product = NVVM::MmaOp::create(
            b, loc, resultType, row, two, ArrayRef(sums).slice(number, 4),
            {kRows, kColumns, kDepth}, std::nullopt, std::nullopt, std::array{kind, kind},
            std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
        for (int64_t i = 0; i < 4; ++i)
          sums[number + i] = LLVM::ExtractValueOp::create(b, loc, product, i);
      }
  }
}

SmallVector<Value> ProductTileEmitter::emitSums(OpBuilder &builder, Value steps) {
  Positions p{builder, loc};
  Value zero = p.constant(0), one = p.constant(1);
  auto commit = [&](OpBuilder &b) { NVVM::CpAsyncCommitGroupOp::create(b, loc); };
  for (int64_t ahead = 0; ahead + 1 < kStages; ++ahead) {
    Value step = p.constant(ahead);
    emitWhere(builder, loc, p.isBelow(step, steps), [&](OpBuilder &b) {
      for (const TileSide *side : {&lhs, &rhs})
        copy(b, *side, vectorsOf(b, *side, step), step);
    });
    commit(builder);
  }
  SmallVector<Value> carried{zero}; // the stage of the step, and the sums
  Value none = Scalars(builder, loc, builder.getF32Type()).constant(0);
  carried.append(kWarpTile * kWarpTile / kWarpThreads, none);
  auto loop = emitFor(
      builder, loc, zero, steps, one, carried, [&](OpBuilder &b, Value step, ValueRange args) {
        Positions q{b, loc};
        Value stage = args.front(), next = q.add(step, kStages - 1);
        Value isStep = q.isBelow(next, steps);
        // What tells places is read before there is anything to wait for.
        Value known = arith::SelectOp::create(b, loc, isStep, next, step);
        Vectors left = vectorsOf(b, lhs, known), right = vectorsOf(b, rhs, known);
        NVVM::CpAsyncWaitGroupOp::create(b, loc, kStages - 2);
        emitBarrier(b, loc);
        // Nobody reads the stage of the step before any more.
        Value isFirst = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, stage, zero);
        Value free =
            arith::SelectOp::create(b, loc, isFirst, q.constant(kStages - 1), q.add(stage, -1));
        emitWhere(b, loc, isStep, [&](OpBuilder &inner) {
          copy(inner, lhs, left, free);
          copy(inner, rhs, right, free);
        });
        commit(b);
        SmallVector<Value> sums(args.drop_front());
        multiply(b, stage, sums);
        Value after = q.add(stage, 1);
        Value isLast =
            arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, after, q.constant(kStages));
        SmallVector<Value> yielded{arith::SelectOp::create(b, loc, isLast, zero, after)};
        llvm::append_range(yielded, sums);
        return yielded;
      });
  return SmallVector<Value>(loop.getResults().drop_front());
}

/// A lane has two neighbours in two rows of each instruction's result.
void ProductTileEmitter::emitRows(OpBuilder &builder, ArrayRef<Value> sums,
                                  function_ref<void(OpBuilder &, const TileRow &)> store) {
  constexpr int64_t columns = kWarpTile / kColumns;
  Positions p{builder, loc};
  Value row = p.add(firstRow, p.div(lane, 4)),
        column = p.add(firstColumn, p.mul(p.rem(lane, 4), 2));
  for (int64_t i = 0; i < kWarpTile / kRows; ++i)
    for (int64_t half = 0; half < 2; ++half) {
      TileRow part;
      part.row = p.add(row, i * kRows + half * 8);
      for (int64_t j = 0; j < columns; ++j) {
        size_t first = static_cast<size_t>((i * columns + j) * 4 + half * 2);
        part.columns.push_back(p.add(column, j * kColumns));
        part.sums.push_back({sums[first], sums[first + 1]});
      }
      store(builder, part);
    }
}

} // namespace

Value autopar::emitLineOfThread(OpBuilder &builder, Location loc, bool alongTerms, int64_t nth) {
  int64_t distance = kProductThreads / vectorsOfLine(alongTerms);
  Positions p{builder, loc};
  return p.add(p.div(emitThreadIndex(builder, loc), vectorsOfLine(alongTerms)), nth * distance);
}

void autopar::emitProductTile(OpBuilder &builder, Location loc, const TileSide &lhs,
                              const TileSide &rhs, Value steps,
                              function_ref<void(OpBuilder &, const TileRow &)> store) {
  ProductTileEmitter emitter(builder, loc, lhs, rhs);
  emitter.emitRows(builder, emitter.emitSums(builder, steps), store);
}

int64_t autopar::sharedBytesOfProductTile(const TileSide &lhs, const TileSide &rhs) {
  return kStages * (elementsOf(lhs.alongTerms) + elementsOf(rhs.alongTerms)) * 2;
}
