// SPDX-License-Identifier: Apache-2.0
// Rows of bytes times weights of few bits, both scaled in blocks, on CPUs. An iteration is a tile
// of columns, one in each lane. The weights of some blocks of it are taken apart into bytes that
// lie as the instructions want them, four terms of each column side by side; then a few rows at a
// time multiply them, their sums in registers.
#include "ByteDotSums.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t kRead = BlockDotOp::readBytes, kTerms = ByteVectors::terms;
constexpr int64_t kQuad = 4; ///< words of `kRead` bytes, which shuffles move together
static_assert(kQuad * kTerms == kRead);
/// Sums of whole numbers that stay in registers: rows times vectors of columns.
constexpr int64_t kMostSums = 12;
/// Weights of a tile that are taken apart at a time: they stay in the first cache.
constexpr int64_t kSlabBytes = 32 << 10;
/// Dot products of a row and a vector of columns that are written out.
constexpr int64_t kUnrolled = 8;

/// The extents of a product and how it is divided.
struct Division {
  ByteDots dots;                               ///< of an operation that names none: Vnni
  int64_t lanes, vector;                       ///< columns of a vector, its bytes
  int64_t rows, parts, blocks, bytes, columns; ///< bytes of weights in a block
  int64_t halves;                              ///< that a weight is summed in: of few bits each
  int64_t vectors;                             ///< of columns in a tile
  int64_t slab;                                ///< blocks that are taken apart at a time
  int64_t read;                                ///< bytes of each column that are read at a time
  int64_t teams;                               ///< of rows that are multiplied at a time

  explicit Division(BlockDotOp op)
      : dots(byteDotsOf(op).value_or(ByteDots::Vnni)), lanes(ByteVectors::sumsOf(dots)),
        vector(ByteVectors::bytesOf(dots)) {
    ArrayRef<int64_t> lhs = shapeOf(op.getBytes());
    rows = lhs[0], parts = lhs[1], blocks = lhs[2], bytes = lhs[3];
    columns = shapeOf(op.getResult())[1];
    halves = llvm::divideCeil(bits(), mostBitsOf(dots));
    vectors = columns % (2 * lanes) == 0 ? 2 : 1;
    read = blocks * bytes % vector == 0 ? vector : kRead;
    slab = std::max<int64_t>(kSlabBytes / (vectors * lanes * bytes * pieces()), 2);
    slab = std::min(slab, blocks);
    int64_t most = kMostSums / (vectors * halves);
    teams = (rows + most - 1) / most;
  }
  int64_t tiles() const { return columns / (vectors * lanes); }
  int64_t words() const { return bytes / kTerms; } ///< of weights in a block and column
  int64_t bits() const { return 8 / parts; }
  int64_t pieces() const { return parts * halves; } ///< of a byte, of as many bits each
  int64_t bitsOfPiece() const { return 8 / pieces(); }
  int64_t slabBytes() const { return slab * bytes * pieces() * vectors * lanes; }
};

/// Arithmetic on positions and vectors at one place of the kernel.
struct Steps {
  OpBuilder &b;
  Location loc;
  int64_t lanes;

  Value constant(int64_t value) { return indexConstant(b, loc, value); }
  Value add(Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value add(Value x, int64_t y) { return y == 0 ? x : add(x, constant(y)); }
  Value mul(Value x, int64_t y) { return arith::MulIOp::create(b, loc, x, constant(y)); }

  VectorType vectorOf(int64_t length, Type element) { return VectorType::get({length}, element); }
  VectorType floats() { return vectorOf(lanes, b.getF32Type()); }
  VectorType words() { return vectorOf(lanes, b.getI32Type()); }
  VectorType bytes() { return vectorOf(lanes * kTerms, b.getI8Type()); }
  Value load(VectorType type, Value memref, Value at) {
    return vector::LoadOp::create(b, loc, type, memref, at);
  }
  Value as(VectorType type, Value vector) {
    return vector::BitCastOp::create(b, loc, type, vector);
  }
  Value splat(VectorType type, Value scalar) {
    return vector::BroadcastOp::create(b, loc, type, scalar);
  }
  Value splatOf(Value memref, Value at) {
    return splat(floats(), memref::LoadOp::create(b, loc, memref, at));
  }
  Value words(int64_t value) {
    return arith::ConstantOp::create(
        b, loc, DenseElementsAttr::get(words(), b.getI32IntegerAttr(static_cast<int32_t>(value))));
  }
  Value shuffle(Value one, Value other, ArrayRef<int64_t> lanes) {
    return vector::ShuffleOp::create(b, loc, one, other, lanes);
  }
};

class BlockDotEmitter {
public:
  BlockDotEmitter(BlockDotOp op, ValueRange inputs, Value result)
      : op(op), loc(op.getLoc()), size(op), bytes(inputs[0]), rowScales(inputs[1]),
        weights(inputs[2]), scales(inputs[3]), result(result) {
    if (op.getZeros())
      zeros = inputs[4], sums = inputs[5];
  }

