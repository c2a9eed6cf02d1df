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
  const void *image = fits ? static_cast<const void *>(cubin.data()) : ptx.data();
  char log[4096] = {};
  int names[] = {kJitErrorLog, kJitErrorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(uintptr_t(sizeof(log) - 1))};
  DriverError error = gpu->calls().moduleLoadDataEx(&kernels->module, image, 2, names, values);
  if (error == DriverError::UnsupportedPtxVersion)
    return Status::mismatch(
        gpu->text() + ": the CUDA driver is too old: the artifact's kernels are PTX " +
        std::to_string(target.ptxMajor) + "." + std::to_string(target.ptxMinor) +
        ", the driver offers CUDA " + std::to_string(gpu->all().driverVersion() / 1000) + "." +
        std::to_string(gpu->all().driverVersion() % 1000 / 10));
  if (error != DriverError::Success)
    return gpu->check(error, std::string("the artifact's kernels are refused") +
                                 (log[0] ? ": " + std::string(log) : ""));
  for (const std::string &symbol : symbols) {
    Function function = nullptr;
    if (gpu->calls().moduleGetFunction(&function, kernels->module, symbol.c_str()) !=
        DriverError::Success)
      return Status::badInput("kernels: symbol " + symbol + " is missing");
    kernels->functions.push_back(function);
  }
  return kernels;
}

CudaKernels::~CudaKernels() {
  if (module && gpu->select().isOk())
    gpu->calls().moduleUnload(module);
}

} // namespace autopar::runtime::cuda
