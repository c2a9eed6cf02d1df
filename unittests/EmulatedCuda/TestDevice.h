// SPDX-License-Identifier: Apache-2.0
// The CUDA device that tests run on: the emulated one, or that of the machine where
// AUTOPAR_CUDA_LIBRARIES says where its libraries are.
#pragma once

#include "../../lib/Runtime/device/cuda/Gpu.h"
#include "autopar/Artifact/CudaTarget.h"
#include "autopar/Runtime/CudaDevice.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>

namespace autopar::testing {

/// A GPU machine says where its libraries are, with nothing for the system's folders.
inline bool isEmulated() { return !std::getenv("AUTOPAR_CUDA_LIBRARIES"); }

/// What CudaOptions::libraries should be.
inline std::string cudaLibraries() { return isEmulated() ? EMULATED_CUDA : ""; }

/// Making a context takes a real GPU a while: tests share one until the process ends.
inline void keepContext() {
  static auto *gpu = [] {
    using namespace runtime::cuda;
    auto libraries = CudaLibraries::open(cudaLibraries());
    using Opened = Result<std::shared_ptr<Gpu>>;
    return new Opened(libraries ? Gpu::open(*libraries, 0) : Opened(libraries.status()));
  }();
  EXPECT_TRUE(gpu->isOk()) << gpu->status().message();
}

/// Null, and the test has failed, where there is none.
inline std::unique_ptr<runtime::Device> createDevice() {
  keepContext();
  runtime::CudaOptions options;
  options.libraries = cudaLibraries();
  options.target = {"cuda", artifact::CudaTarget().toText()};
  auto device = runtime::createCudaDevice(options);
  EXPECT_TRUE(device.isOk()) << device.status().message();
  return device.isOk() ? device.take() : nullptr;
}

} // namespace autopar::testing