  void emit(OpBuilder &builder, Value begin, Value end);

private:
  void takeApart(OpBuilder &builder);
  SmallVector<Value> columnsOf(Steps s, Value first, Value ahead);
  Value nextSlab(Steps s);
  void multiply(OpBuilder &builder, Value firstRow, int64_t rows);
  SmallVector<Value> addBlock(OpBuilder &builder, Value block, Value firstRow, int64_t rows,
                              ValueRange totals);
  SmallVector<Value> sumBytes(OpBuilder &builder, Value block, Value firstRow, int64_t rows);
  Value ofVector(Steps s, VectorType type, Value numbers, int64_t rows, Value row, int64_t vector);
  SmallVector<Value> zerosOf(Steps s, Value block);

  BlockDotOp op;
  Location loc;
  Division size;
  Value bytes, rowScales, weights, scales, zeros, sums, result;
  Value apart;       ///< weights of the slab, a byte each
  Value firstColumn; ///< of the tile
  Value firstBlock, blocksOfSlab;
};

//===-- weights ------------------------------------------------------------------------------===//

/// Mixes lanes of two vectors.
using Mixed = llvm::function_ref<Value(Value, Value, int64_t place)>;

/// Four vectors of four parts each as four of the first parts, of the second ones, ...: `pairs`
/// takes parts `place` and the next one of two vectors, `fours` the half `place` of two of those.
static SmallVector<Value> transposed(ArrayRef<Value> vectors, Mixed pairs, Mixed fours) {
  SmallVector<Value> result;
  for (int64_t place : {0, 2}) {
    Value low = pairs(vectors[0], vectors[1], place), high = pairs(vectors[2], vectors[3], place);
    result.push_back(fours(low, high, 0));
    result.push_back(fours(low, high, 1));
  }
  return result;
}

/// The parts are the words of each quad of a vector.
static SmallVector<Value> transposedWords(Steps s, ArrayRef<Value> vectors) {
  auto interleaved = [&](Value one, Value other, int64_t from, int64_t width) {
    SmallVector<int64_t> lanes;
    for (int64_t quad = 0; quad < s.lanes; quad += kQuad)
      for (int64_t at = from; at < from + 2; at += width)
        for (int64_t side : {int64_t(0), s.lanes})
          for (int64_t word = 0; word < width; ++word)
            lanes.push_back(side + quad + at + word);
    return s.shuffle(one, other, lanes);
  };
  return transposed(
      vectors,
      [&](Value one, Value other, int64_t word) { return interleaved(one, other, word, 1); },
      [&](Value low, Value high, int64_t half) { return interleaved(low, high, 2 * half, 2); });
}

/// The parts are the quads of a vector, which has as many as there are vectors: two or four.
static SmallVector<Value> transposedQuads(Steps s, ArrayRef<Value> vectors) {
  auto chosen = [&](Value one, Value other, ArrayRef<int64_t> quads) {
    SmallVector<int64_t> lanes;
    for (int64_t side : {int64_t(0), s.lanes})
      for (int64_t quad : quads)
        for (int64_t word = 0; word < kQuad; ++word)
          lanes.push_back(side + kQuad * quad + word);
    return s.shuffle(one, other, lanes);
  };
  if (vectors.size() == 2)
    return {chosen(vectors[0], vectors[1], {0}), chosen(vectors[0], vectors[1], {1})};
  return transposed(
      vectors,
      [&](Value one, Value other, int64_t quad) {
        return chosen(one, other, {quad, quad + 1});
      },
      [&](Value low, Value high, int64_t half) {
        return chosen(low, high, {half, half + 2});
      });
}

/// The words of a read of each column of a vector, the first of which is read from `first` on: a
/// vector of first words, of second ones, ... What `ahead` is behind that will be read later.
SmallVector<Value> BlockDotEmitter::columnsOf(Steps s, Value first, Value ahead) {
  int64_t column = size.blocks * size.bytes;
  auto load = [&](int64_t number, int64_t length) {
    return s.load(s.vectorOf(length, s.b.getI8Type()), weights, s.add(first, number * column));
  };
  int64_t quads = size.lanes / kQuad;
  SmallVector<Value> words;
  if (size.read == size.vector) {
    // Of each four columns, words of the same place in a quad.
    SmallVector<SmallVector<Value>> ofColumns(quads);
    Value later = s.add(first, ahead);
    for (auto [number, four] : llvm::enumerate(ofColumns)) {
      for (int64_t i = kQuad * number; i < kQuad * (int64_t(number) + 1); ++i) {
        four.push_back(s.as(s.words(), load(i, size.vector)));
        memref::PrefetchOp::create(s.b, loc, weights, s.add(later, i * column), /*isWrite=*/false,
                                   /*localityHint=*/3, /*isDataCache=*/true);
      }
      four = transposedWords(s, four);
    }
    SmallVector<Value> byPlace[kQuad];
    for (int64_t place = 0; place < kQuad; ++place)
      byPlace[place] = transposedQuads(
          s, llvm::map_to_vector(ofColumns, [&](auto &four) { return four[place]; }));
    for (int64_t word = 0; word < size.lanes; ++word)
      words.push_back(byPlace[word % kQuad][word / kQuad]);
    return words;
  }
  // Quad q of vector i is of column 4 q + i.
  SmallVector<Value> vectors;
  for (int64_t i = 0; i < kQuad; ++i) {
    SmallVector<Value> pieces;
    for (int64_t quad = 0; quad < quads; ++quad)
      pieces.push_back(load(kQuad * quad + i, kRead));
    while (pieces.size() > 1) {
      SmallVector<Value> joined;
      auto length = cast<VectorType>(pieces.front().getType()).getDimSize(0);
      auto both = llvm::to_vector(llvm::seq<int64_t>(0, 2 * length));
      for (size_t piece = 0; piece < pieces.size(); piece += 2)
        joined.push_back(s.shuffle(pieces[piece], pieces[piece + 1], both));
      pieces = joined;
    }
    vectors.push_back(s.as(s.words(), pieces.front()));
  }
  return transposedWords(s, vectors);
}

/// Where the next slab is read: of the same columns or of those of the next tile; where there is
/// none, this one.
Value BlockDotEmitter::nextSlab(Steps s) {
  int64_t column = size.blocks * size.bytes, tile = size.vectors * size.lanes;
  Value here = s.add(s.mul(firstColumn, column), s.mul(firstBlock, size.bytes));
  auto isBelow = [&](Value value, int64_t end) {
    return arith::CmpIOp::create(s.b, loc, arith::CmpIPredicate::slt, value, s.constant(end));
  };
  Value nextTile = s.mul(s.add(firstColumn, tile), column);
  nextTile =
      arith::SelectOp::create(s.b, loc, isBelow(firstColumn, size.columns - tile), nextTile, here);
  return arith::SelectOp::create(s.b, loc, isBelow(firstBlock, size.blocks - size.slab),
                                 s.add(here, size.slab * size.bytes), nextTile);
}

/// Weights of the slab as bytes: [words, pieces, vectors, columns of a vector, four terms].
void BlockDotEmitter::takeApart(OpBuilder &builder) {
  Steps s{builder, loc, size.lanes};
  Value reads =
      arith::DivUIOp::create(builder, loc, s.mul(blocksOfSlab, size.bytes), s.constant(size.read));
  Value column = s.add(s.mul(firstColumn, size.blocks * size.bytes), s.mul(firstBlock, size.bytes));
  Value ahead = arith::SubIOp::create(builder, loc, nextSlab(s), column);
  emitFor(builder, loc, s.constant(0), reads, s.constant(1), {},
          [&](OpBuilder &inner, Value read, ValueRange) {
            Steps t{inner, loc, size.lanes};
            Value first = t.add(column, t.mul(read, size.read)),
                  to = t.mul(read, size.read / kTerms * size.pieces() * size.vectors * size.vector);
            for (int64_t vector = 0; vector < size.vectors; ++vector) {
              Value from = t.add(first, vector * size.lanes * size.blocks * size.bytes);
              for (auto [word, packed] : llvm::enumerate(columnsOf(t, from, ahead)))
                for (int64_t piece = 0; piece < size.pieces(); ++piece) {
                  Value numbers = packed;
                  int64_t bits = size.bitsOfPiece();
                  if (piece > 0)
                    numbers = arith::ShRUIOp::create(inner, loc, numbers, t.words(piece * bits));
                  if (size.pieces() > 1)
                    numbers = arith::AndIOp::create(inner, loc, numbers,
                                                    t.words(((1 << bits) - 1) * 0x01010101LL));
                  int64_t place = (static_cast<int64_t>(word) * size.pieces() + piece);
                  place = (place * size.vectors + vector) * size.vector;
                  vector::StoreOp::create(inner, loc, t.as(t.bytes(), numbers), apart,
                                          t.add(to, place));
                }
            }
            return SmallVector<Value>();
          });
}

//===-- products -----------------------------------------------------------------------------===//

/// Sums of i32 over one block of the slab, of `rows` rows and all vectors of columns.
SmallVector<Value> BlockDotEmitter::sumBytes(OpBuilder &builder, Value block, Value firstRow,
                                             int64_t rows) {
  Steps s{builder, loc, size.lanes};
  int64_t length = size.parts * size.blocks * size.bytes, words = size.words(),
          sums = rows * size.vectors;
  Value row = s.add(s.mul(firstRow, length), s.mul(s.add(firstBlock, block), size.bytes));
  Value slab = s.mul(block, words * size.pieces() * size.vectors * size.vector);
  auto addWord = [&](OpBuilder &inner, Value word, int64_t next, ByteDotSums &added) {
    Steps t{inner, loc, size.lanes};
    Value term = t.add(row, t.mul(word, kTerms)),
          weight = t.add(slab, t.mul(word, size.pieces() * size.vectors * size.vector));
    for (int64_t piece = 0; piece < size.pieces(); ++piece) {
      int64_t part = piece / size.halves, half = piece % size.halves;
      SmallVector<Value> columns;
      for (int64_t vector = 0; vector < size.vectors; ++vector)
        columns.push_back(t.load(
            t.bytes(), apart,
            t.add(weight, ((next * size.pieces() + piece) * size.vectors + vector) * size.vector)));
      for (int64_t i = 0; i < rows; ++i) {
        int64_t at = i * length + part * size.blocks * size.bytes + next * kTerms;
        Value four = t.load(t.vectorOf(kTerms, inner.getI8Type()), bytes, t.add(term, at));
        four =
            vector::ExtractOp::create(inner, loc, t.as(t.vectorOf(1, inner.getI32Type()), four), 0);
        Value all = t.as(t.bytes(), t.splat(t.words(), four));
        for (int64_t vector = 0; vector < size.vectors; ++vector)
          added.add(inner, half * sums + i * size.vectors + vector, columns[vector], all);
      }
    }
  };
  SmallVector<Value> all(size.halves * sums, s.words(0));
  int64_t unrolled = std::min(words, std::max<int64_t>(kUnrolled / size.parts, 1));
  auto addWords = [&](OpBuilder &inner, Value word, ValueRange carried) {
    ByteDotSums added(loc, size.dots, size.bitsOfPiece(), llvm::to_vector(carried));
    for (int64_t next = 0; next < unrolled; ++next)
      addWord(inner, word, next, added);
    return added.take(inner);
  };
  if (unrolled == words)
    all = addWords(builder, s.constant(0), all);
  else
    all = llvm::to_vector_of<Value>(
        emitFor(builder, loc, s.constant(0), s.constant(words), s.constant(unrolled), all, addWords)
            .getResults());
  for (int64_t half = 1; half < size.halves; ++half)
    for (int64_t sum = 0; sum < sums; ++sum) {
      Value shifted = arith::ShLIOp::create(builder, loc, all[half * sums + sum],
                                            s.words(half * size.bitsOfPiece()));
      all[sum] = arith::AddIOp::create(builder, loc, all[sum], shifted);
    }
  all.resize(sums);
  return all;
}

/// A row of `numbers` [columns / 16, rows, 16] for a vector of columns of the tile.
Value BlockDotEmitter::ofVector(Steps s, VectorType type, Value numbers, int64_t rows, Value row,
                                int64_t vector) {
  constexpr int64_t together = BlockDotOp::columnLanes;
  int64_t column = vector * size.lanes, inGroup = column % together;
  Value first = s.add(s.mul(firstColumn, rows), (column - inGroup) * rows + inGroup);
  return s.load(type, numbers, s.add(first, s.mul(row, together)));
}

/// What the zero points of a block are less than 0 by, one per column; or nothing.
SmallVector<Value> BlockDotEmitter::zerosOf(Steps s, Value block) {
  SmallVector<Value> all;
  if (!zeros)
    return all;
  Type element = cast<MemRefType>(zeros.getType()).getElementType();
  ArrayRef<int64_t> shape = shapeOf(op.getZeros());
  bool isPacked = size.parts > 1 && !shape.empty() && shape[1] != size.blocks;
  Value row = block, shift;
  if (isPacked) {
    row = arith::DivUIOp::create(s.b, loc, block, s.constant(size.parts));
    Value part = arith::RemUIOp::create(s.b, loc, block, s.constant(size.parts));
    shift = s.splat(s.words(), arith::IndexCastOp::create(s.b, loc, s.b.getI32Type(),
                                                          s.mul(part, size.bits())));
  }
  for (int64_t vector = 0; vector < size.vectors; ++vector) {
    VectorType type = s.vectorOf(size.lanes, element);
    Value numbers = shape.empty()
                        ? s.splat(type, memref::LoadOp::create(s.b, loc, zeros, s.constant(0)))
                        : ofVector(s, type, zeros, shape[1], row, vector);
    if (!element.isF32())
      numbers = arith::ExtUIOp::create(s.b, loc, s.words(), numbers);
    if (isPacked) {
      numbers = arith::ShRUIOp::create(s.b, loc, numbers, shift);
      numbers = arith::AndIOp::create(s.b, loc, numbers, s.words((1 << size.bits()) - 1));
    }
    if (!element.isF32())
      numbers = arith::SIToFPOp::create(s.b, loc, s.floats(), numbers);
    all.push_back(arith::NegFOp::create(s.b, loc, numbers));
  }
  return all;
}

/// The totals with those of one block of the slab.
SmallVector<Value> BlockDotEmitter::addBlock(OpBuilder &builder, Value block, Value firstRow,
                                             int64_t rows, ValueRange totals) {
  SmallVector<Value> added = sumBytes(builder, block, firstRow, rows), next(totals);
  Steps s{builder, loc, size.lanes};
  block = s.add(firstBlock, block);
  Value inRow = s.add(s.mul(firstRow, size.blocks), block);
  SmallVector<Value> lessZeros = zerosOf(s, block), ofColumns;
  for (int64_t vector = 0; vector < size.vectors; ++vector)
    ofColumns.push_back(ofVector(s, s.floats(), scales, size.blocks, block, vector));
  for (int64_t i = 0; i < rows; ++i) {
    Value at = s.add(inRow, i * size.blocks), scale = s.splatOf(rowScales, at);
    Value sum = zeros ? s.splatOf(sums, at) : Value();
    for (int64_t vector = 0; vector < size.vectors; ++vector) {
      int64_t place = i * size.vectors + vector;
      Value whole = arith::SIToFPOp::create(builder, loc, s.floats(), added[place]);
      if (zeros)
        whole = vector::FMAOp::create(builder, loc, sum, lessZeros[vector], whole);
      Value both = arith::MulFOp::create(builder, loc, scale, ofColumns[vector]);
      next[place] = vector::FMAOp::create(builder, loc, whole, both, next[place]);
    }
  }
  return next;
}

/// Adds the slab's products to the results of `rows` rows.
void BlockDotEmitter::multiply(OpBuilder &builder, Value firstRow, int64_t rows) {
  Steps s{builder, loc, size.lanes};
  Value isFirst =
      arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::eq, firstBlock, s.constant(0));
  Value none = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(s.floats()));
  SmallVector<Value> places, totals;
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t vector = 0; vector < size.vectors; ++vector) {
      Value first = s.add(s.mul(firstRow, size.columns), firstColumn);
      places.push_back(s.add(first, i * size.columns + vector * size.lanes));
      Value before = s.load(s.floats(), result, places.back());
      totals.push_back(arith::SelectOp::create(builder, loc, isFirst, none, before));
    }
  auto loop = emitFor(builder, loc, s.constant(0), blocksOfSlab, s.constant(1), totals,
                      [&](OpBuilder &inner, Value block, ValueRange carried) {
                        return addBlock(inner, block, firstRow, rows, carried);
                      });
  for (auto [total, place] : llvm::zip(loop.getResults(), places))
    vector::StoreOp::create(builder, loc, total, result, place);
}

