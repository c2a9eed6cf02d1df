// SPDX-License-Identifier: Apache-2.0
// Scatter for a GPU without atomics: each warp owns a range of target slices, or a part of each. It
// reads the indices of all updates, 128 at once, and applies those that fall into its range in
// their order, its lanes side by side along the slice. So every element gets its updates in their
// order, as on a CPU. Where there are many updates, a block reads the indices once for all of its
// warps, which then look at those that fall into the ranges of the block alone. Where targets are
// so few that most of the GPU would be idle, the warps of a block share the updates of one target,
// each takes a stretch of them, and the partial results are joined in the order of the stretches.
// Results are the same every time. A block works for one batch, and reads the indices of its
// updates alone.
#include "GpuScatter.h"
#include "LoopNest.h"

using namespace mlir;
using namespace mlir::autopar;

/// Warps from which on more of them only read the indices more often.
static constexpr int64_t manyWarps = 8192;
static constexpr int64_t warpsPerBlock = 4;
/// Warps of a block that reads indices for all of them, and updates from which on it does.
static constexpr int64_t warpsPerList = 16, manyUpdates = 4096;
/// Warps of a block that share the updates of a target, at most.
static constexpr int64_t mostShares = 32;
/// Updates that are read before the first of them is applied: a hot target costs a round trip to
/// memory for each such batch. More of them, where the target itself stays in registers.
static constexpr int64_t batchOfRange = 4, batchOfTarget = 8;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

void GpuScatterEmitter::divide() {
  width = std::max<int64_t>(16 / scatter.elementBytes(), 1);
  while (shape.slice % width != 0)
    width /= 2;
  parts = divideUp(shape.slice / width, kWarpThreads);
  ranges = std::clamp<int64_t>(manyWarps / (shape.batches * parts), 1, shape.targets);
  rangeSlices = divideUp(shape.targets, ranges);
  ranges = divideUp(shape.targets, rangeSlices);
  masks = std::clamp<int64_t>(shape.updates / kWarpThreads, 1, 4);
  rounds = divideUp(shape.updates, masks * kWarpThreads);
  bool mayShare = rangeSlices == 1 && !scatter.assigns() && !scatter.element.isInteger(1);
  int64_t idle = manyWarps / (shape.batches * ranges * parts);
  if (mayShare && idle > 1 && rounds > 1)
    shares = llvm::bit_floor<uint64_t>(std::min({idle, rounds, mostShares}));
}

GpuGrid GpuScatterEmitter::emit(OpBuilder &builder) {
  // Else the assembler saves registers for more blocks, and waits for one load of a batch after the
  // other.
  builder.getBlock()->getParentOp()->setAttr("autopar.few_blocks", builder.getUnitAttr());
  int64_t units = ranges * parts;
  bool isListed = rangeSlices > 1 && shape.updates >= manyUpdates && units > warpsPerList;
  int64_t warps = shares > 1 ? shares : isListed ? warpsPerList : warpsPerBlock;
  int64_t blocks = shares > 1 ? units : divideUp(units, warps);
  GpuGrid grid{shape.batches * blocks, warps * kWarpThreads};
  Value thread = emitThreadIndex(builder, loc), warpSize = constant(builder, kWarpThreads);
  lane = emitLaneIndex(builder, loc);
  Value warp = arith::DivUIOp::create(builder, loc, thread, warpSize);
  locateBatch(builder, blocks);
  if (shares > 1) {
    share = warp;
    locate(builder, block);
    emitTarget(builder);
    return grid;
  }
  Value unit = add(builder, times(builder, block, warps), warp);
  if (isListed) {
    locate(builder, unit);
    emitListed(builder, warp);
    return grid;
  }
  // All lanes of a warp exist, or none: they vote.
  Value exists = units % warps != 0 ? less(builder, unit, units) : Value();
  emitWhere(builder, loc, exists, [&](OpBuilder &b) {
    locate(b, unit);
    if (rangeSlices == 1)
      return emitTarget(b);
    if (scatter.copies())
      emitCopy(b);
    emitRange(b);
  });
  return grid;
}

