// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels for a GPU: a thread takes neighbouring elements of the innermost loop, enough
// for accesses of 16 bytes. They are emitted one by one; LLVM joins loads and stores that lie side
// by side. Where the loop does not divide so, a thread takes as many bytes in several places, a
// block's width apart, and reads all of them before it stores.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t blockThreads = 256;
/// Threads from which on they take several vectors instead of being more.
constexpr int64_t manyThreads = 1 << 16;

class GpuPointwiseEmitter {
public:
  GpuPointwiseEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc) {}

  GpuGrid emit();

private:
  void divide();
  void emitVectors(OpBuilder &builder, ArrayRef<Value> positions);
  void emitBlock(OpBuilder &builder, Value first);
  Value isLess(OpBuilder &builder, Value position, int64_t limit) {
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, position,
                                 indexConstant(builder, loc, limit));
  }

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  SmallVector<int64_t> extents; ///< the innermost one in vectors
  int64_t width = 1;            ///< elements of a vector
  int64_t count = 1;            ///< vectors
  int64_t perThread = 1;        ///< vectors of a thread
  GpuGrid grid;
};

void GpuPointwiseEmitter::divide() {
  extents = plan.extents();
  count = llvm::product_of(extents);
  if (!extents.empty()) {
    int64_t least = count / 2 + 1;
    width = chooseVectorWidth(emitter, extents.back(), least);
    extents.back() /= width;
    count /= width;
    perThread = elementsOfVector(emitter, least) / width;
    if (count / perThread < manyThreads)
      perThread = 1;
  }
  int64_t threads = std::clamp((count + 31) / 32 * 32, kWarpThreads, blockThreads);
  grid = {GpuGrid::over(count, threads * perThread).blocks, threads};
}

/// The elements of some vectors.
void GpuPointwiseEmitter::emitVectors(OpBuilder &builder, ArrayRef<Value> positions) {
  SmallVector<SmallVector<Value>> points; // an index per loop
  for (Value position : positions) {
    SmallVector<Value> indices = emitDelinearize(builder, loc, position, extents);
    if (width == 1)
      points.push_back(indices);
    for (int64_t i = 0; i < width && width > 1; ++i) {
      Value first =
          arith::MulIOp::create(builder, loc, indices.back(), indexConstant(builder, loc, width));
      points.push_back(indices);
      points.back().back() =
          arith::AddIOp::create(builder, loc, first, indexConstant(builder, loc, i));
    }
  }
  auto each = [&](function_ref<void(size_t)> body) {
    for (auto [i, point] : llvm::enumerate(points)) {
      for (auto [loop, index] : llvm::enumerate(point))
        emitter.bind(loop, index);
      emitter.forget();
      body(i);
    }
  };
  // All are computed first: an output may lie over an input that another one reads.
  SmallVector<SmallVector<Value>> scalars(points.size());
  each([&](size_t i) {
    for (const PlannedOutput &output : plan.outputs)
      scalars[i].push_back(emitter.evaluate(builder, output.value, output.index));
  });
  each([&](size_t i) {
    for (auto [output, scalar] : llvm::zip_equal(plan.outputs, scalars[i]))
      emitter.storeAt(builder, placeOf(kernel, emitter, output), scalar);
  });
}

/// Several vectors of each thread, of which `first` is the first one. The last block alone asks
/// which of them there are.
void GpuPointwiseEmitter::emitBlock(OpBuilder &builder, Value first) {
  auto vectorAt = [&](OpBuilder &b, Value number) {
    Value step = arith::MulIOp::create(b, loc, number, indexConstant(b, loc, grid.threads));
    return arith::AddIOp::create(b, loc, first, step).getResult();
  };
  auto emitAll = [&](OpBuilder &b) {
    SmallVector<Value> positions;
    for (int64_t i = 0; i < perThread; ++i)
      positions.push_back(vectorAt(b, indexConstant(b, loc, i)));
    emitVectors(b, positions);
  };
  if (count == grid.blocks * grid.threads * perThread)
    return emitAll(builder);
  Value isWhole = isLess(builder, emitBlockIndex(builder, loc), grid.blocks - 1);
  auto branch = scf::IfOp::create(builder, loc, isWhole, /*withElseRegion=*/true);
  OpBuilder whole = OpBuilder::atBlockBegin(branch.thenBlock());
  emitAll(whole);
  OpBuilder rest = OpBuilder::atBlockBegin(branch.elseBlock());
  emitFor(rest, loc, indexConstant(rest, loc, 0), indexConstant(rest, loc, perThread),
          indexConstant(rest, loc, 1), {}, [&](OpBuilder &b, Value number, ValueRange) {
            Value position = vectorAt(b, number);
            emitWhere(b, loc, isLess(b, position, count),
                      [&](OpBuilder &inner) { emitVectors(inner, position); });
            return SmallVector<Value>();
          });
}

GpuGrid GpuPointwiseEmitter::emit() {
  divide();
  OpBuilder &builder = kernel.body;
  if (perThread > 1) {
    Value before = arith::MulIOp::create(builder, loc, emitBlockIndex(builder, loc),
                                         indexConstant(builder, loc, grid.threads * perThread));
    Value thread = emitThreadIndex(builder, loc);
    emitBlock(builder, arith::AddIOp::create(builder, loc, before, thread));
    return grid;
  }
  Value position = emitGridIndex(builder, loc, grid.threads), inside;
  if (count < grid.blocks * grid.threads)
    inside = isLess(builder, position, count);
  emitWhere(builder, loc, inside, [&](OpBuilder &inner) { emitVectors(inner, position); });
  return grid;
}

} // namespace

GpuGrid autopar::emitGpuPointwise(KernelFrame &kernel, ElementEmitter &emitter) {
  return GpuPointwiseEmitter(kernel, emitter).emit();
}
