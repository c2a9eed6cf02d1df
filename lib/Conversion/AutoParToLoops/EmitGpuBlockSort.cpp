// SPDX-License-Identifier: Apache-2.0
// More than 32 results per row for a GPU: a block sorts as much of the row as shared memory holds
// by a bitonic network, keeps the best, and sorts them with the next part of the row, which it
// reads once.
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
    held = rows.length() > slots ? rows.kept() : 0;
    threads = std::min(slots / 2, mostThreads);
  }
  /// Whether a part of the row is left to sort beside what is kept.
  bool fits() const { return held <= slots / 2; }
  GpuGrid emit(OpBuilder &builder);

private:
  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value add(OpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  /// Calls `body` with every number below `count` that is the thread's.
  void overOwn(OpBuilder &b, int64_t count, function_ref<void(OpBuilder &, Value)> body);
  RankedItem at(OpBuilder &b, Value slot);
  void put(OpBuilder &b, Value slot, const RankedItem &item);
  void fill(OpBuilder &b, Value round);
  void sort(OpBuilder &b);
  void exchange(OpBuilder &b, Value pair, Value size, Value stride);

  const RankedRows &rows;
  Location loc;
  int64_t slots = 1;   ///< items that are sorted together; a power of two
  int64_t held = 0;    ///< of them kept from part to part
  int64_t threads = 1; ///< of a block
  Value thread, row;
  SmallVector<Value> shared; ///< a buffer per word of an item
};

GpuGrid BlockSortEmitter::emit(OpBuilder &builder) {
  thread = emitThreadIndex(builder, loc);
  row = emitBlockIndex(builder, loc);
  for (Type type : rows.types(builder))
    shared.push_back(emitSharedBuffer(builder, loc, slots, type));
  overOwn(builder, held, [&](OpBuilder &b, Value slot) { put(b, slot, rows.none(b)); });
  int64_t fresh = slots - held, parts = (rows.length() + fresh - 1) / fresh;
  emitFor(builder, loc, constant(builder, 0), constant(builder, parts), constant(builder, 1), {},
          [&](OpBuilder &b, Value part, ValueRange) {
            fill(b, part);
            emitBarrier(b, loc);
            sort(b);
            return SmallVector<Value>();
          });
  overOwn(builder, rows.kept(),
          [&](OpBuilder &b, Value rank) { rows.write(b, row, rank, at(b, rank)); });
  return {rows.rows(), threads};
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
    RankedItem item = rows.select(b, exists, rows.read(b, row, position), rows.none(b));
    put(b, add(b, number, constant(b, held)), item);
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

std::optional<GpuGrid> autopar::emitGpuBlockSort(OpBuilder &builder, const RankedRows &rows) {
  BlockSortEmitter emitter(rows);
  if (!emitter.fits())
    return std::nullopt;
  return emitter.emit(builder);
}
