// SPDX-License-Identifier: Apache-2.0
// What all targets of generated kernels share: each kernel is a text of its own, and threads with
// contexts of their own take it through the target's stages.
#pragma once

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectRegistry.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/Error.h"
#include "llvm/Target/TargetMachine.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace autopar {

/// Object code, or text.
using KernelCode = llvm::SmallVector<char, 0>;

/// One kernel on its way through the stages; `text` is a module of its own.
struct KernelUnit {
  std::string name;
  std::string text;
  KernelCode code;
  std::string error; ///< empty = compiled
};

/// What a target does with a kernel. Called on several threads.
struct KernelStages {
  std::string dialect; ///< what `lower` ends in, for messages
  std::function<llvm::Expected<std::unique_ptr<llvm::TargetMachine>>()> createMachine;
  std::function<std::unique_ptr<mlir::MLIRContext>()> createContext;
  /// On failure the context's diagnostics say why.
  std::function<mlir::OwningOpRef<mlir::ModuleOp>(const KernelUnit &, mlir::MLIRContext &,
                                                  const std::string &dataLayout)>
      lower;
  std::function<llvm::Expected<KernelCode>(llvm::Module &, const std::string &kernel,
                                           llvm::TargetMachine &)>
      emit;
};

/// Compiles all units; the code depends on the units alone, never on `threads`. Errors stand at the
/// functions of `kernels`.
mlir::LogicalResult compileUnits(mlir::ModuleOp kernels, std::vector<KernelUnit> &units,
                                 const KernelStages &stages, unsigned threads);

/// A context without threads for the dialects that every kernel may use, and those of `registry`.
std::unique_ptr<mlir::MLIRContext> createKernelContext(mlir::DialectRegistry &registry);
/// The unit as a module with a data layout; null, with diagnostics, if it does not parse.
mlir::OwningOpRef<mlir::ModuleOp> parseUnit(const KernelUnit &unit, mlir::MLIRContext &context,
                                            const std::string &dataLayout);
/// Loops and branches become blocks, and divisions that round up or down what machines have.
mlir::LogicalResult convertControlFlow(mlir::ModuleOp module);
/// Names an LLVM module after its kernel and takes over the machine's layout.
void nameKernelModule(llvm::Module &module, const std::string &kernel,
                      llvm::TargetMachine &machine);
/// Error where lowering has left broken IR.
llvm::Error verifyKernelModule(const llvm::Module &module);
/// Runs the code generator; `what` is what it writes, for messages.
llvm::Expected<KernelCode> generateCode(llvm::Module &module, llvm::TargetMachine &machine,
                                        llvm::CodeGenFileType type, llvm::StringRef what);
/// LLVM's O3 as `builder` is set up, and then what `addLast` adds.
void optimizeKernel(llvm::Module &module, llvm::PassBuilder &builder,
                    llvm::function_ref<void(llvm::ModulePassManager &)> addLast = {});

} // namespace autopar