/// Which batch is the block's, of `blocks` each.
void GpuScatterEmitter::locateBatch(OpBuilder &builder, int64_t blocks) {
  block = emitBlockIndex(builder, loc);
  endTarget = constant(builder, shape.batches * shape.targets);
  if (shape.batches == 1)
    return;
  Value count = constant(builder, blocks);
  Value batch = arith::DivUIOp::create(builder, loc, block, count);
  block = arith::RemUIOp::create(builder, loc, block, count);
  firstTarget = times(builder, batch, shape.targets);
  firstUpdate = times(builder, batch, shape.updates);
  endTarget = add(builder, firstTarget, constant(builder, shape.targets));
}

/// What part of which targets is the warp's.
void GpuScatterEmitter::locate(OpBuilder &builder, Value unit) {
  int64_t vectors = shape.slice / width;
  Value count = constant(builder, parts);
  Value range = arith::DivUIOp::create(builder, loc, unit, count);
  low = fromFirst(builder, firstTarget, times(builder, range, rangeSlices));
  Value part = arith::RemUIOp::create(builder, loc, unit, count);
  Value vector = add(builder, times(builder, part, kWarpThreads), lane);
  if (vectors % kWarpThreads != 0) {
    isInside = less(builder, vector, vectors);
    // Lanes without elements read those of another.
    vector = arith::MinUIOp::create(builder, loc, vector, constant(builder, vectors - 1));
  }
  start = times(builder, vector, width);
}

//===-- elements of a slice ------------------------------------------------------------------===//

Value GpuScatterEmitter::positionOf(OpBuilder &builder, Value slice, int64_t element) {
  Value own = add(builder, start, constant(builder, element));
  return add(builder, times(builder, slice, shape.slice), own);
}

SmallVector<Value> GpuScatterEmitter::load(OpBuilder &builder, Load function, Value slice,
                                           Value exists) {
  auto read = [&](OpBuilder &b) {
    SmallVector<Value> elements;
    for (int64_t k = 0; k < width; ++k)
      elements.push_back((scatter.*function)(b, positionOf(b, slice, k)));
    return elements;
  };
  if (!exists)
    return read(builder);
  Value zero = Scalars(builder, loc, scatter.element).integer(0);
  SmallVector<Type> types(width, zero.getType());
  auto where = scf::IfOp::create(builder, loc, types, exists, /*withElseRegion=*/true);
  OpBuilder then = where.getThenBodyBuilder(), other = where.getElseBodyBuilder();
  scf::YieldOp::create(then, loc, read(then));
  scf::YieldOp::create(other, loc, SmallVector<Value>(width, zero));
  return llvm::to_vector_of<Value>(where.getResults());
}

void GpuScatterEmitter::store(OpBuilder &builder, ValueRange elements, Value slice, Value exists) {
  emitWhere(builder, loc, whereInside(builder, exists), [&](OpBuilder &b) {
    for (auto [k, element] : llvm::enumerate(elements))
      scatter.store(b, element, positionOf(b, slice, k));
  });
}

SmallVector<Value> GpuScatterEmitter::combine(OpBuilder &builder, ValueRange old,
                                              ValueRange updates) {
  SmallVector<Value> combined;
  for (auto [left, right] : llvm::zip_equal(old, updates))
    combined.push_back(scatter.combine(builder, left, right));
  return combined;
}

void GpuScatterEmitter::emitCopy(OpBuilder &builder) {
  emitFor(builder, loc, constant(builder, 0), constant(builder, rangeSlices), constant(builder, 1),
          {}, [&](OpBuilder &b, Value local, ValueRange) {
            Value slice = add(b, low, local);
            Value exists =
                arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, slice, endTarget);
            emitWhere(b, loc, exists, [&](OpBuilder &where) {
              store(where, loadTarget(where, &ScatterEmitter::loadInput, slice), slice);
            });
            return SmallVector<Value>();
          });
}

