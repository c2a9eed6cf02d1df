// SPDX-License-Identifier: Apache-2.0
// Communicators between GPUs for the conformance suite, which has its numbers in the host's memory.
#pragma once

#include "autopar/Runtime/Communicator.h"

#include <memory>
#include <vector>

namespace autopar::testing {

/// GPUs that NCCL may have a rank on: emulated ones, or those of the machine where
/// AUTOPAR_CUDA_LIBRARIES says where their libraries are.
int32_t gpuCount();

/// A communicator that copies to a GPU, communicates by NCCL or staged, and copies back.
std::unique_ptr<runtime::Communicator> overGpu(std::unique_ptr<runtime::Communicator> host,
                                               bool byNccl);

template <typename World>
std::vector<World> gpuWorlds() {
  std::vector<World> all;
  int32_t gpus = gpuCount();
  for (int32_t size = 1; size <= 4; ++size) {
    if (size <= gpus)
      all.push_back({"nccl", size});
    all.push_back({"staged", size});
  }
  if (gpus > 4)
    all.push_back({"nccl", gpus});
  return all;
}

} // namespace autopar::testing
