// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "ByteDotSums.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace mlir::autopar;

/// The largest sum of two products of a byte with a sign and a number of `bits` without one.
static int64_t largestPair(int64_t bits) { return 2 * 128 * ((int64_t{1} << bits) - 1); }

VectorType ByteDotSums::bytes(OpBuilder &builder, ByteDots dots) {
  return VectorType::get({ByteVectors::bytesOf(dots)}, builder.getI8Type());
}

VectorType ByteDotSums::sums(OpBuilder &builder, ByteDots dots) {
  return VectorType::get({ByteVectors::sumsOf(dots)}, builder.getI32Type());
}

ByteDotSums::ByteDotSums(Location loc, ByteDots dots, int64_t bits, ArrayRef<Value> sums)
    : loc(loc), dots(dots), mostPairs(INT16_MAX / largestPair(bits)), total(sums),
      narrow(sums.size()), pairs(sums.size(), 0) {
  assert(bits <= mostBitsOf(dots) && "sums of wider numbers saturate");
}

ByteDotSums::ByteDotSums(OpBuilder &builder, Location loc, ByteDots dots, int64_t bits,
                         int64_t vectors)
    : ByteDotSums(loc, dots, bits, SmallVector<Value>(vectors)) {
  Value none = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(sums(builder, dots)));
  llvm::fill(total, none);
}

static Value call(OpBuilder &builder, Location loc, StringRef instruction, Type type,
                  ValueRange operands) {
  return LLVM::CallIntrinsicOp::create(builder, loc, type, builder.getStringAttr(instruction),
                                       operands)
      .getResult(0);
}

void ByteDotSums::add(OpBuilder &builder, size_t vector, Value withoutSign, Value withSign) {
  if (dots == ByteDots::Vnni) {
    total[vector] = call(builder, loc, "llvm.x86.avx512.vpdpbusd.512", sums(builder, dots),
                         {total[vector], withoutSign, withSign});
    return;
  }
  auto pairsType = VectorType::get({ByteVectors::bytesOf(dots) / 2}, builder.getI16Type());
  Value added = call(builder, loc, "llvm.x86.avx2.pmadd.ub.sw", pairsType, {withoutSign, withSign});
  Value &before = narrow[vector];
  before = before ? arith::AddIOp::create(builder, loc, before, added).getResult() : added;
  if (++pairs[vector] == mostPairs)
    flush(builder, vector);
}

/// Neighbours of the sums of pairs are added in 32 bits.
void ByteDotSums::flush(OpBuilder &builder, size_t vector) {
  if (!narrow[vector])
    return;
  auto type = cast<VectorType>(narrow[vector].getType());
  Value ones = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getI16IntegerAttr(1)));
  Value wide =
      call(builder, loc, "llvm.x86.avx2.pmadd.wd", sums(builder, dots), {narrow[vector], ones});
  total[vector] = arith::AddIOp::create(builder, loc, total[vector], wide);
  narrow[vector] = {};
  pairs[vector] = 0;
}

SmallVector<Value> ByteDotSums::take(OpBuilder &builder) {
  for (size_t vector = 0; vector < total.size(); ++vector)
    flush(builder, vector);
  return total;
}
