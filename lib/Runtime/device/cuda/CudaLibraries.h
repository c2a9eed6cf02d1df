// SPDX-License-Identifier: Apache-2.0
// NVIDIA's libraries, opened by soname when an artifact wants them; nothing is linked.
#pragma once

#include "../../comm/nccl/NcclCalls.h"
#include "BlasLtCalls.h"
#include "CudnnCalls.h"
#include "DriverCalls.h"
#include "autopar/Base/Status.h"

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace autopar::runtime::cuda {

/// The oldest driver whose interface is all that is used here, as cuDriverGetVersion says it.
constexpr int kOldestDriver = 12000;
/// The oldest driver on which libraries of CUDA 13 run.
constexpr int kCuda13 = 13000;

/// Thread-safe. Libraries stay open until the process ends.
class CudaLibraries {
public:
  /// Opens the driver and looks for devices. Libraries are looked for in `folders` (separated by
  /// colons), then in those of AUTOPAR_CUDA_LIBRARIES, then where the system looks, by the newest
  /// name that the driver's version allows. NoDevice says what is missing.
  static Result<std::shared_ptr<CudaLibraries>> open(const std::string &folders);

  const DriverCalls &driver() const { return calls; }
  int driverVersion() const { return version; }
  int deviceCount() const { return devices; }
  /// NoDevice where the library is missing.
  Result<const BlasLtCalls *> blasLt();
  /// `what` it is for and the option to do `without` it are named where it cannot be opened.
  Result<const CudnnCalls *> cudnn(const std::string &what, const std::string &without);
  Result<const NcclCalls *> nccl();

  /// Ok, or what failed and the driver's words about it.
  Status check(DriverError error, const std::string &what) const;

private:
  explicit CudaLibraries(std::vector<std::string> folders) : folders(std::move(folders)) {}
  Status openDriver();
  /// cuDNN looks for cuBLASLt and for NVRTC, which compiles its graphs, by their sonames, and NVRTC
  /// so for its builtins, which lie beside it. That finds what is open already, wherever it lies.
  void openWhatCudnnWants() const;
  /// Names of a library of CUDA that run on this driver, newest first.
  std::vector<std::string> ofCudaVersions(const std::string &name) const;
  Result<void *> openAny(const std::vector<std::string> &sonames, const std::string &use) const;

  std::vector<std::string> folders;
  DriverCalls calls;
  int version = 0, devices = 0;
  std::mutex mutex;
  std::optional<BlasLtCalls> blasCalls;
  std::optional<CudnnCalls> cudnnCalls;
  std::optional<NcclCalls> ncclCalls;
};

} // namespace autopar::runtime::cuda
