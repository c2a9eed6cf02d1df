// SPDX-License-Identifier: Apache-2.0
// compileUnits: hands the kernels to threads, each with a context and a target machine of its own.
#include "autopar/Conversion/KernelUnits.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "llvm/IR/LLVMContext.h"

#include <atomic>
#include <thread>

using namespace mlir;

namespace autopar {
namespace {

/// What one thread needs to compile kernels, made once.
class KernelCompiler {
public:
  explicit KernelCompiler(const KernelStages &stages) : stages(stages) {}

  llvm::Error prepare() {
    auto created = stages.createMachine();
    if (!created)
      return created.takeError();
    machine = std::move(*created);
    context = stages.createContext();
    return llvm::Error::success();
  }

  void compile(KernelUnit &unit) {
    std::string messages;
    ScopedDiagnosticHandler handler(context.get(), [&](Diagnostic &diagnostic) {
      if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
        messages += (messages.empty() ? "" : "; ") + diagnostic.str();
      return success();
    });
    auto lowered =
        stages.lower(unit, *context, machine->createDataLayout().getStringRepresentation());
    llvm::LLVMContext llvmContext;
    auto module = lowered ? translateModuleToLLVMIR(*lowered, llvmContext, unit.name) : nullptr;
    if (!module) {
      unit.error = messages.empty() ? "cannot be lowered to " + stages.dialect : messages;
      return;
    }
    auto code = stages.emit(*module, unit.name, *machine);
    if (code)
      unit.code = std::move(*code);
    else
      unit.error = llvm::toString(code.takeError());
  }

private:
  const KernelStages &stages;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::unique_ptr<MLIRContext> context;
};

} // namespace

LogicalResult compileUnits(ModuleOp kernels, std::vector<KernelUnit> &units,
                           const KernelStages &stages, unsigned threads) {
  std::atomic<size_t> next = 0;
  auto work = [&] {
    KernelCompiler compiler(stages);
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
  bool failedAny = false;
  for (const KernelUnit &unit : units) {
    if (unit.error.empty())
      continue;
    failedAny = true;
    kernels.lookupSymbol(unit.name)->emitError("kernel '") << unit.name << "': " << unit.error;
  }
  return failure(failedAny);
}

} // namespace autopar