//===-- what is done with them ---------------------------------------------------------------===//

/// Slices are read and stored for each batch. Where two of its updates go to the same one, the
/// second gets what the first made of it.
void GpuScatterEmitter::applyRange(OpBuilder &builder, int64_t masks, Value endRound,
                                   function_ref<Round(OpBuilder &, Value)> read) {
  auto apply = [&](OpBuilder &b, ArrayRef<Hit> hits, ValueRange) {
    SmallVector<SmallVector<Value>> updates, old;
    SmallVector<Value> slices;
    for (const Hit &hit : hits) {
      slices.push_back(add(b, low, toIndex(b, hit.local)));
      updates.push_back(load(b, &ScatterEmitter::loadUpdate, hit.update, hit.exists));
    }
    for (size_t i = 0; i < hits.size() && !scatter.assigns(); ++i)
      old.push_back(loadTarget(b, &ScatterEmitter::loadOutput, slices[i], hits[i].exists));
    for (size_t i = 0; i < old.size(); ++i) {
      updates[i] = combine(b, old[i], updates[i]);
      for (Value &value : updates[i])
        value = scatter.rounded(b, value);
      for (size_t later = i + 1; later < hits.size(); ++later) {
        Value isSame = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, hits[i].local,
                                             hits[later].local);
        old[later] = select(b, isSame, updates[i], old[later]);
      }
    }
    for (auto [hit, slice, made] : llvm::zip_equal(hits, slices, updates))
      store(b, made, slice, hit.exists);
    return SmallVector<Value>();
  };
  overBatches(builder, constant(builder, 0), endRound, {}, batchOfRange, masks, read, apply);
}

void GpuScatterEmitter::emitRange(OpBuilder &builder) {
  applyRange(builder, masks, constant(builder, rounds),
             [&](OpBuilder &b, Value number) { return readRound(b, number); });
}

/// The warps of a block own neighbouring ranges. They apply what is listed once the list might not
/// hold what comes next. Warps behind the last range look for updates, and have none.
void GpuScatterEmitter::emitListed(OpBuilder &builder, Value warp) {
  UpdateList list(builder, loc, warpsPerList, warp, lane);
  if (scatter.copies())
    emitCopy(builder);
  Value firstUnit = times(builder, block, warpsPerList);
  Value begin =
      times(builder, arith::DivUIOp::create(builder, loc, firstUnit, constant(builder, parts)),
            rangeSlices);
  begin = fromFirst(builder, firstTarget, begin);
  Value lastUnit = add(builder, firstUnit, constant(builder, warpsPerList - 1));
  Value end =
      times(builder,
            add(builder, arith::DivUIOp::create(builder, loc, lastUnit, constant(builder, parts)),
                constant(builder, 1)),
            rangeSlices);
  end = fromFirst(builder, firstTarget, end);
  auto find = [&](OpBuilder &b, Value update) {
    Value exists;
    if (shape.updates % list.stretch() != 0) {
      exists = less(b, update, shape.updates);
      update = arith::MinUIOp::create(b, loc, update, constant(b, shape.updates - 1));
    }
    update = fromFirst(b, firstUpdate, update);
    Value target = scatter.target(b, update, firstTarget, shape, exists);
    Value isBehind = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::uge, target, begin);
    Value isBefore = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, target, end);
    return UpdateList::Found{bitAnd(b, exists, bitAnd(b, isBehind, isBefore)), toI32(b, target)};
  };
  auto apply = [&](OpBuilder &b, Value listed) {
    emitBarrier(b, loc);
    Value count = toIndex(b, listed);
    Value lists = arith::DivUIOp::create(b, loc, add(b, count, constant(b, kWarpThreads - 1)),
                                         constant(b, kWarpThreads));
    applyRange(b, 1, lists, [&](OpBuilder &inner, Value number) {
      return readListed(inner, list, count, number);
    });
    emitBarrier(b, loc);
  };
  int64_t stretches = divideUp(shape.updates, list.stretch());
  auto overStretch = [&](OpBuilder &b, Value number, ValueRange carried) {
    Value count = list.append(b, number, carried[0], find);
    Value isLast =
        arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, number, constant(b, stretches - 1));
    Value isFull = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ugt, count,
                                         word(b, list.capacity() - list.stretch()));
    Value isDue = arith::OrIOp::create(b, loc, isLast, isFull);
    emitWhere(b, loc, isDue, [&](OpBuilder &inner) { apply(inner, count); });
    return SmallVector<Value>{select(b, isDue, word(b, 0), count)};
  };
  emitFor(builder, loc, constant(builder, 0), constant(builder, stretches), constant(builder, 1),
          word(builder, 0), overStretch);
}

