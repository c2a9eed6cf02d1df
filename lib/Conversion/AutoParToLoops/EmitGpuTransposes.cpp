// SPDX-License-Identifier: Apache-2.0
// Pointwise kernels that transpose, for a GPU: a block copies a tile as it lies in memory into
// shared memory, and reads it from there in the order of the output, so that the threads of a warp
// use neighbouring elements on both sides. Of types of two bytes a lane takes two neighbours.
#include "GpuThreads.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

constexpr int64_t columns = 8; ///< warps of a block; each takes side / columns lines of a tile

class GpuTransposeEmitter {
public:
  GpuTransposeEmitter(KernelFrame &kernel, ElementEmitter &emitter)
      : kernel(kernel), emitter(emitter), plan(emitter.plan), loc(emitter.loc), read(plan.tileLoop),
        write(plan.loops.size() - 1) {
    if (isNarrow())
      width = 2;
    side = kWarpThreads * width;
  }

  GpuGrid emit();

private:
  /// Whether what goes through tiles has two bytes at most, and tiles twice as large are not empty
  /// for the most part.
  bool isNarrow() const;
  /// Makes a buffer for each read while they fit a block's shared memory; the others stay direct.
  void makeTiles(AffineExpr slot);
  int64_t tilesOf(unsigned loop) const { return (plan.loops[loop].extent + side - 1) / side; }
  /// Emits `body` for the thread's elements: its lane runs along `along`, its lines along `across`.
  /// Neighbours have one condition where they are inside, or not, together.
  void overTile(OpBuilder &builder, unsigned along, unsigned across,
                function_ref<void(OpBuilder &)> body);

  KernelFrame &kernel;
  ElementEmitter &emitter;
  const KernelPlan &plan;
  Location loc;
  int64_t width = 1;           ///< neighbours that a lane takes
  int64_t side = kWarpThreads; ///< of a tile
  unsigned read, write;        ///< the loops along which inputs and outputs are contiguous
  unsigned readLocal = 0, writeLocal = 0; ///< atoms: position in the tile
  DenseMap<unsigned, Value> starts;       ///< of the tile
  SmallVector<std::pair<PlannedRead, KeptElements>> tiles;
  Value lane, warp;
};

bool GpuTransposeEmitter::isNarrow() const {
  auto bytesOf = [](Value tensor) {
    return getStorageType(elementTypeOf(tensor)).getIntOrFloatBitWidth() / 8;
  };
  return plan.loops[read].extent > kWarpThreads && plan.loops[write].extent > kWarpThreads &&
         llvm::all_of(plan.tiledReads,
                      [&](const PlannedRead &planned) { return bytesOf(planned.input) <= 2; }) &&
         llvm::all_of(plan.outputs,
                      [&](const PlannedOutput &output) { return bytesOf(output.value) <= 2; });
}

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
  auto constant = [&](OpBuilder &b, int64_t value) { return indexConstant(b, loc, value); };
  auto place = [&](OpBuilder &b, unsigned loop, Value local) -> Value {
    emitter.rebind(loop == read ? readLocal : writeLocal, local);
    Value index = arith::AddIOp::create(b, loc, starts[loop], local);
    emitter.rebind(loop, index);
    int64_t extent = plan.loops[loop].extent;
    if (extent % side == 0)
      return {};
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ult, index, constant(b, extent));
  };
  Value first = arith::MulIOp::create(builder, loc, lane, constant(builder, width));
  auto neighbour = [&](OpBuilder &b, int64_t k) {
    return arith::AddIOp::create(b, loc, first, constant(b, k)).getResult();
  };
  bool areTogether = plan.loops[along].extent % width == 0;
  for (int64_t line = 0; line < side; line += columns) {
    Value local = arith::AddIOp::create(builder, loc, warp, constant(builder, line));
    Value isLine = place(builder, across, local);
    Value inside = areTogether ? place(builder, along, first) : Value();
    if (inside && isLine)
      inside = arith::AndIOp::create(builder, loc, inside, isLine);
    emitWhere(builder, loc, inside ? inside : isLine, [&](OpBuilder &b) {
      for (int64_t k = 0; k < width; ++k) {
        Value exists = place(b, along, neighbour(b, k));
        emitWhere(b, loc, areTogether ? Value() : exists, body);
      }
    });
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
  GpuGrid grid{1, kWarpThreads * columns};
  for (int64_t extent : extents)
    grid.blocks *= std::max<int64_t>(extent, 1);

  lane = emitLaneIndex(builder, loc);
  warp = arith::DivUIOp::create(builder, loc, emitThreadIndex(builder, loc),
                                indexConstant(builder, loc, kWarpThreads));
  Value tile = indexConstant(builder, loc, side);
  SmallVector<Value> indices = emitDelinearize(builder, loc, emitBlockIndex(builder, loc), extents);
  for (auto [loop, index] : llvm::zip(outer, indices))
    emitter.bind(loop, index);
  starts[read] = arith::MulIOp::create(builder, loc, indices[outer.size()], tile);
  starts[write] = arith::MulIOp::create(builder, loc, indices[outer.size() + 1], tile);
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
