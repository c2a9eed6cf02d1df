// SPDX-License-Identifier: Apache-2.0
// compileKernelsToPtx: hands the kernels to threads, each with contexts of its own, and joins what
// comes back in the order of the module.
#include "CudaStages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"

#include <atomic>
#include <thread>

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
    kernel->print(stream, OpPrintingFlags().assumeVerified());
    units.push_back(std::move(unit));
  }
  return units;
}

/// What one thread needs to compile kernels, made once.
class KernelCompiler {
public:
  llvm::Error prepare() {
    auto created = createPtxMachine();
    if (!created)
      return created.takeError();
    machine = std::move(*created);
    context = createCudaKernelContext();
    return llvm::Error::success();
  }

  void compile(Unit &unit) {
    std::string messages;
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        messages += (messages.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    auto lowered =
        lowerToNvvm(unit, *context, machine->createDataLayout().getStringRepresentation());
    llvm::LLVMContext llvmContext;
    auto module = lowered ? translateModuleToLLVMIR(*lowered, llvmContext, unit.name) : nullptr;
    if (!module) {
      unit.error = messages.empty() ? "cannot be lowered to NVVM" : messages;
      return;
    }
    auto ptx = emitPtx(*module, unit.name, *machine);
    if (ptx)
      unit.ptx = std::move(*ptx);
    else
      unit.error = llvm::toString(ptx.takeError());
  }

private:
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<MLIRContext> context;
};

void compileAll(std::vector<Unit> &units, unsigned threads) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    KernelCompiler compiler;
    llvm::Error error = compiler.prepare();
    std::string unusable = error ? llvm::toString(std::move(error)) : "";
    for (size_t index = next++; index < units.size(); index = next++) {
      units[index].error = unusable;
      if (unusable.empty())
        compiler.compile(units[index]);
    }
  };
  std::vector<std::thread> helpers;
  for (unsigned count = 1; count < std::min<size_t>(threads, units.size()); ++count)
    helpers.emplace_back(work);
  work();
  for (std::thread &helper : helpers)
    helper.join();
}

} // namespace

FailureOr<std::string> compileKernelsToPtx(ModuleOp kernels, unsigned threads) {
  auto units = split(kernels);
  if (failed(units))
    return failure();
  compileAll(*units, threads);
  bool failedAny = false;
  for (const Unit &unit : *units) {
    if (unit.error.empty())
      continue;
    failedAny = true;
    kernels.lookupSymbol(unit.name)->emitError("kernel '") << unit.name << "': " << unit.error;
  }
  if (failedAny)
    return failure();
  return joinPtx(*units);
}

} // namespace autopar
