// SPDX-License-Identifier: Apache-2.0
// More than 32 results per row for a GPU: a block sorts as much of the row as shared memory holds
// by a bitonic network, keeps the best, and sorts them with the next part of the row. What is more
// than it keeps it finds in further passes over the row, among what is worse than the results so
// far.
#include "EmitGpuTopK.h"
#include "LoopNest.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

/// Items that a block sorts: 12 bytes each are 48 KiB.
static constexpr int64_t mostSlots = 4096;
static constexpr int64_t mostThreads = 512;

namespace {

class BlockSortEmitter {
public:
  explicit BlockSortEmitter(const RankedRows &rows) : rows(rows), loc(rows.loc) {
    slots = std::min<int64_t>(llvm::bit_ceil<uint64_t>(rows.length()), mostSlots);
    held = rows.length() > slots ? std::min(rows.kept(), slots / 2) : 0;
    passes = held > 0 ? (rows.kept() + held - 1) / held : 1;
    threads = std::min(slots / 2, mostThreads);
  }
  GpuGrid emit(OpBuilder &builder);

private:
  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value add(OpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  /// Calls `body` with every number below `count` that is the thread's.
  void overOwn(OpBuilder &b, int64_t count, function_ref<void(OpBuilder &, Value)> body);
  RankedItem at(OpBuilder &b, Value slot);
  void put(OpBuilder &b, Value slot, const RankedItem &item);
  void emitPass(OpBuilder &b, Value pass);
  void clear(OpBuilder &b);
  void fill(OpBuilder &b, Value part);
  void store(OpBuilder &b, Value pass);
  void sort(OpBuilder &b);
  void exchange(OpBuilder &b, Value pair, Value size, Value stride);

  const RankedRows &rows;
  Location loc;
  int64_t slots = 1;   ///< items that are sorted together; a power of two
  int64_t held = 0;    ///< of them kept from part to part
  int64_t passes = 1;  ///< over the row
  int64_t threads = 1; ///< of a block
  Value thread, row;
  SmallVector<Value> shared; ///< a buffer per word of an item
  RankedItem bound;          ///< the worst result of earlier passes, or none
};

GpuGrid BlockSortEmitter::emit(OpBuilder &builder) {
  thread = emitThreadIndex(builder, loc);
  row = emitBlockIndex(builder, loc);
  for (Type type : rows.types(builder))
    shared.push_back(emitSharedBuffer(builder, loc, slots, type));
  if (passes > 1) { // the first has no bound
    clear(builder);
    emitBarrier(builder, loc);
  }
  emitFor(builder, loc, constant(builder, 0), constant(builder, passes), constant(builder, 1), {},
          [&](OpBuilder &b, Value pass, ValueRange) {
            emitPass(b, pass);
            return SmallVector<Value>();
          });
  return {rows.rows(), threads};
}

void BlockSortEmitter::emitPass(OpBuilder &builder, Value pass) {
  if (passes > 1) {
    bound = at(builder, constant(builder, held - 1));
    emitBarrier(builder, loc);
  }
  clear(builder);
  int64_t fresh = slots - held, parts = (rows.length() + fresh - 1) / fresh;
  emitFor(builder, loc, constant(builder, 0), constant(builder, parts), constant(builder, 1), {},
          [&](OpBuilder &b, Value part, ValueRange) {
            fill(b, part);
            emitBarrier(b, loc);
            sort(b);
            return SmallVector<Value>();
          });
  store(builder, pass);
}

void BlockSortEmitter::clear(OpBuilder &builder) {
  overOwn(builder, held, [&](OpBuilder &b, Value slot) { put(b, slot, rows.none(b)); });
}

/// A thread reads the slots that it clears for the next pass.
void BlockSortEmitter::store(OpBuilder &builder, Value pass) {
  int64_t found = passes > 1 ? held : rows.kept();
  Value first = arith::MulIOp::create(builder, loc, pass, constant(builder, found));
  overOwn(builder, found, [&](OpBuilder &b, Value slot) {
    Value rank = add(b, first, slot), exists;
    if (rows.kept() % found != 0)
      exists =
          arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, rank, constant(b, rows.kept()));
    emitWhere(b, loc, exists,
              [&](OpBuilder &where) { rows.write(where, row, rank, at(where, slot)); });
  });
}

void BlockSortEmitter::overOwn(OpBuilder &builder, int64_t count,
                               function_ref<void(OpBuilder &, Value)> body) {
  emitFor(builder, loc, thread, constant(builder, count), constant(builder, threads), {},
          [&](OpBuilder &b, Value number, ValueRange) {
            body(b, number);
            return SmallVector<Value>();
          });
}

RankedItem BlockSortEmitter::at(OpBuilder &b, Value slot) {
  RankedItem item;
  for (auto [buffer, type] : llvm::zip_equal(shared, rows.types(b)))
    item.push_back(loadScalar(b, loc, buffer, slot, type));
  return item;
}

void BlockSortEmitter::put(OpBuilder &b, Value slot, const RankedItem &item) {
  for (auto [buffer, word] : llvm::zip_equal(shared, item))
    storeScalar(b, loc, word, buffer, slot, word.getType());
}

/// Reads a part of the row behind what is kept.
void BlockSortEmitter::fill(OpBuilder &builder, Value part) {
  int64_t fresh = slots - held, last = rows.length() - 1;
  Value first = arith::MulIOp::create(builder, loc, part, constant(builder, fresh));
  overOwn(builder, fresh, [&](OpBuilder &b, Value number) {
    Value position = add(b, first, number);
    Value exists =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ule, position, constant(b, last));
    position = arith::MinUIOp::create(b, loc, position, constant(b, last));
    RankedItem item = rows.read(b, row, position), none = rows.none(b);
    if (passes > 1) {
      Value isLeft =
          arith::OrIOp::create(b, loc, rows.isSame(b, bound, none), rows.isBetter(b, bound, item));
      exists = arith::AndIOp::create(b, loc, exists, isLeft);
    }
    put(b, add(b, number, constant(b, held)), rows.select(b, exists, item, none));
  });
}

