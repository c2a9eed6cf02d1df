// SPDX-License-Identifier: Apache-2.0
// Runs kernels of PTX text on the driver in software that the build makes for tests
// (unittests/EmulatedCuda).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::test {

/// Some bytes of host memory that a kernel reads and writes.
struct GpuArgument {
  void *host = nullptr;
  size_t bytes = 0;
};

struct GpuLaunch {
  int64_t blocks = 0, threads = 0, sharedBytes = 0;
};

/// A module, loaded. Failures are test failures.
class EmulatedGpu {
public:
  explicit EmulatedGpu(const std::string &ptx);
  ~EmulatedGpu();
  /// Copies the arguments to the device, launches, and copies them back.
  void launch(const std::string &kernel, const GpuLaunch &shape,
              const std::vector<GpuArgument> &arguments);

private:
  void *module = nullptr;
};

} // namespace autopar::test
