// SPDX-License-Identifier: Apache-2.0
// compileKernels: the stages of the CPU, and the link of what comes back in the order of the
// module.
#include "Stages.h"

using namespace mlir;

namespace autopar {
using namespace cpu;

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
  LlvmTarget llvmTarget = toLlvm(*resolved);
  KernelStages stages{
      "LLVM", [&] { return createTargetMachine(llvmTarget); }, createCpuKernelContext,
      lowerToLlvmDialect,
      [&](llvm::Module &module, const std::string &kernel, llvm::TargetMachine &machine) {
        return emitObject(module, kernel, llvmTarget, machine);
      }};
  if (failed(compileUnits(kernels, *units, stages, threads)))
    return failure();
  auto linked = linkSharedObject(*units);
  if (!linked)
    return kernels.emitError(llvm::toString(linked.takeError()));
  return std::move(*linked);
}

} // namespace autopar
