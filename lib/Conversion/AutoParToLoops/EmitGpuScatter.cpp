// SPDX-License-Identifier: Apache-2.0
// Scatter for a GPU without atomics: each warp owns a range of target slices, or a part of each. It
// reads the indices of all updates, 128 at once, and applies those that fall into its range in
// their order, its lanes side by side along the slice. So every element gets its updates in their
// order, as on a CPU. Where targets are so few that most of the GPU would be idle, the warps of a
// block share the updates of one target, each takes a stretch of them, and the partial results are
// joined in the order of the stretches. Results are the same every time.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "ScatterEmitter.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace mlir::autopar;

/// Warps from which on more of them only read the indices more often.
static constexpr int64_t manyWarps = 8192;
static constexpr int64_t warpsPerBlock = 4;
/// Warps of a block that share the updates of a target, at most.
static constexpr int64_t mostShares = 32;
/// Updates that are read before the first of them is applied: a hot target costs a round trip to
/// memory for each such batch. More of them, where the target itself stays in registers.
static constexpr int64_t batchOfRange = 4, batchOfTarget = 8;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

namespace {

/// Updates that a warp looks at together, 32 per mask; a bit is set where one falls into its range.
struct Round {
  SmallVector<Value> masks, locals; ///< which updates, and the lane's target within the range
  Value first;                      ///< update
};

/// An update that is applied.
struct Hit {
  Value exists;        ///< none: it always does
  Value update, local; ///< its number, and its target within the range (i32)
};

class GpuScatterEmitter {
public:
  GpuScatterEmitter(ScatterEmitter &scatter, const ScatterShape &shape)
      : scatter(scatter), shape(shape), loc(scatter.loc) {
    divide();
  }
  GpuGrid emit(OpBuilder &builder);

private:
  void divide();
  void locate(OpBuilder &builder, Value unit);
  void emitCopy(OpBuilder &builder);
  void emitRange(OpBuilder &builder);
  void emitTarget(OpBuilder &builder);
  void storeShares(OpBuilder &builder, ArrayRef<Value> partial);
  /// Calls `body` for each batch of hits; it returns what `carried` becomes.
  SmallVector<Value>
  overBatches(OpBuilder &builder, Value firstRound, Value endRound, ValueRange carried,
              int64_t batch,
              function_ref<SmallVector<Value>(OpBuilder &, ArrayRef<Hit>, ValueRange)> body);
  Round readRound(OpBuilder &builder, Value number);
  Hit takeHit(OpBuilder &builder, Round &round, bool isCertain);

  using Load = Value (ScatterEmitter::*)(OpBuilder &, Value);
  /// The lane's elements of a slice; where the hit does not exist anything, unread.
  SmallVector<Value> load(OpBuilder &builder, Load function, Value slice, Value exists = {});
  /// Those of a target: lanes without elements read none, since others store there.
  SmallVector<Value> loadTarget(OpBuilder &builder, Load function, Value slice, Value exists = {}) {
    return load(builder, function, slice, whereInside(builder, exists));
  }
  void store(OpBuilder &builder, ValueRange elements, Value slice, Value exists = {});
  SmallVector<Value> combine(OpBuilder &builder, ValueRange old, ValueRange updates);
  Value positionOf(OpBuilder &builder, Value slice, int64_t element);

  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value word(OpBuilder &b, int64_t value) {
    return arith::ConstantIntOp::create(b, loc, b.getI32Type(), value);
  }
  Value add(OpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value bitAnd(OpBuilder &b, Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); }
  Value times(OpBuilder &b, Value x, int64_t y) {
    return arith::MulIOp::create(b, loc, x, constant(b, y));
  }
  Value less(OpBuilder &b, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, constant(b, y));
  }
  Value isZero(OpBuilder &b, Value x) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, x, word(b, 0));
  }
  Value select(OpBuilder &b, Value condition, Value x, Value y) {
    return arith::SelectOp::create(b, loc, condition, x, y);
  }
  /// `exists` (none: always), of lanes that have elements.
  Value whereInside(OpBuilder &b, Value exists) {
    return exists && isInside ? bitAnd(b, exists, isInside) : exists ? exists : isInside;
  }
  SmallVector<Value> select(OpBuilder &b, Value condition, ValueRange x, ValueRange y) {
    SmallVector<Value> chosen;
    for (auto [left, right] : llvm::zip_equal(x, y))
      chosen.push_back(select(b, condition, left, right));
    return chosen;
  }
  Value toI32(OpBuilder &b, Value x) {
    return arith::IndexCastOp::create(b, loc, b.getI32Type(), x);
  }
  Value toIndex(OpBuilder &b, Value x) {
    return arith::IndexCastOp::create(b, loc, b.getIndexType(), x);
  }

  ScatterEmitter &scatter;
  const ScatterShape &shape;
  Location loc;
  int64_t width = 1;  ///< neighbouring elements of a slice that a lane takes
  int64_t parts = 1;  ///< warps that share a slice
  int64_t ranges = 1; ///< of target slices
  int64_t rangeSlices = 1;
  int64_t shares = 1;            ///< warps that share the updates of one target
  int64_t masks = 1, rounds = 0; ///< of 32 updates in a round; rounds that all updates are
  Value lane, low, start;        ///< low: the first target; start: the lane's first element
  Value share;                   ///< the warp's number among the shares
  Value isInside;                ///< whether the lane has elements, where some have none
};

