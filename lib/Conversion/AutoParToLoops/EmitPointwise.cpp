// SPDX-License-Identifier: Apache-2.0
// Kernels in which every element stands alone: an iteration is a block of a few thousand elements,
// the loop over the innermost dimension is the one that LLVM vectorizes.
#include "KernelBodies.h"
#include "LoopNest.h"
#include "LoweringModels.h"
#include "ScalarArithmetic.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"

using namespace mlir;
using namespace mlir::autopar;

/// Elements per iteration: enough to pay for the outer index arithmetic, few enough to share among
/// threads.
static constexpr int64_t blockElements = 4096;

Value autopar::emitBuffer(KernelFrame &kernel, Location loc, int64_t elements, Type elementType) {
  auto type = MemRefType::get({elements}, getStorageType(elementType));
  return memref::AllocaOp::create(kernel.entry, loc, type, kernel.entry.getI64IntegerAttr(64));
}

KeptElements autopar::placeOf(KernelFrame &kernel, ElementEmitter &emitter,
                              const PlannedOutput &output) {
  AffineExpr offset = flatten(output.index, shapeOf(output.value), output.value.getContext());
  return {kernel.outputs[output.position], simplifyIndex(offset, emitter.plan.extents()),
          elementTypeOf(output.value)};
}

void autopar::emitStore(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter,
                        const PlannedOutput &output) {
  Value scalar = emitter.evaluate(builder, output.value, output.index);
  emitter.storeAt(builder, placeOf(kernel, emitter, output), scalar);
}

void autopar::emitStores(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter) {
  SmallVector<Value> scalars;
  for (const PlannedOutput &output : emitter.plan.outputs)
    scalars.push_back(emitter.evaluate(builder, output.value, output.index));
  for (auto [output, scalar] : llvm::zip_equal(emitter.plan.outputs, scalars))
    emitter.storeAt(builder, placeOf(kernel, emitter, output), scalar);
}

int64_t autopar::emitIterations(KernelFrame &kernel, ElementEmitter &emitter,
                                ArrayRef<unsigned> loops, ArrayRef<int64_t> extents,
                                function_ref<void(OpBuilder &, ArrayRef<Value>)> body) {
  Location loc = emitter.loc;
  Value one = indexConstant(kernel.body, loc, 1);
  emitFor(kernel.body, loc, kernel.begin, kernel.end, one, ValueRange{},
          [&](OpBuilder &builder, Value iteration, ValueRange) {
            SmallVector<Value> indices = emitDelinearize(builder, loc, iteration, extents);
            for (auto [loop, index] : llvm::zip(loops, indices))
              emitter.bind(loop, index);
            body(builder, indices);
            return SmallVector<Value>();
          });
  return llvm::product_of(extents);
}

namespace {

/// How the loops are divided: loops before `first` and the blocks of loop `first` are the kernel's
/// iterations; the rest runs inside one.
struct Blocking {
  unsigned first = 0;
  int64_t block = 1, blocks = 1;
};

Blocking chooseBlocking(ArrayRef<LoopDim> loops) {
  Blocking blocking;
  blocking.first = loops.size();
  int64_t inside = 1;
  while (blocking.first > 0 && inside < blockElements)
    inside *= std::max<int64_t>(loops[--blocking.first].extent, 1);
  if (blocking.first == loops.size())
    return blocking;
  int64_t extent = loops[blocking.first].extent;
  int64_t rest = inside / std::max<int64_t>(extent, 1);
  blocking.block =
      std::clamp<int64_t>((blockElements + rest - 1) / rest, 1, std::max<int64_t>(extent, 1));
  blocking.blocks = (extent + blocking.block - 1) / blocking.block;
  return blocking;
}

/// Emits the loops from `position` on, once per segment between the places where a formula changes,
/// so that what holds for a whole segment is decided here and not per element.
void emitSegments(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter,
                  SmallVector<LoopBounds> nest, size_t position) {
  constexpr size_t mostSegments = 16;
  Location loc = emitter.loc;
  while (position < nest.size()) {
    const LoopDim &loop = emitter.plan.loops[nest[position].atom];
    if (!loop.breaks.empty() && loop.breaks.size() < mostSegments)
      break;
    ++position;
  }
  if (position == nest.size()) {
    emitNest(builder, emitter, nest, {}, [&](OpBuilder &inner, ValueRange) {
      emitStores(inner, kernel, emitter);
      return SmallVector<Value>();
    });
    return;
  }
  LoopBounds whole = nest[position];
  SmallVector<int64_t> ends(emitter.plan.loops[whole.atom].breaks);
  ends.push_back(emitter.plan.loops[whole.atom].extent);
  int64_t first = 0;
  for (int64_t end : ends) {
    nest[position].lower =
        arith::MaxSIOp::create(builder, loc, whole.lower, indexConstant(builder, loc, first));
    nest[position].upper =
        arith::MinSIOp::create(builder, loc, whole.upper, indexConstant(builder, loc, end));
    emitter.limit(whole.atom, first, end - 1);
    emitSegments(builder, kernel, emitter, nest, position + 1);
    first = end;
  }
  emitter.limit(whole.atom, 0, ends.back() - 1);
}

} // namespace

int64_t autopar::emitPointwise(KernelFrame &kernel, ElementEmitter &emitter) {
  ArrayRef<LoopDim> loops = emitter.plan.loops;
  Blocking blocking = chooseBlocking(loops);
  Location loc = emitter.loc;
  SmallVector<unsigned> outer = llvm::to_vector(llvm::seq<unsigned>(0, blocking.first));
  SmallVector<int64_t> extents =
      llvm::map_to_vector(outer, [&](unsigned loop) { return loops[loop].extent; });
  extents.push_back(blocking.blocks);
  return emitIterations(kernel, emitter, outer, extents,
                        [&](OpBuilder &builder, ArrayRef<Value> indices) {
                          SmallVector<LoopBounds> nest;
                          for (unsigned loop = blocking.first; loop < loops.size(); ++loop) {
                            Value lower = indexConstant(builder, loc, 0);
                            Value upper = indexConstant(builder, loc, loops[loop].extent);
                            if (loop == blocking.first && blocking.blocks != 1) {
                              Value block = indexConstant(builder, loc, blocking.block);
                              lower = arith::MulIOp::create(builder, loc, indices.back(), block);
                              Value end = arith::AddIOp::create(builder, loc, lower, block);
                              upper = arith::MinSIOp::create(builder, loc, end, upper);
                            }
                            nest.push_back({loop, lower, upper});
                          }
                          emitSegments(builder, kernel, emitter, nest, 0);
                        });
}
