// SPDX-License-Identifier: Apache-2.0
// The stages of compileKernels, one source file each: split -> lower to LLVM IR -> object code ->
// shared object.
#ifndef AUTOPAR_LIB_CONVERSION_KERNELSTOCPU_STAGES_H
#define AUTOPAR_LIB_CONVERSION_KERNELSTOCPU_STAGES_H

#include "autopar/Conversion/KernelUnits.h"
#include "autopar/Conversion/KernelsToCpu.h"
#include "llvm/IR/PassManager.h"
#include "llvm/Transforms/Scalar/LoopPassManager.h"

#include <memory>
#include <string>
#include <vector>

namespace autopar::cpu {

using Unit = KernelUnit;

/// A resolved target in LLVM's words.
struct LlvmTarget {
  std::string cpu;
  std::string features;
  unsigned vectorWidth;
  bool optimizes;
};
LlvmTarget toLlvm(const CpuTarget &resolved);

// SplitKernels.cpp
/// Checks signatures and prints each public function, with what it uses, as a module of its own.
mlir::FailureOr<std::vector<Unit>> splitKernels(mlir::ModuleOp kernels);

// LowerToLlvm.cpp
/// A context with all dialects that a kernel may use, without threads.
std::unique_ptr<mlir::MLIRContext> createCpuKernelContext();
/// Parses and lowers `unit` to the LLVM dialect; on failure the context's diagnostics say why.
mlir::OwningOpRef<mlir::ModuleOp> lowerToLlvmDialect(const Unit &unit, mlir::MLIRContext &context,
                                                     const std::string &dataLayout);

// EmitObject.cpp
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createTargetMachine(const LlvmTarget &target);
/// Adds the exported wrapper, optimizes and writes the object. Fails where a library function would
/// be needed.
llvm::Expected<KernelCode> emitObject(llvm::Module &module, const std::string &kernel,
                                      const LlvmTarget &target, llvm::TargetMachine &machine);

/// A buffer of this size has left every cache before it is touched again.
constexpr uint64_t beyondCaches = 32 << 20;
/// The LLVM attribute of kernels that write their results a piece here, a piece there. Such pieces
/// crowd into few sets of a cache and leave it early: from this size of the result.
constexpr const char *stridedResults = "autopar-strided-results";
constexpr uint64_t beyondCachesStrided = 4 << 20;

/// The LLVM attribute of kernels that have instructions of AVX512-VNNI, which no psABI level has.
constexpr const char *multipliesBytes = "autopar-multiplies-bytes";

// KeepLoops.cpp
/// Before loops are unrolled: kernels of small buffers keep their loops.
struct KeepLoopsPass : llvm::PassInfoMixin<KeepLoopsPass> {
  llvm::PreservedAnalyses run(llvm::Loop &loop, llvm::LoopAnalysisManager &analyses,
                              llvm::LoopStandardAnalysisResults &standard,
                              llvm::LPMUpdater &updater);
};

// KeepVectors.cpp
/// Before loops are unrolled whole: inner loops that fill a vector are left to the vectorizer.
struct KeepVectorsPass : llvm::PassInfoMixin<KeepVectorsPass> {
  llvm::PreservedAnalyses run(llvm::Loop &loop, llvm::LoopAnalysisManager &analyses,
                              llvm::LoopStandardAnalysisResults &standard,
                              llvm::LPMUpdater &updater);
};

// MaskMaxima.cpp
/// Before loops are vectorized: maxima and minima of masked elements become ones that can be.
struct MaskMaximaPass : llvm::PassInfoMixin<MaskMaximaPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

// PrefetchRows.cpp
/// At the end of optimization: kernels with several passes over the rows of a large input fetch the
/// next row while they work on one.
struct PrefetchRowsPass : llvm::PassInfoMixin<PrefetchRowsPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

// SelectNarrowBits.cpp
/// At the end of optimization: choices between bf16 numbers become choices between their bits.
struct SelectNarrowBitsPass : llvm::PassInfoMixin<SelectNarrowBitsPass> {
  llvm::PreservedAnalyses run(llvm::Function &function, llvm::FunctionAnalysisManager &analyses);
};

// StreamStores.cpp
/// In optimized code: writes large results past the cache. True if there were any.
bool streamStores(llvm::Module &module);

// LinkSharedObject.cpp
/// Links the objects in order. One call at a time per process (it waits).
llvm::Expected<std::vector<char>> linkSharedObject(llvm::ArrayRef<Unit> units);

} // namespace autopar::cpu

#endif // AUTOPAR_LIB_CONVERSION_KERNELSTOCPU_STAGES_H
