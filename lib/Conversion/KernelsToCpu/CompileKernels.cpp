// SPDX-License-Identifier: Apache-2.0
// compileKernels: hands the kernels to threads, each with contexts of its own, and links what comes
// back in the order of the module, so that the bytes do not depend on the threads.
#include "Stages.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"

#include <atomic>
#include <thread>

using namespace mlir;

namespace autopar {
namespace {
using namespace cpu;

/// What one thread needs to compile kernels, made once.
class KernelCompiler {
public:
  explicit KernelCompiler(const LlvmTarget &target) : target(target) {}

  llvm::Error prepare() {
    auto created = createTargetMachine(target);
    if (!created)
      return created.takeError();
    machine = std::move(*created);
    context = createKernelContext();
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
        lowerToLlvmDialect(unit, *context, machine->createDataLayout().getStringRepresentation());
    llvm::LLVMContext llvmContext;
    auto module = lowered ? translateModuleToLLVMIR(*lowered, llvmContext, unit.name) : nullptr;
    if (!module) {
      unit.error = messages.empty() ? "cannot be lowered to LLVM" : messages;
      return;
    }
    auto object = emitObject(*module, unit.name, target, *machine);
    if (object)
      unit.object = std::move(*object);
    else
      unit.error = llvm::toString(object.takeError());
  }

private:
  LlvmTarget target;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<MLIRContext> context;
};

void compileAll(std::vector<Unit> &units, const LlvmTarget &target, unsigned threads) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    KernelCompiler compiler(target);
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

FailureOr<std::vector<char>> compileKernels(ModuleOp kernels, const CpuTarget &target,
                                            unsigned threads) {
  auto resolved = resolveCpuTarget(target, kernels.getLoc());
  if (failed(resolved))
    return failure();
  auto units = splitKernels(kernels);
  if (failed(units))
    return failure();
  if (units->empty())
    return kernels.emitError("expected at least one public function to compile as a kernel");
  compileAll(*units, toLlvm(*resolved), threads);
  bool failedAny = false;
  for (const Unit &unit : *units) {
    if (unit.error.empty())
      continue;
    failedAny = true;
    Operation *kernel = kernels.lookupSymbol(unit.name);
    kernel->emitError("kernel '") << unit.name << "': " << unit.error;
  }
  if (failedAny)
    return failure();
  auto linked = linkSharedObject(*units);
  if (!linked)
    return kernels.emitError(llvm::toString(linked.takeError()));
  return std::move(*linked);
}

} // namespace autopar
