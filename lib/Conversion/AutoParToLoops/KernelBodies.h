// SPDX-License-Identifier: Apache-2.0
// The bodies of kernels: pointwise and by rows. Both emit what the iterations [begin, end) do.
#pragma once

#include "ElementEmitter.h"

namespace mlir::autopar {

/// A function under construction.
struct KernelFrame {
  OpBuilder entry; ///< at the start of the function, for buffers
  OpBuilder body;  ///< at its end
  Value begin, end;
  SmallVector<Value> outputs; ///< flat memrefs
};

/// Emits a kernel without row operations; returns its extent.
int64_t emitPointwise(KernelFrame &kernel, ElementEmitter &emitter);
/// Emits a kernel without row operations that transposes: blocks go through a buffer.
int64_t emitTiled(KernelFrame &kernel, ElementEmitter &emitter);
/// Emits a kernel with row operations; returns its extent.
int64_t emitRows(KernelFrame &kernel, ElementEmitter &emitter);

/// Emits the kernel's own loop: over `extents`, row-major, of which the first ones belong to
/// `loops` and bind them. Returns how many iterations that is.
int64_t emitIterations(KernelFrame &kernel, ElementEmitter &emitter, ArrayRef<unsigned> loops,
                       ArrayRef<int64_t> extents,
                       function_ref<void(OpBuilder &, ArrayRef<Value> indices)> body);
/// A buffer on the stack.
Value emitBuffer(KernelFrame &kernel, Location loc, int64_t elements, Type elementType);
/// Stores the element of an output at its place.
void emitStore(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter,
               const PlannedOutput &output);
/// Stores the elements of all outputs. All are computed first: an output may lie over an input that
/// another one reads.
void emitStores(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter);
/// Where an output is stored.
KeptElements placeOf(KernelFrame &kernel, ElementEmitter &emitter, const PlannedOutput &output);

} // namespace mlir::autopar
