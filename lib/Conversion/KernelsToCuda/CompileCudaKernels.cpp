// SPDX-License-Identifier: Apache-2.0
// compileKernelsToPtx: checks and splits kernels, and joins what comes back of the stages in the
// order of the module.
#include "CudaStages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;

namespace autopar {
namespace {
using namespace cuda;

/// (memref...) -> (), and nothing that lies outside of the function.
LogicalResult checkKernel(func::FuncOp kernel) {
  if (kernel.getNumResults() != 0)
    return kernel.emitOpError("expected a kernel without results");
  for (auto [index, type] : llvm::enumerate(kernel.getArgumentTypes())) {
    auto buffer = dyn_cast<MemRefType>(type);
    if (!buffer || !buffer.hasStaticShape() || !buffer.getLayout().isIdentity())
      return kernel.emitOpError("kernel argument ")
             << index << ": expected a memref of static shape and identity layout, got " << type;
  }
  auto grid = kernel->getAttrOfType<DenseI64ArrayAttr>("autopar.grid");
  if (!grid || grid.size() != 3)
    return kernel.emitOpError("expected the attribute autopar.grid = array<i64: blocks, threads, "
                              "shared bytes> of a kernel for CUDA");
  return success();
}

FailureOr<std::vector<Unit>> split(ModuleOp kernels) {
  std::vector<Unit> units;
  for (auto kernel : kernels.getOps<func::FuncOp>()) {
    if (failed(checkKernel(kernel)))
      return failure();
    Unit unit;
    unit.name = kernel.getSymName().str();
    llvm::raw_string_ostream stream(unit.text);
    // Numbered by itself: the module around would be gone through for each.
    kernel->print(stream, OpPrintingFlags().assumeVerified().useLocalScope());
    units.push_back(std::move(unit));
  }
  return units;
}

} // namespace

FailureOr<std::string> compileKernelsToPtx(ModuleOp kernels, unsigned threads) {
  auto units = split(kernels);
  if (failed(units))
    return failure();
  KernelStages stages{"NVVM", createPtxMachine, createCudaKernelContext, lowerToNvvm, emitPtx};
  if (failed(compileUnits(kernels, *units, stages, threads)))
    return failure();
  return joinPtx(*units);
}

} // namespace autopar
