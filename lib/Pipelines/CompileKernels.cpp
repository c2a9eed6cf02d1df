// SPDX-License-Identifier: Apache-2.0
#include "CompileKernels.h"

#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Conversion/AutoParToExec.h"
#include "autopar/Conversion/KernelsToCpu.h"
#include "autopar/Conversion/KernelsToCuda.h"
#include "autopar/Transforms/ByteSums.h"

#include <thread>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::Status;
using ::autopar::StatusCode;

static unsigned compilerThreads() { return std::max(1u, std::thread::hardware_concurrency()); }

static Status compileForCpu(ModuleOp module, ModuleOp kernels, const std::string &targetCpu,
                            bool optimizes, EmitOptions &emit) {
  FailureOr<::autopar::CpuTarget> resolved =
      ::autopar::resolveCpuTarget({targetCpu, 0, optimizes}, module.getLoc());
  if (failed(resolved))
    return Status::badInput("");
  // Artifacts name psABI levels; what lies beyond is used only where it was asked for by name.
  if (targetCpu == "native")
    resolved->level = StringRef(resolved->level).split('+').first.str();
  emit.target.features = resolved->level;
  if (!kernels)
    return Status::ok();
  bool multipliesBytes = llvm::any_of(kernels.getOps<func::FuncOp>(), [](func::FuncOp kernel) {
    return kernel->hasAttr(kMultipliesBytes);
  });
  if (multipliesBytes && !StringRef(resolved->level).contains("+amx")) // which has it
    emit.target.features += "+vnni";
  FailureOr<std::vector<char>> object =
      ::autopar::compileKernels(kernels, *resolved, compilerThreads());
  if (failed(object))
    return {StatusCode::Internal, ""};
  emit.kernels = std::move(*object);
  return Status::ok();
}

/// PTX, and machine code of the cluster's chip where there is an assembler; else the driver
/// assembles when the artifact is loaded.
static Status compileForCuda(ModuleOp module, ModuleOp kernels, int cudaChip, EmitOptions &emit) {
  ::autopar::artifact::CudaTarget target{::autopar::kPtxMajor, ::autopar::kPtxMinor,
                                         ::autopar::kPtxChip, cudaChip};
  emit.target = {"cuda", target.toText()};
  if (!kernels)
    return Status::ok();
  FailureOr<std::string> ptx = ::autopar::compileKernelsToPtx(kernels, compilerThreads());
  if (failed(ptx))
    return {StatusCode::Internal, ""};
  emit.ptx = std::move(*ptx);
  std::optional<std::string> ptxas = ::autopar::findPtxas();
  if (!ptxas) {
    emitRemark(module.getLoc()) << "no ptxas in CUDA_HOME, CUDA_PATH, PATH or /usr/local/cuda: "
                                   "the artifact holds PTX only, which the driver assembles "
                                   "when it is loaded";
    return Status::ok();
  }
  auto assembled = ::autopar::assemblePtx(emit.ptx, cudaChip, *ptxas);
  if (!assembled)
    return assembled.status();
  emit.cubin = assembled.take();
  return Status::ok();
}

Status mlir::autopar::compileKernels(ModuleOp module, const std::string &targetCpu, bool optimizes,
                                     int cudaChip, EmitOptions &emit) {
  auto kernels = module.lookupSymbol<ModuleOp>("kernels");
  if (kernels && kernels.getBody()->empty())
    kernels = {};
  return module->hasAttr(kTargetAttribute)
             ? compileForCuda(module, kernels, cudaChip, emit)
             : compileForCpu(module, kernels, targetCpu, optimizes, emit);
}
