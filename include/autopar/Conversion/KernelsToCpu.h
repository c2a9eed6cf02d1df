// SPDX-License-Identifier: Apache-2.0
// The CPU back end of generated kernels: scalar loops in (func, scf, memref, arith, math), the
// bytes of one self-contained x86-64 shared object out. Vectorization is left to LLVM; math
// functions are formulas of our own, so that the object needs no library at all.
#ifndef AUTOPAR_CONVERSION_KERNELSTOCPU_H
#define AUTOPAR_CONVERSION_KERNELSTOCPU_H

#include "autopar/Conversion/KernelMath.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Support/LLVM.h"

#include <memory>
#include <string>
#include <vector>

namespace autopar {

/// The instruction set that kernels are compiled for.
struct CpuTarget {
  /// "x86-64-v3" (AVX2, FMA, F16C: the lowest level), "x86-64-v4" (AVX-512), "x86-64-v4+amx"
  /// (AVX-512 with the bf16 and AMX extensions), or "native": the widest of these that this
  /// machine's CPU offers, derived from its feature bits (never from its model number, which
  /// virtual machines report wrongly).
  std::string level = "native";
  /// Vector width in bits that LLVM should prefer: 128, 256 or 512; 0 takes the widest of the
  /// level.
  unsigned preferVectorWidth = 0;
  /// Off: kernels are compiled in a quarter of the time and run slowly; for tests of what is around
  /// them.
  bool optimizes = true;
};

/// The same target with "native" replaced by the level found and a vector width that is never 0.
/// Fails, with a diagnostic at `loc`, on an unknown level, a width that is not a width of the
/// level, or a machine below x86-64-v3. Artifacts record the result: equal resolved targets give
/// equal bytes.
mlir::FailureOr<CpuTarget> resolveCpuTarget(const CpuTarget &target, mlir::Location loc);

/// Whether processors of a level have instructions that multiply bf16 and sum in f32; for "native",
/// whether this machine has them, whatever its level.
bool multipliesBf16(llvm::StringRef level);

/// Whether the library has products and convolutions of bf16 on processors of a level, and on this
/// machine, where it says how weights are packed: those with AVX-512.
bool libraryHasBf16(llvm::StringRef level);

/// As multipliesBf16, for bytes that are summed in 32 bits (AVX512-VNNI). This machine needs them
/// too: its library says how such weights are packed.
bool multipliesBytes(llvm::StringRef level);

/// Compiles every public function of `kernels` that has a body; private functions and
/// `memref.global` constants used by it travel along. Expected of a kernel
/// `@name(%a: memref<4x8xf32>, ..., %begin: index, %end: index)`: memrefs of static shape and
/// identity layout first (element types i8 to i64, f16, bf16, f32, f64, index; booleans are i8),
/// then the half-open range of the outer iteration; no results. Buffers must be 64-byte aligned
/// (lower with the argument attribute `llvm.align`), and an argument must not overlap another one
/// unless both carry `autopar.may_alias`.
///
/// Returns the bytes of a shared object that exports, per kernel,
///     void name(void *const *args, int64_t begin, int64_t end)
/// with one pointer per memref in order. It has no needed libraries, no initializers and no
/// undefined symbols; the bytes depend only on the kernels and the target, never on `threads`.
///
/// Fails with a diagnostic at the kernel: wrong signature, `memref.alloc`, scratch above 1 MiB, an
/// op without a lowering, or anything that would need a library function. `kernels` itself is not
/// changed. May be called from several threads for different contexts (linking is serialized).
mlir::FailureOr<std::vector<char>>
compileKernels(mlir::ModuleOp kernels, const CpuTarget &target = {}, unsigned threads = 2);

/// `autopar-expand-narrow-floats`: computes arithmetic on f16 and bf16 in f32 with one rounding per
/// op, and spells the conversions that x86-64-v3 lacks (to and from bf16, f64 to f16) with integer
/// instructions.
std::unique_ptr<mlir::Pass> createExpandNarrowFloatsPass();

/// `autopar-prepare-kernels`: hoists `memref.alloca` to the entry block and turns `memref.copy`
/// into loops.
std::unique_ptr<mlir::Pass> createPrepareKernelsPass();

/// Makes these passes and autopar-expand-math known to the command line of mlir-opt-like tools.
void registerKernelsToCpuPasses();

} // namespace autopar

#endif // AUTOPAR_CONVERSION_KERNELSTOCPU_H
