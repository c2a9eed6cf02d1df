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
  /// Takes the cubin where the GPU is the very chip that it is for and the driver takes it, else
  /// the PTX.
  static Result<std::unique_ptr<CudaKernels>>
  load(std::shared_ptr<Gpu> gpu, const artifact::CudaTarget &target, std::string_view ptx,
       std::span<const uint8_t> cubin, const std::vector<std::string> &symbols);
  ~CudaKernels();

  Function function(int32_t kernel) const { return functions[size_t(kernel)]; }
  /// Launches of the kernel may ask for as much dynamic shared memory.
  Status allowShared(int32_t kernel, int bytes);

private:
  explicit CudaKernels(std::shared_ptr<Gpu> gpu) : gpu(std::move(gpu)) {}
  /// Gives an image to the driver. `log` is what its assembler says.
  DriverError give(const void *image, std::string &log);

  std::shared_ptr<Gpu> gpu;
  Module module = nullptr;
  std::vector<Function> functions;
  std::vector<int> sharedBytes; ///< that launches may ask for, by kernel; 0 is the driver's default
};

} // namespace autopar::runtime::cuda