void BlockDotEmitter::emit(OpBuilder &builder, Value begin, Value end) {
  Steps s{builder, loc, size.lanes};
  apart = memref::AllocaOp::create(builder, loc,
                                   MemRefType::get({size.slabBytes()}, builder.getI8Type()),
                                   builder.getI64IntegerAttr(size.vector));
  // As many rows in each team, or one more in the first ones.
  int64_t least = size.rows / size.teams, larger = size.rows % size.teams;
  auto overTeams = [&](OpBuilder &inner, int64_t first, int64_t teams, int64_t rows) {
    if (teams == 0)
      return;
    Steps t{inner, loc, size.lanes};
    emitFor(inner, loc, t.constant(0), t.constant(teams), t.constant(1), {},
            [&](OpBuilder &at, Value team, ValueRange) {
              Steps u{at, loc, size.lanes};
              multiply(at, u.add(u.mul(team, rows), first), rows);
              return SmallVector<Value>();
            });
  };
  emitFor(
      builder, loc, begin, end, s.constant(1), {}, [&](OpBuilder &ofTile, Value tile, ValueRange) {
        Steps t{ofTile, loc, size.lanes};
        firstColumn = t.mul(tile, size.vectors * size.lanes);
        emitFor(ofTile, loc, t.constant(0), t.constant(size.blocks), t.constant(size.slab), {},
                [&](OpBuilder &ofSlab, Value block, ValueRange) {
                  Steps u{ofSlab, loc, size.lanes};
                  firstBlock = block;
                  Value left = arith::SubIOp::create(ofSlab, loc, u.constant(size.blocks), block);
                  blocksOfSlab = arith::MinSIOp::create(ofSlab, loc, left, u.constant(size.slab));
                  takeApart(ofSlab);
                  overTeams(ofSlab, 0, larger, least + 1);
                  overTeams(ofSlab, larger * (least + 1), size.teams - larger, least);
                  return SmallVector<Value>();
                });
        return SmallVector<Value>();
      });
  auto function = cast<func::FuncOp>(builder.getInsertionBlock()->getParentOp());
  if (size.dots == ByteDots::Vnni)
    function->setAttr(kMultipliesBytes, builder.getUnitAttr());
}

struct BlockDotModel : KernelLoweringOpInterface::ExternalModel<BlockDotModel, BlockDotOp> {
  bool isForCpusAlone(Operation *) const { return true; }
  int64_t getKernelExtent(Operation *op, int64_t) const {
    return Division(cast<BlockDotOp>(op)).tiles();
  }
  void emitKernel(Operation *op, OpBuilder &builder, ValueRange inputs, ValueRange outputs,
                  Value begin, Value end, int64_t) const {
    BlockDotEmitter(cast<BlockDotOp>(op), inputs, outputs[0]).emit(builder, begin, end);
  }
};

} // namespace

void autopar::attachBlockDotModels(MLIRContext &context) {
  BlockDotOp::attachInterface<BlockDotModel>(context);
}