void GpuScatterEmitter::divide() {
  width = std::max<int64_t>(16 / scatter.elementBytes(), 1);
  while (shape.slice % width != 0)
    width /= 2;
  parts = divideUp(shape.slice / width, kWarpThreads);
  ranges = std::clamp<int64_t>(manyWarps / parts, 1, shape.targets);
  rangeSlices = divideUp(shape.targets, ranges);
  ranges = divideUp(shape.targets, rangeSlices);
  masks = std::clamp<int64_t>(shape.updates / kWarpThreads, 1, 4);
  rounds = divideUp(shape.updates, masks * kWarpThreads);
  bool mayShare = rangeSlices == 1 && !scatter.assigns() && !scatter.element.isInteger(1);
  int64_t idle = manyWarps / (ranges * parts);
  if (mayShare && idle > 1 && rounds > 1)
    shares = llvm::bit_floor<uint64_t>(std::min({idle, rounds, mostShares}));
}

GpuGrid GpuScatterEmitter::emit(OpBuilder &builder) {
  // Else the assembler saves registers for more blocks, and waits for one load of a batch after the
  // other.
  builder.getBlock()->getParentOp()->setAttr("autopar.few_blocks", builder.getUnitAttr());
  int64_t units = ranges * parts, warps = shares > 1 ? shares : warpsPerBlock;
  GpuGrid grid{shares > 1 ? units : divideUp(units, warps), warps * kWarpThreads};
  Value thread = emitThreadIndex(builder, loc), warpSize = constant(builder, kWarpThreads);
  lane = arith::RemUIOp::create(builder, loc, thread, warpSize);
  Value warp = arith::DivUIOp::create(builder, loc, thread, warpSize);
  Value block = emitBlockIndex(builder, loc);
  if (shares > 1) {
    share = warp;
    locate(builder, block);
    emitTarget(builder);
    return grid;
  }
  Value unit = add(builder, times(builder, block, warps), warp);
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

/// What part of which targets is the warp's.
void GpuScatterEmitter::locate(OpBuilder &builder, Value unit) {
  int64_t vectors = shape.slice / width;
  Value count = constant(builder, parts);
  low = times(builder, arith::DivUIOp::create(builder, loc, unit, count), rangeSlices);
  Value part = arith::RemUIOp::create(builder, loc, unit, count);
  Value vector = add(builder, times(builder, part, kWarpThreads), lane);
  if (vectors % kWarpThreads != 0) {
    isInside = less(builder, vector, vectors);
    // Lanes without elements read those of another.
    vector = arith::MinUIOp::create(builder, loc, vector, constant(builder, vectors - 1));
  }
  start = times(builder, vector, width);
}

//===-- elements of a slice
//-----------------------------------------------------------------------===//

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
            bool mayLeave = shape.targets % rangeSlices != 0;
            emitWhere(b, loc, mayLeave ? less(b, slice, shape.targets) : Value(),
                      [&](OpBuilder &where) {
                        store(where, loadTarget(where, &ScatterEmitter::loadInput, slice), slice);
                      });
            return SmallVector<Value>();
          });
}

//===-- which updates
//-----------------------------------------------------------------------------===//

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
    Value target = scatter.target(builder, update, shape, exists);
    // What lies below the range is a huge number.
    Value local = arith::SubIOp::create(builder, loc, target, low);
    hits.push_back(bitAnd(builder, exists, less(builder, local, rangeSlices)));
    round.locals.push_back(toI32(builder, local));
  }
  Value everybody = word(builder, -1);
  for (Value hit : hits)
    round.masks.push_back(NVVM::VoteSyncOp::create(builder, loc, builder.getI32Type(), everybody,
                                                   hit, NVVM::VoteSyncKind::ballot));
  return round;
}

/// The first update that is left, and takes it off the masks.
Hit GpuScatterEmitter::takeHit(OpBuilder &builder, Round &round, bool isCertain) {
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
  if (rangeSlices > 1)
    hit.local =
        gpu::ShuffleOp::create(builder, loc, builder.getI32Type(), builder.getI1Type(), local,
                               source, word(builder, kWarpThreads), gpu::ShuffleMode::IDX)
            .getShuffleResult();
  hit.update = add(builder, round.first, toIndex(builder, add(builder, offset, source)));
  return hit;
}

SmallVector<Value> GpuScatterEmitter::overBatches(
    OpBuilder &builder, Value firstRound, Value endRound, ValueRange carried, int64_t batch,
    function_ref<SmallVector<Value>(OpBuilder &, ArrayRef<Hit>, ValueRange)> body) {
  auto overRound = [&](OpBuilder &b, Value number, ValueRange outer) {
    Round round = readRound(b, number);
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

//===-- what is done with them
//--------------------------------------------------------------------===//

/// Slices are read and stored for each batch. Where two of its updates go to the same one, the
/// second gets what the first made of it.
void GpuScatterEmitter::emitRange(OpBuilder &builder) {
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
  overBatches(builder, constant(builder, 0), constant(builder, rounds), {}, batchOfRange, apply);
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
  sum = overBatches(builder, begin, end, sum, batchOfTarget, apply);
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

} // namespace

GpuGrid autopar::emitGpuScatter(OpBuilder &builder, ScatterEmitter &scatter,
                                const ScatterShape &shape) {
  return GpuScatterEmitter(scatter, shape).emit(builder);
}
