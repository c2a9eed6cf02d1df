// SPDX-License-Identifier: Apache-2.0
// The kernels of a rank class on a GPU.
#pragma once

#include "Gpu.h"
#include "autopar/Artifact/CudaTarget.h"

#include <span>
#include <string_view>
#include <vector>

namespace autopar::runtime::cuda {

/// A loaded module and its functions, by the program's kernel numbers.
class CudaKernels {
public:
  /// Takes the cubin where the GPU is the very chip that it is for, else the PTX.
  static Result<std::unique_ptr<CudaKernels>>
  load(std::shared_ptr<Gpu> gpu, const artifact::CudaTarget &target, std::string_view ptx,
       std::span<const uint8_t> cubin, const std::vector<std::string> &symbols);
  ~CudaKernels();

  Function function(int32_t kernel) const { return functions[size_t(kernel)]; }

private:
  explicit CudaKernels(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}
  std::shared_ptr<Gpu> gpu;
  Module module = nullptr;
  std::vector<Function> functions;
};

} // namespace autopar::runtime::cuda
