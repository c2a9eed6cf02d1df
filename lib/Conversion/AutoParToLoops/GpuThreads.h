// SPDX-License-Identifier: Apache-2.0
// Threads of a GPU: who a thread is, what a block shares, and how the threads of a warp join what
// they have summed up.
#pragma once

#include "KernelBodies.h"

namespace mlir::autopar {

constexpr int64_t kWarpThreads = 32;

/// The launch of a kernel: blocks and threads along x.
struct GpuGrid {
  int64_t blocks = 1, threads = 1;
  int64_t sharedBytes = 0; ///< dynamic shared memory of a block

  /// Enough blocks for `count` threads.
  static GpuGrid over(int64_t count, int64_t threads) {
    return {std::max<int64_t>((count + threads - 1) / threads, 1), threads};
  }
};

/// Position of the thread in its block, of the block in the grid, of the thread in the grid.
Value emitThreadIndex(OpBuilder &builder, Location loc);
Value emitBlockIndex(OpBuilder &builder, Location loc);
Value emitGridIndex(OpBuilder &builder, Location loc, int64_t threadsPerBlock);
/// Position of the thread in its warp. A register of its own, not the rest of a division: LLVM
/// would make bits of sums of the rest, and lose what neighbouring addresses have in common.
Value emitLaneIndex(OpBuilder &builder, Location loc);

/// Shared memory that a block has on every GPU without asking for more.
constexpr int64_t kSharedBytes = 48 * 1024;
/// Bytes of a shared buffer: whole vectors of 16, since LLVM joins loads of its last elements to
/// one.
int64_t sharedBytesOf(int64_t elements, Type elementType);
/// Memory that all threads of a block see.
Value emitSharedBuffer(OpBuilder &builder, Location loc, int64_t elements, Type elementType);
inline Value emitSharedBuffer(KernelFrame &kernel, Location loc, int64_t elements,
                              Type elementType) {
  return emitSharedBuffer(kernel.entry, loc, elements, elementType);
}
/// Shared memory that a block may have on every GPU from sm_80 on, if it asks for it: sm_86 and
/// sm_89 have the least.
constexpr int64_t kMostSharedBytes = 99 * 1024;
/// `elements` of the block's dynamic shared memory, from `offset` bytes on.
Value emitDynamicShared(OpBuilder &builder, Location loc, int64_t offset, int64_t elements,
                        Type elementType);
/// Stores `value`, which all lanes of a warp have, at the warp's number among `warps`. Further
/// lanes fill what the buffer has behind, which vectors that LLVM joins loads to reach into.
void emitStoreOfWarp(OpBuilder &builder, Location loc, Value value, Value buffer, Value warp,
                     int64_t warps, Value lane);
/// All threads of the block have come here, and see what the others stored before.
void emitBarrier(OpBuilder &builder, Location loc);

/// Emits `body` where `condition` holds; always without a condition.
void emitWhere(OpBuilder &builder, Location loc, Value condition,
               function_ref<void(OpBuilder &)> body);

/// The value of the lane whose number in the warp differs in `mask`, is less by `lanes` (its own
/// where there is none), or is `lane`. All lanes of the warp take part.
Value emitShuffleXor(OpBuilder &builder, Location loc, Value value, int64_t mask);
Value emitShuffleUp(OpBuilder &builder, Location loc, Value value, int64_t lanes);
Value emitShuffleFrom(OpBuilder &builder, Location loc, Value value, Value lane);

using CombineValues = function_ref<SmallVector<Value>(OpBuilder &, ValueRange, ValueRange)>;
/// Joins the values of every so many neighbouring lanes of a warp, a power of two; each gets the
/// result of its own. `combine` must not care about the order of its arguments.
SmallVector<Value> emitLanesCombine(OpBuilder &builder, Location loc, ValueRange values,
                                    int64_t lanes, CombineValues combine);

/// Elements in 16 bytes of the narrowest type that counts, of the tensors with `leastElements`.
int64_t elementsOfVector(const ElementEmitter &emitter, int64_t leastElements);
/// Neighbouring elements along a contiguous loop of `extent` that one thread takes, so that it
/// reads or writes 16 bytes at once of the narrowest type that counts; a divisor of `extent`.
int64_t chooseVectorWidth(const ElementEmitter &emitter, int64_t extent, int64_t leastElements);

// The bodies of kernels for a GPU.
GpuGrid emitGpuPointwise(KernelFrame &kernel, ElementEmitter &emitter);
GpuGrid emitGpuTransposes(KernelFrame &kernel, ElementEmitter &emitter);
GpuGrid emitGpuRows(KernelFrame &kernel, ElementEmitter &emitter);
class ScatterEmitter;
struct ScatterShape;
GpuGrid emitGpuScatter(OpBuilder &builder, ScatterEmitter &scatter, const ScatterShape &shape);

} // namespace mlir::autopar
