// SPDX-License-Identifier: Apache-2.0
// One GPU of the machine and the context in which everything on it lives.
#pragma once

#include "CudaLibraries.h"

#include <string>

namespace autopar::runtime::cuda {

/// Keeps the GPU's primary context as long as it lives.
class Gpu {
public:
  static Result<std::shared_ptr<Gpu>> open(std::shared_ptr<CudaLibraries> libraries,
                                           int32_t ordinal);
  ~Gpu();
  Gpu(const Gpu &) = delete;
  Gpu &operator=(const Gpu &) = delete;

  /// Makes its context that of the calling thread; before every other call.
  Status select() const { return check(calls().contextSetCurrent(context), "cuCtxSetCurrent"); }

  const DriverCalls &calls() const { return libraries->driver(); }
  CudaLibraries &all() const { return *libraries; }
  /// "GPU 0 (NVIDIA H200)".
  const std::string &text() const { return description; }
  /// 16 bytes that no other GPU has.
  const std::string &uuid() const { return own; }
  int32_t ordinal() const { return number; }
  int capability() const { return computeCapability; } ///< 90 for 9.0
  int maxSharedBytes() const { return sharedBytes; }

  Status check(DriverError error, const std::string &what) const {
    return error == DriverError::Success ? Status::ok()
                                         : libraries->check(error, what).at(description);
  }

private:
  explicit Gpu(std::shared_ptr<CudaLibraries> libraries) : libraries(std::move(libraries)) {}
  std::shared_ptr<CudaLibraries> libraries;
  int32_t number = 0;
  DeviceOrdinal device = 0;
  Context context = nullptr;
  int computeCapability = 0, sharedBytes = 0;
  std::string description, own;
};

} // namespace autopar::runtime::cuda
