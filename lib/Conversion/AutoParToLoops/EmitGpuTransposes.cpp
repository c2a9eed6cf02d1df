// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels that transpose, for a GPU: a block copies a tile as it lies in memory into
// shared memory, and reads it from there in the order of the output, so that the threads of a warp
// use neighbouring elements on both sides.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t side = 32;   ///< of a tile: a warp
constexpr int64_t columns = 8; ///< warps of a block; each takes side / columns lines

class GpuTransposeEmitter {
public:
  GpuTransposeEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc), read(plan.tileLoop),
        write(plan.loops.size() - 1) {}

  GpuGrid emit();

private:
  /// Makes a buffer for each read while they fit a block's shared memory; the others stay direct.
  void makeTiles(AffineExpr slot);
  int64_t tilesOf(unsigned loop) const { return (plan.loops[loop].extent + side - 1) / side; }
  /// Emits `body` for the thread's elements: its lane runs along `along`, its lines along `across`.
  void overTile(OpBuilder &builder, unsigned along, unsigned across,
                function_ref<void(OpBuilder &)> body);

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  unsigned read, write; ///< the loops along which inputs and outputs are contiguous
  unsigned readLocal = 0, writeLocal = 0; ///< atoms: position in the tile
  DenseMap<unsigned, Value> starts;       ///< of the tile
  SmallVector<std::pair<PlannedRead, KeptElements>> tiles;
  Value lane, warp;
};

void GpuTransposeEmitter::makeTiles(AffineExpr slot) {
  int64_t elements = side * (side + 1), left = kSharedBytes;
  for (const PlannedRead &planned : plan.tiledReads) {
    Type element = elementTypeOf(planned.input);
    int64_t bytes = sharedBytesOf(elements, element);
    if (bytes > left)
      continue;
    left -= bytes;
    tiles.push_back({planned, {emitSharedBuffer(kernel, loc, elements, element), slot, element}});
  }
}

void GpuTransposeEmitter::overTile(OpBuilder &builder, unsigned along, unsigned across,
                                   function_ref<void(OpBuilder &)> body) {
  auto place = [&](unsigned loop, Value local) -> Value {
    emitter.rebind(loop == read ? readLocal : writeLocal, local);
    Value index = arith::AddIOp::create(builder, loc, starts[loop], local);
    emitter.rebind(loop, index);
    int64_t extent = plan.loops[loop].extent;
    if (extent % side == 0)
      return {};
    return arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ult, index,
                                 indexConstant(builder, loc, extent));
  };
  for (int64_t line = 0; line < side; line += columns) {
    Value local = arith::AddIOp::create(builder, loc, warp, indexConstant(builder, loc, line));
    Value inside = place(along, lane), isLine = place(across, local);
    if (inside && isLine)
      inside = arith::AndIOp::create(builder, loc, inside, isLine);
    emitWhere(builder, loc, inside ? inside : isLine, body);
  }
}

GpuGrid GpuTransposeEmitter::emit() {
  OpBuilder &builder = kernel.body;
  MLIRContext *context = builder.getContext();
  readLocal = emitter.addAtom(side);
  writeLocal = emitter.addAtom(side);
  // A gap after every line: the lines of a column then lie in different banks.
  AffineExpr slot =
      getAffineDimExpr(writeLocal, context) * (side + 1) + getAffineDimExpr(readLocal, context);
  makeTiles(slot);
  SmallVector<unsigned> outer;
  SmallVector<int64_t> extents;
  for (unsigned loop = 0; loop < write; ++loop)
    if (loop != read) {
      outer.push_back(loop);
      extents.push_back(plan.loops[loop].extent);
    }
  extents.append({tilesOf(read), tilesOf(write)});
  GpuGrid grid{1, side * columns};
  for (int64_t extent : extents)
    grid.blocks *= std::max<int64_t>(extent, 1);

  Value thread = emitThreadIndex(builder, loc), warpSize = indexConstant(builder, loc, side);
  lane = emitLaneIndex(builder, loc);
  warp = arith::DivUIOp::create(builder, loc, thread, warpSize);
  SmallVector<Value> indices = emitDelinearize(builder, loc, emitBlockIndex(builder, loc), extents);
  for (auto [loop, index] : llvm::zip(outer, indices))
    emitter.bind(loop, index);
  starts[read] = arith::MulIOp::create(builder, loc, indices[outer.size()], warpSize);
  starts[write] = arith::MulIOp::create(builder, loc, indices[outer.size() + 1], warpSize);
  overTile(builder, read, write, [&](OpBuilder &inner) {
    for (auto &[planned, buffer] : tiles)
      emitter.storeAt(inner, buffer, emitter.evaluate(inner, planned.input, planned.index));
  });
  emitBarrier(builder, loc);
  for (auto &[planned, buffer] : tiles)
    emitter.keepRead(planned, buffer);
  overTile(builder, write, read, [&](OpBuilder &inner) { emitStores(inner, kernel, emitter); });
  return grid;
}

} // namespace

GpuGrid autopar::emitGpuTransposes(KernelFrame &kernel, ElementEmitter &emitter) {
  return GpuTransposeEmitter(kernel, emitter).emit();
}
