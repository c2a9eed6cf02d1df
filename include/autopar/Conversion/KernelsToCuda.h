// SPDX-License-Identifier: Apache-2.0
// The CUDA back end of generated kernels: what one thread does, in (func, scf, memref, arith, math,
// gpu), in; one module of PTX text out, and a cubin where ptxas is at hand.
#pragma once

#include "autopar/Base/Status.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"

#include <optional>
#include <string>
#include <vector>

namespace autopar {

/// The PTX that kernels are compiled to: runs on every GPU from this chip on.
constexpr int kPtxMajor = 8, kPtxMinor = 0, kPtxChip = 80;

/// Compiles every public function of `kernels`: `@name(%a: memref<...>, ...)`, memrefs of static
/// shape and identity layout, no results, with the attribute `autopar.grid` (AutoParToLoops.h).
/// Buffers are 64-byte aligned and do not overlap. The result is the text of one module with a
/// `.visible .entry name` per function, one `.param .u64` per memref; it needs no library. The text
/// depends on the kernels alone, never on `threads`. Fails with a diagnostic at the kernel.
mlir::FailureOr<std::string> compileKernelsToPtx(mlir::ModuleOp kernels, unsigned threads = 2);

/// The assembler: $CUDA_HOME/bin, $CUDA_PATH/bin, $PATH, /usr/local/cuda/bin, in this order.
std::optional<std::string> findPtxas();
/// Machine code for the chip of a compute capability (90: sm_90). NoDevice where the assembler is
/// too old for the chip or for this PTX, or does not run.
Result<std::vector<char>> assemblePtx(const std::string &ptx, int chip, const std::string &ptxas);

} // namespace autopar