/// The warp's part of the one target stays in registers.
void GpuScatterEmitter::emitTarget(OpBuilder &builder) {
  SmallVector<Value> sum = loadTarget(builder, &ScatterEmitter::loadInput, low);
  Value begin = constant(builder, 0), end = constant(builder, rounds);
  if (shares > 1) {
    int64_t stretch = divideUp(rounds, shares);
    begin = times(builder, share, stretch);
    end =
        arith::MinUIOp::create(builder, loc, add(builder, begin, constant(builder, stretch)), end);
    Value isFirst = less(builder, share, 1);
    sum = select(builder, isFirst, sum, SmallVector<Value>(width, scatter.identity(builder)));
  }
  auto apply = [&](OpBuilder &b, ArrayRef<Hit> hits, ValueRange carried) {
    SmallVector<SmallVector<Value>> updates;
    for (const Hit &hit : hits)
      updates.push_back(load(b, &ScatterEmitter::loadUpdate, hit.update, hit.exists));
    SmallVector<Value> running(carried);
    for (auto [hit, update] : llvm::zip_equal(hits, updates)) {
      SmallVector<Value> next = combine(b, running, update);
      for (Value &value : next)
        value = shares > 1 ? value : scatter.rounded(b, value);
      running = hit.exists ? select(b, hit.exists, next, running) : next;
    }
    return running;
  };
  sum = overBatches(
      builder, begin, end, sum, batchOfTarget, masks,
      [&](OpBuilder &b, Value number) { return readRound(b, number); }, apply);
  if (shares == 1)
    return store(builder, sum, low);
  storeShares(builder, sum);
}

/// The first of the shares joins what all of them made.
void GpuScatterEmitter::storeShares(OpBuilder &builder, ArrayRef<Value> partial) {
  Type scalar = partial[0].getType();
  int64_t elements = kWarpThreads * width;
  Value buffer = emitSharedBuffer(builder, loc, shares * elements, scalar);
  auto place = [&](OpBuilder &b, Value number, int64_t k) {
    Value own = add(b, times(b, lane, width), constant(b, k));
    return add(b, times(b, number, elements), own);
  };
  for (auto [k, value] : llvm::enumerate(partial))
    storeScalar(builder, loc, value, buffer, place(builder, share, k), scalar);
  emitBarrier(builder, loc);
  auto next = [&](OpBuilder &b, Value number, ValueRange sum) {
    SmallVector<Value> other;
    for (int64_t k = 0; k < width; ++k)
      other.push_back(loadScalar(b, loc, buffer, place(b, number, k), scalar));
    return combine(b, sum, other);
  };
  emitWhere(builder, loc, less(builder, share, 1), [&](OpBuilder &b) {
    scf::ForOp loop =
        emitFor(b, loc, constant(b, 1), constant(b, shares), constant(b, 1), partial, next);
    store(b, loop.getResults(), low);
  });
}

GpuGrid autopar::emitGpuScatter(OpBuilder &builder, ScatterEmitter &scatter,
                                const ScatterShape &shape) {
  return GpuScatterEmitter(scatter, shape).emit(builder);
}
