// SPDX-License-Identifier: Apache-2.0
// Which updates fall into the range of a warp: the indices of several are read before one of them
// is looked at, lanes vote, and what was found is taken off the votes in order, in batches.
#include "GpuScatter.h"
#include "LoopNest.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::autopar;

/// Reads all indices of the round before it looks at any of them.
Round GpuScatterEmitter::readRound(OpBuilder &builder, Value number) {
  int64_t stride = masks * kWarpThreads;
  Round round;
  round.first = times(builder, number, stride);
  SmallVector<Value> hits;
  for (int64_t i = 0; i < masks; ++i) {
    Value update =
        add(builder, add(builder, round.first, lane), constant(builder, i * kWarpThreads));
    Value exists;
    if (shape.updates % stride != 0) {
      exists = less(builder, update, shape.updates);
      update = arith::MinUIOp::create(builder, loc, update, constant(builder, shape.updates - 1));
    }
    update = fromFirst(builder, firstUpdate, update);
    Value target = scatter.target(builder, update, firstTarget, shape, exists);
    // What lies below the range is a huge number.
    Value local = arith::SubIOp::create(builder, loc, target, low);
    hits.push_back(bitAnd(builder, exists, less(builder, local, rangeSlices)));
    round.locals.push_back(toI32(builder, local));
  }
  for (Value hit : hits)
    round.masks.push_back(ballot(builder, hit));
  return round;
}

Value GpuScatterEmitter::ballot(OpBuilder &builder, Value hit) {
  return NVVM::VoteSyncOp::create(builder, loc, builder.getI32Type(), word(builder, -1), hit,
                                  NVVM::VoteSyncKind::ballot);
}

/// Those of the block's updates that fall into the range of the warp.
Round GpuScatterEmitter::readListed(OpBuilder &builder, const UpdateList &list, Value count,
                                    Value number) {
  Round round;
  Value place = add(builder, times(builder, number, kWarpThreads), lane);
  Value exists = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, place, count);
  // What lies behind the list is not there to be read.
  place = select(builder, exists, place, constant(builder, 0));
  Value target = toIndex(builder, list.targetAt(builder, place));
  Value local = arith::SubIOp::create(builder, loc, target, low);
  Value hit = bitAnd(builder, exists, less(builder, local, rangeSlices));
  round.listed = list.updateAt(builder, place);
  round.locals = {toI32(builder, local)};
  round.masks = {ballot(builder, hit)};
  return round;
}

/// The first update that is left, and takes it off the masks.
Hit GpuScatterEmitter::takeHit(OpBuilder &builder, Round &round, bool isCertain) {
  int64_t masks = round.masks.size();
  Value mask = round.masks.back(), local = round.locals.back();
  Value offset = word(builder, (masks - 1) * kWarpThreads);
  for (int64_t i = masks - 1; i-- > 0;) {
    Value isEmpty = isZero(builder, round.masks[i]);
    mask = select(builder, isEmpty, mask, round.masks[i]);
    local = select(builder, isEmpty, local, round.locals[i]);
    offset = select(builder, isEmpty, offset, word(builder, i * kWarpThreads));
  }
  Value everybody = word(builder, -1), before;
  for (Value &own : round.masks) {
    Value rest = bitAnd(builder, own, add(builder, own, everybody));
    Value old = own;
    own = before ? select(builder, isZero(builder, before), rest, own) : rest;
    before = before ? arith::OrIOp::create(builder, loc, before, old).getResult() : old;
  }
  Hit hit;
  if (!isCertain)
    hit.exists =
        arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, mask, word(builder, 0));
  // The lowest bit that is set: as many as there are below it.
  Value below = bitAnd(builder, arith::XOrIOp::create(builder, loc, mask, everybody),
                       add(builder, mask, everybody));
  Value source = math::CtPopOp::create(builder, loc, below);
  auto ofSource = [&](Value own) -> Value {
    return gpu::ShuffleOp::create(builder, loc, builder.getI32Type(), builder.getI1Type(), own,
                                  source, word(builder, kWarpThreads), gpu::ShuffleMode::IDX)
        .getShuffleResult();
  };
  if (rangeSlices > 1)
    hit.local = ofSource(local);
  Value number = round.listed
                     ? toIndex(builder, ofSource(round.listed))
                     : add(builder, round.first, toIndex(builder, add(builder, offset, source)));
  hit.update = fromFirst(builder, firstUpdate, number);
  return hit;
}

SmallVector<Value> GpuScatterEmitter::overBatches(
    OpBuilder &builder, Value firstRound, Value endRound, ValueRange carried, int64_t batch,
    int64_t masks, function_ref<Round(OpBuilder &, Value)> read,
    function_ref<SmallVector<Value>(OpBuilder &, ArrayRef<Hit>, ValueRange)> body) {
  auto overRound = [&](OpBuilder &b, Value number, ValueRange outer) {
    Round round = read(b, number);
    Value total = word(b, batch - 1);
    for (Value mask : round.masks)
      total = add(b, total, math::CtPopOp::create(b, loc, mask));
    Value batches = arith::DivUIOp::create(b, loc, total, word(b, batch));
    SmallVector<Value> initial = round.masks;
    llvm::append_range(initial, outer);
    auto overBatch = [&](OpBuilder &inner, Value, ValueRange values) {
      Round left = round;
      left.masks.assign(values.begin(), values.begin() + masks);
      SmallVector<Hit> hits;
      for (int64_t i = 0; i < batch; ++i)
        hits.push_back(takeHit(inner, left, /*isCertain=*/i == 0));
      SmallVector<Value> next = left.masks;
      llvm::append_range(next, body(inner, hits, values.drop_front(masks)));
      return next;
    };
    scf::ForOp loop =
        emitFor(b, loc, constant(b, 0), toIndex(b, batches), constant(b, 1), initial, overBatch);
    return llvm::to_vector_of<Value>(loop.getResults().drop_front(masks));
  };
  scf::ForOp loop =
      emitFor(builder, loc, firstRound, endRound, constant(builder, 1), carried, overRound);
  return llvm::to_vector_of<Value>(loop.getResults());
}
