// SPDX-License-Identifier: Apache-2.0
// Bitonic networks of a warp.
#include "WarpSort.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mlir::autopar;

WarpSort::WarpSort(const RankedRows &rows, OpBuilder &builder, Value lane) : rows(rows) {
  Location loc = rows.loc;
  for (int64_t bit = 1; bit < kWarpThreads; bit *= 2) {
    Value own = arith::AndIOp::create(builder, loc, lane, indexConstant(builder, loc, bit));
    bits.push_back(arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, own,
                                         indexConstant(builder, loc, 0)));
  }
}

RankedItem WarpSort::exchange(OpBuilder &b, const RankedItem &item, int64_t mask,
                              Value keepsWorse) const {
  RankedItem other;
  for (Value word : item)
    other.push_back(emitShuffleXor(b, rows.loc, word, mask));
  Value isBetter = rows.isBetter(b, item, other);
  Value stays = arith::XOrIOp::create(b, rows.loc, isBetter, keepsWorse);
  return rows.select(b, stays, item, other);
}

RankedItem WarpSort::sort(OpBuilder &b, RankedItem item, int64_t lanes, bool isBestFirst) const {
  for (int64_t size = 2; size <= lanes; size *= 2)
    for (int64_t mask = size / 2; mask > 0; mask /= 2) {
      Value keepsWorse = bits[llvm::Log2_64(mask)];
      // Neighbours are sorted in opposite orders; the last of all are alone.
      if (size < lanes)
        keepsWorse = arith::XOrIOp::create(b, rows.loc, keepsWorse, bits[llvm::Log2_64(size)]);
      if (!isBestFirst) {
        Value yes = arith::ConstantIntOp::create(b, rows.loc, b.getI1Type(), 1);
        keepsWorse = arith::XOrIOp::create(b, rows.loc, keepsWorse, yes);
      }
      item = exchange(b, item, mask, keepsWorse);
    }
  return item;
}

RankedItem WarpSort::merge(OpBuilder &b, const RankedItem &bestFirst,
                           const RankedItem &worstFirst) const {
  RankedItem item = rows.better(b, bestFirst, worstFirst);
  for (int64_t mask = kWarpThreads / 2; mask > 0; mask /= 2)
    item = exchange(b, item, mask, bits[llvm::Log2_64(mask)]);
  return item;
}
