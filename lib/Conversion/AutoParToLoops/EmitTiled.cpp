// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels that transpose: a block of two loops is first copied into a buffer as it lies
// in memory, then the formulas read the buffer in the order of the output. Both sides of memory are
// used in whole cache lines, whatever the strides; the strided side stays in the first-level cache,
// and is the reading one: vectors are gathered twice as fast as they are scattered.
#include "KernelBodies.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// Elements of a block along the loop in which inputs are contiguous, and along that of the
/// outputs.
constexpr int64_t readBlock = 64, writeBlock = 64;

class TileEmitter {
public:
  TileEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc), read(plan.tileLoop),
        write(plan.loops.size() - 1) {}

  int64_t emit();

private:
  int64_t extentOf(unsigned loop) const { return plan.loops[loop].extent; }
  LoopBounds bounds(OpBuilder &builder, unsigned loop, int64_t block, Value start, unsigned local);
  void emitBlock(OpBuilder &builder, Value readStart, Value writeStart);

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  unsigned read, write; ///< the loops along which inputs and outputs are contiguous
  unsigned readLocal = 0, writeLocal = 0; ///< atoms: position in the block
  SmallVector<KeptElements> buffers;
};

/// From `start` to the end of the block or of the loop. The kernel's range is never negative, but
/// LLVM does not know: of lengths that it finds constant it would unroll the inner loop and
/// vectorize the outer one, with gathered and scattered accesses to memory.
LoopBounds TileEmitter::bounds(OpBuilder &builder, unsigned loop, int64_t block, Value start,
                               unsigned local) {
  Value zero = indexConstant(builder, loc, 0), extent = indexConstant(builder, loc, extentOf(loop));
  Value rest = arith::SubIOp::create(builder, loc, extent, start);
  Value length = arith::MinSIOp::create(builder, loc, indexConstant(builder, loc, block), rest);
  Value nothing = arith::MinSIOp::create(builder, loc, kernel.begin, zero);
  return {loop, zero, arith::AddIOp::create(builder, loc, length, nothing), start, local};
}

void TileEmitter::emitBlock(OpBuilder &builder, Value readStart, Value writeStart) {
  LoopBounds reads = bounds(builder, read, readBlock, readStart, readLocal);
  LoopBounds writes = bounds(builder, write, writeBlock, writeStart, writeLocal);
  emitNest(builder, emitter, {writes, reads}, {}, [&](OpBuilder &inner, ValueRange) {
    for (auto [planned, buffer] : llvm::zip(plan.tiledReads, buffers))
      emitter.storeAt(inner, buffer, emitter.evaluate(inner, planned.input, planned.index));
    return SmallVector<Value>();
  });
  for (auto [planned, buffer] : llvm::zip(plan.tiledReads, buffers))
    emitter.keepRead(planned, buffer);
  emitNest(builder, emitter, {reads, writes}, {}, [&](OpBuilder &inner, ValueRange) {
    emitStores(inner, kernel, emitter);
    return SmallVector<Value>();
  });
}

int64_t TileEmitter::emit() {
  MLIRContext *context = kernel.body.getContext();
  readLocal = emitter.addAtom(readBlock);
  writeLocal = emitter.addAtom(writeBlock);
  // A gap after every line: columns of the buffer then lie in different cache sets.
  constexpr int64_t pitch = readBlock + 1;
  AffineExpr slot =
      getAffineDimExpr(writeLocal, context) * pitch + getAffineDimExpr(readLocal, context);
  for (const PlannedRead &planned : plan.tiledReads) {
    Type scalar = getScalarType(elementTypeOf(planned.input));
    buffers.push_back({emitBuffer(kernel, loc, writeBlock * pitch, scalar), slot, scalar});
  }
  SmallVector<unsigned> outer;
  SmallVector<int64_t> extents;
  for (unsigned loop = 0; loop < write; ++loop)
    if (loop != read) {
      outer.push_back(loop);
      extents.push_back(extentOf(loop));
    }
  extents.push_back((extentOf(write) + writeBlock - 1) / writeBlock);
  return emitIterations(
      kernel, emitter, outer, extents, [&](OpBuilder &builder, ArrayRef<Value> indices) {
        // One block of output columns over all that is contiguous in the input.
        Value writeStart = arith::MulIOp::create(builder, loc, indices.back(),
                                                 indexConstant(builder, loc, writeBlock));
        emitFor(builder, loc, indexConstant(builder, loc, 0),
                indexConstant(builder, loc, extentOf(read)), indexConstant(builder, loc, readBlock),
                ValueRange{}, [&](OpBuilder &inner, Value readStart, ValueRange) {
                  emitBlock(inner, readStart, writeStart);
                  return SmallVector<Value>();
                });
      });
}

} // namespace

int64_t autopar::emitTiled(KernelFrame &kernel, ElementEmitter &emitter) {
  return TileEmitter(kernel, emitter).emit();
}
