// SPDX-License-Identifier: Apache-2.0
// The stages of compileKernelsToPtx, one source file each: lower to the NVVM dialect -> PTX.
#pragma once

#include "autopar/Conversion/KernelUnits.h"
#include "autopar/Conversion/KernelsToCuda.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace autopar::cuda {

using Unit = KernelUnit;

// LowerToNvvm.cpp
/// A context with all dialects that a kernel may use, without threads.
std::unique_ptr<mlir::MLIRContext> createCudaKernelContext();
/// Parses and lowers `unit`; on failure the context's diagnostics say why.
mlir::OwningOpRef<mlir::ModuleOp> lowerToNvvm(const Unit &unit, mlir::MLIRContext &context,
                                              const std::string &dataLayout);

// WidePositions.cpp
/// Gives `kernel` positions of 32 bits where it can: buffers of more elements than those count are
/// read at a place of 64 bits (a row's) and one of 32 bits behind it. Returns the bits of the
/// positions that are left.
unsigned narrowPositions(mlir::func::FuncOp kernel, llvm::ArrayRef<int64_t> grid);

// EmitPtx.cpp
llvm::Expected<std::unique_ptr<llvm::TargetMachine>> createPtxMachine();
/// Optimizes and writes PTX. Fails where a function of a library would be needed.
llvm::Expected<KernelCode> emitPtx(llvm::Module &module, const std::string &kernel,
                                   llvm::TargetMachine &machine);
/// One module of all texts.
std::string joinPtx(llvm::ArrayRef<Unit> units);

} // namespace autopar::cuda
