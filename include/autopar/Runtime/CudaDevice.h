// SPDX-License-Identifier: Apache-2.0
// The CUDA device. NVIDIA's libraries are opened when one is created; nothing is linked.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Runtime/Device.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace autopar::runtime {

struct CudaOptions {
  std::string libraries;   ///< folders to look for NVIDIA's libraries in, separated by colons
  int32_t localRank = 0;   ///< of the ranks of this machine: the GPU is this modulo their number
  artifact::Target target; ///< what the artifact asks of the GPU and its driver
  std::string_view ptx;    ///< the kernels, zero-terminated; outlives the device. Empty: none
  std::span<const uint8_t> cubin; ///< the same for the target's own chip; may be empty
};

/// NoDevice where driver, GPU or library are missing, Mismatch where they are not what the target
/// asks for.
Result<std::unique_ptr<Device>> createCudaDevice(const CudaOptions &options);

/// How many GPUs this process sees; NoDevice says why it sees none.
Result<int32_t> countCudaDevices(const std::string &libraries);

} // namespace autopar::runtime
