// SPDX-License-Identifier: Apache-2.0
// Scatter for a GPU without atomics: each warp owns a range of target slices. It reads the indices
// of all updates, 32 at once, and applies those that fall into its range one after the other, its
// lanes side by side along the slice. So every element gets its updates in their order, as on a
// CPU, and results are the same every time.
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
/// Vectors that a lane takes of one slice at most.
static constexpr int64_t mostVectors = 8;

static int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

namespace {

class GpuScatterEmitter {
public:
  GpuScatterEmitter(ScatterEmitter &scatter, const ScatterShape &shape)
      : scatter(scatter), shape(shape), loc(scatter.loc) {}

  GpuGrid emit(OpBuilder &builder);

private:
  void divide();
  void emitCopy(OpBuilder &builder);
  void emitUpdates(OpBuilder &builder);
  void emitHits(OpBuilder &builder, Value hits, Value local, Value first);
  /// Calls `body` with the positions in the slice that the lane takes.
  void overSlice(OpBuilder &builder, function_ref<void(OpBuilder &, ArrayRef<Value>)> body);

  Value constant(OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); }
  Value add(OpBuilder &b, Value x, Value y) { return arith::AddIOp::create(b, loc, x, y); }
  Value times(OpBuilder &b, Value x, int64_t y) {
    return arith::MulIOp::create(b, loc, x, constant(b, y));
  }
  Value less(OpBuilder &b, Value x, int64_t y) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, x, constant(b, y));
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
  int64_t width = 1;   ///< neighbouring elements of a vector
  int64_t perLane = 1; ///< vectors that a lane takes of a slice
  int64_t parts = 1;   ///< warps that share a slice
  int64_t ranges = 1;  ///< of target slices
  int64_t rangeSlices = 1;
  Value lane, low, firstVector;
};

void GpuScatterEmitter::divide() {
  width = std::max<int64_t>(16 / scatter.elementBytes(), 1);
  while (shape.slice % width != 0)
    width /= 2;
  int64_t vectors = shape.slice / width;
  perLane = std::clamp<int64_t>(divideUp(vectors, kWarpThreads), 1, mostVectors);
  parts = divideUp(vectors, kWarpThreads * perLane);
  ranges = std::clamp<int64_t>(manyWarps / parts, 1, shape.targets);
  rangeSlices = divideUp(shape.targets, ranges);
  ranges = divideUp(shape.targets, rangeSlices);
}

GpuGrid GpuScatterEmitter::emit(OpBuilder &builder) {
  divide();
  int64_t warps = ranges * parts;
  GpuGrid grid{divideUp(warps, warpsPerBlock), warpsPerBlock * kWarpThreads};
  Value thread = emitGridIndex(builder, loc, grid.threads);
  Value warpSize = constant(builder, kWarpThreads);
  lane = arith::RemUIOp::create(builder, loc, thread, warpSize);
  Value warp = arith::DivUIOp::create(builder, loc, thread, warpSize);
  Value exists = warps % warpsPerBlock != 0 ? less(builder, warp, warps) : Value();
  // All lanes of a warp exist, or none: they vote.
  emitWhere(builder, loc, exists, [&](OpBuilder &b) {
    Value count = constant(b, parts);
    low = times(b, arith::DivUIOp::create(b, loc, warp, count), rangeSlices);
    Value part = arith::RemUIOp::create(b, loc, warp, count);
    firstVector = add(b, times(b, part, kWarpThreads * perLane), lane);
    if (scatter.copies())
      emitCopy(b);
    if (shape.updates > 0)
      emitUpdates(b);
  });
  return grid;
}

void GpuScatterEmitter::overSlice(OpBuilder &builder,
                                  function_ref<void(OpBuilder &, ArrayRef<Value>)> body) {
  int64_t vectors = shape.slice / width;
  for (int64_t i = 0; i < perLane; ++i) {
    Value vector = add(builder, firstVector, constant(builder, i * kWarpThreads));
    bool mayLeave = parts > 1 || (i + 1) * kWarpThreads > vectors;
    Value exists = mayLeave ? less(builder, vector, vectors) : Value();
    emitWhere(builder, loc, exists, [&](OpBuilder &b) {
      SmallVector<Value> positions;
      Value first = times(b, vector, width);
      for (int64_t k = 0; k < width; ++k)
        positions.push_back(add(b, first, constant(b, k)));
      body(b, positions);
    });
  }
}

