// SPDX-License-Identifier: Apache-2.0
// Sums of products of bytes within row kernels on CPUs (kByteSum), by instructions that
// multiply vectors of them.
#pragma once

#include "KernelBodies.h"

namespace mlir::autopar {

/// Computes, for the rows of the current iteration, the sums of bytes that their elements read, and
/// has the emitter read them where they are asked for. Left are those whose bytes do not lie side
/// by side along the row, or are too few for a vector: the emitter's loops compute them.
void emitByteSums(OpBuilder &builder, KernelFrame &kernel, ElementEmitter &emitter);

} // namespace mlir::autopar
