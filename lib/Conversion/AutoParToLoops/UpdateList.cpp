// SPDX-License-Identifier: Apache-2.0
#include "UpdateList.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::autopar;

UpdateList::UpdateList(OpBuilder &builder, Location loc, int64_t warps, Value warp, Value lane)
    : loc(loc), warps(warps), warp(warp), lane(lane) {
  Type i32 = builder.getI32Type();
  updates = emitSharedBuffer(builder, loc, capacity(), i32);
  targets = emitSharedBuffer(builder, loc, capacity(), i32);
  hitsOfWarps = emitSharedBuffer(builder, loc, 2 * warps, i32);
}

Value UpdateList::word(OpBuilder &builder, int64_t value) const {
  return arith::ConstantIntOp::create(builder, loc, builder.getI32Type(), value);
}

Value UpdateList::append(OpBuilder &b, Value number, Value count,
                         function_ref<Found(OpBuilder &, Value)> find) {
  auto constant = [&](int64_t value) { return indexConstant(b, loc, value); };
  auto add = [&](Value x, Value y) -> Value { return arith::AddIOp::create(b, loc, x, y); };
  auto times = [&](Value x, int64_t y) -> Value {
    return arith::MulIOp::create(b, loc, x, constant(y));
  };
  auto toWord = [&](Value x) -> Value {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), x);
  };
  auto ones = [&](Value mask) -> Value { return math::CtPopOp::create(b, loc, mask); };
  Value first = add(add(times(number, stretch()), times(warp, kPerWarp)), lane);
  SmallVector<Value> numbers, masks;
  SmallVector<Found> found;
  for (int64_t i = 0; i < kPerLane; ++i) {
    numbers.push_back(add(first, constant(i * kWarpThreads)));
    found.push_back(find(b, numbers.back()));
  }
  Value hits = word(b, 0);
  for (const Found &own : found) {
    masks.push_back(NVVM::VoteSyncOp::create(b, loc, b.getI32Type(), word(b, -1), own.isHit,
                                             NVVM::VoteSyncKind::ballot));
    hits = add(hits, ones(masks.back()));
  }
  // A warp that is a stretch ahead writes beside what others still read.
  Value parity = arith::RemUIOp::create(b, loc, number, constant(2));
  Value numbersOfHits = times(parity, warps);
  Value isFirstLane = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, lane, constant(0));
  emitWhere(b, loc, isFirstLane, [&](OpBuilder &inner) {
    Value place = arith::AddIOp::create(inner, loc, numbersOfHits, warp);
    memref::StoreOp::create(inner, loc, hits, hitsOfWarps, place);
  });
  emitBarrier(b, loc);
  Value position = count;
  for (int64_t other = 0; other < warps; ++other) {
    Value theirs = memref::LoadOp::create(b, loc, hitsOfWarps, add(numbersOfHits, constant(other)));
    Value isBefore =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, constant(other), warp);
    position = add(position, arith::SelectOp::create(b, loc, isBefore, theirs, word(b, 0)));
    count = add(count, theirs);
  }
  Value lanesBelow = arith::SubIOp::create(
      b, loc, arith::ShLIOp::create(b, loc, word(b, 1), toWord(lane)), word(b, 1));
  for (auto [update, own, mask] : llvm::zip_equal(numbers, found, masks)) {
    Value below = ones(arith::AndIOp::create(b, loc, mask, lanesBelow));
    Value place = add(position, below);
    emitWhere(b, loc, own.isHit, [&, update = update, own = own](OpBuilder &inner) {
      Value at = arith::IndexCastOp::create(inner, loc, inner.getIndexType(), place);
      Value word = arith::IndexCastOp::create(inner, loc, inner.getI32Type(), update);
      memref::StoreOp::create(inner, loc, word, updates, at);
      memref::StoreOp::create(inner, loc, own.target, targets, at);
    });
    position = add(position, ones(mask));
  }
  return count;
}

Value UpdateList::updateAt(OpBuilder &builder, Value position) const {
  return memref::LoadOp::create(builder, loc, updates, position);
}

Value UpdateList::targetAt(OpBuilder &builder, Value position) const {
  return memref::LoadOp::create(builder, loc, targets, position);
}