void BlockSortEmitter::sort(OpBuilder &builder) {
  int64_t steps = llvm::Log2_64(slots);
  Value zero = constant(builder, 0), one = constant(builder, 1);
  auto overStrides = [&](OpBuilder &outer, Value step, ValueRange) {
    Value size = arith::ShLIOp::create(outer, loc, constant(outer, 2), step);
    Value count = add(outer, step, one);
    emitFor(outer, loc, zero, count, one, {}, [&](OpBuilder &b, Value number, ValueRange) {
      Value back = arith::SubIOp::create(b, loc, step, number);
      Value stride = arith::ShLIOp::create(b, loc, one, back);
      overOwn(b, slots / 2, [&](OpBuilder &own, Value pair) { exchange(own, pair, size, stride); });
      emitBarrier(b, loc);
      return SmallVector<Value>();
    });
    return SmallVector<Value>();
  };
  emitFor(builder, loc, zero, constant(builder, steps), one, {}, overStrides);
}

/// Brings two items into order: best first in every other stretch of `size`, else worst first.
void BlockSortEmitter::exchange(OpBuilder &b, Value pair, Value size, Value stride) {
  Value mask = arith::SubIOp::create(b, loc, stride, constant(b, 1));
  Value low = arith::AndIOp::create(b, loc, pair, mask);
  Value first = arith::SubIOp::create(b, loc, add(b, pair, pair), low);
  Value second = add(b, first, stride);
  RankedItem one = at(b, first), other = at(b, second);
  Value isBestFirst = arith::CmpIOp::create(
      b, loc, arith::CmpIPredicate::eq, arith::AndIOp::create(b, loc, first, size), constant(b, 0));
  Value swaps = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq,
                                      rows.isBetter(b, other, one), isBestFirst);
  put(b, first, rows.select(b, swaps, other, one));
  put(b, second, rows.select(b, swaps, one, other));
}

} // namespace

GpuGrid autopar::emitGpuBlockSort(OpBuilder &builder, const RankedRows &rows) {
  return BlockSortEmitter(rows).emit(builder);
}