void GpuScatterEmitter::emitCopy(OpBuilder &builder) {
  emitFor(builder, loc, constant(builder, 0), constant(builder, rangeSlices), constant(builder, 1),
          {}, [&](OpBuilder &b, Value local, ValueRange) {
            Value slice = add(b, low, local);
            bool mayLeave = shape.targets % rangeSlices != 0;
            emitWhere(b, loc, mayLeave ? less(b, slice, shape.targets) : Value(),
                      [&](OpBuilder &where) {
                        Value base = times(where, slice, shape.slice);
                        overSlice(where, [&](OpBuilder &inner, ArrayRef<Value> positions) {
                          for (Value position : positions)
                            scatter.copy(inner, add(inner, base, position));
                        });
                      });
            return SmallVector<Value>();
          });
}

/// Reads the indices of several times 32 updates before it looks at any of them.
void GpuScatterEmitter::emitUpdates(OpBuilder &builder) {
  int64_t together = std::clamp<int64_t>(shape.updates / kWarpThreads, 1, 4);
  int64_t stride = together * kWarpThreads;
  emitFor(builder, loc, constant(builder, 0), constant(builder, divideUp(shape.updates, stride)),
          constant(builder, 1), {}, [&](OpBuilder &b, Value round, ValueRange) {
            SmallVector<Value> firsts, locals, inRange;
            for (int64_t i = 0; i < together; ++i) {
              firsts.push_back(add(b, times(b, round, stride), constant(b, i * kWarpThreads)));
              Value update = add(b, firsts.back(), lane), exists;
              if (shape.updates % stride != 0) {
                exists = less(b, update, shape.updates);
                update = arith::MinUIOp::create(b, loc, update, constant(b, shape.updates - 1));
              }
              Value target = scatter.target(b, update, shape, exists);
              // What lies below the range is a huge number.
              locals.push_back(arith::SubIOp::create(b, loc, target, low));
              Value hits = less(b, locals.back(), rangeSlices);
              inRange.push_back(arith::AndIOp::create(b, loc, exists, hits));
            }
            for (auto [first, local, hits] : llvm::zip(firsts, locals, inRange))
              emitHits(b, hits, local, first);
            return SmallVector<Value>();
          });
}

/// The updates of those lanes where `hits`, in the order of the lanes.
void GpuScatterEmitter::emitHits(OpBuilder &builder, Value hits, Value local, Value first) {
  Type i32 = builder.getI32Type();
  Value everybody = arith::ConstantIntOp::create(builder, loc, i32, -1);
  Value width = arith::ConstantIntOp::create(builder, loc, i32, kWarpThreads);
  Value mask =
      NVVM::VoteSyncOp::create(builder, loc, i32, everybody, hits, NVVM::VoteSyncKind::ballot);
  Value narrow = toI32(builder, local);
  Value count = toIndex(builder, math::CtPopOp::create(builder, loc, mask));
  emitFor(builder, loc, constant(builder, 0), count, constant(builder, 1), {mask},
          [&](OpBuilder &b, Value, ValueRange carried) {
            Value rest = carried[0], one = arith::ConstantIntOp::create(b, loc, i32, 1);
            Value less = arith::SubIOp::create(b, loc, rest, one);
            // The lowest bit that is set: as many as there are below it.
            Value below =
                arith::AndIOp::create(b, loc, arith::XOrIOp::create(b, loc, rest, everybody), less);
            Value source = math::CtPopOp::create(b, loc, below);
            Value slice = gpu::ShuffleOp::create(b, loc, i32, b.getI1Type(), narrow, source, width,
                                                 gpu::ShuffleMode::IDX)
                              .getShuffleResult();
            Value target = times(b, add(b, low, toIndex(b, slice)), shape.slice);
            Value update = times(b, add(b, first, toIndex(b, source)), shape.slice);
            overSlice(b, [&](OpBuilder &inner, ArrayRef<Value> positions) {
              SmallVector<Value> updated;
              for (Value position : positions)
                updated.push_back(scatter.combined(inner, add(inner, target, position),
                                                   add(inner, update, position)));
              for (auto [value, position] : llvm::zip(updated, positions))
                scatter.store(inner, value, add(inner, target, position));
            });
            return SmallVector<Value>{arith::AndIOp::create(b, loc, rest, less)};
          });
}

} // namespace

GpuGrid autopar::emitGpuScatter(OpBuilder &builder, ScatterEmitter &scatter,
                                const ScatterShape &shape) {
  return GpuScatterEmitter(scatter, shape).emit(builder);
}
