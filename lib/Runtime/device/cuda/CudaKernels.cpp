// SPDX-License-Identifier: Apache-2.0
// Gives a module to the driver, which assembles PTX for its GPU.
#include "CudaKernels.h"

#include <cstdint>

namespace autopar::runtime::cuda {

Result<std::unique_ptr<CudaKernels>> CudaKernels::load(std::shared_ptr<Gpu> gpu,
                                                       const artifact::CudaTarget &target,
                                                       std::string_view ptx,
                                                       std::span<const uint8_t> cubin,
                                                       const std::vector<std::string> &symbols) {
  std::unique_ptr<CudaKernels> kernels(new CudaKernels(gpu));
  bool fits = !cubin.empty() && gpu->capability() == target.chip;
  std::string log;
  // A driver may be older than the assembler that made the cubin, and assembles PTX itself.
  DriverError error = fits ? kernels->give(cubin.data(), log) : DriverError::NoBinaryForDevice;
  if (error != DriverError::Success)
    error = kernels->give(ptx.data(), log);
  if (error == DriverError::UnsupportedPtxVersion)
    return Status::mismatch(
        gpu->text() + ": the CUDA driver is too old: the artifact's kernels are PTX " +
        std::to_string(target.ptxMajor) + "." + std::to_string(target.ptxMinor) +
        ", the driver offers CUDA " + std::to_string(gpu->all().driverVersion() / 1000) + "." +
        std::to_string(gpu->all().driverVersion() % 1000 / 10));
  if (error != DriverError::Success)
    return gpu->check(error, std::string("the artifact's kernels are refused") +
                                 (log.empty() ? "" : ": " + log));
  for (const std::string &symbol : symbols) {
    Function function = nullptr;
    if (gpu->calls().moduleGetFunction(&function, kernels->module, symbol.c_str()) !=
        DriverError::Success)
      return Status::badInput("kernels: symbol " + symbol + " is missing");
    kernels->functions.push_back(function);
  }
  kernels->sharedBytes.resize(symbols.size());
  return kernels;
}

DriverError CudaKernels::give(const void *image, std::string &log) {
  char text[4096] = {};
  int names[] = {kJitErrorLog, kJitErrorLogBytes};
  void *values[] = {text, reinterpret_cast<void *>(uintptr_t(sizeof(text) - 1))};
  DriverError error = gpu->calls().moduleLoadDataEx(&module, image, 2, names, values);
  log = text;
  return error;
}

// Without asking a block gets 48 KiB less what it shares statically.
Status CudaKernels::allowShared(int32_t kernel, int bytes) {
  int &allowed = sharedBytes[size_t(kernel)];
  if (bytes <= allowed)
    return Status::ok();
  allowed = bytes;
  return gpu->check(
      gpu->calls().functionSetAttribute(function(kernel), kMaxDynamicSharedBytes, bytes),
      "cuFuncSetAttribute, " + std::to_string(bytes) + " bytes of shared memory");
}

CudaKernels::~CudaKernels() {
  if (module && gpu->select().isOk())
    gpu->calls().moduleUnload(module);
}

} // namespace autopar::runtime::cuda
