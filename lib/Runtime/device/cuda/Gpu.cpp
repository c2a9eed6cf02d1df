// SPDX-License-Identifier: Apache-2.0
// Opens a GPU.
#include "Gpu.h"

namespace autopar::runtime::cuda {

Result<std::shared_ptr<Gpu>> Gpu::open(std::shared_ptr<CudaLibraries> libraries, int32_t ordinal) {
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(libraries)));
  const DriverCalls &calls = gpu->calls();
  gpu->number = ordinal;
  gpu->description = "GPU " + std::to_string(ordinal);
  AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.deviceGet(&gpu->device, ordinal), "cuDeviceGet"));
  char name[128] = {};
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.deviceGetName(name, sizeof(name) - 1, gpu->device), "cuDeviceGetName"));
  gpu->description += " (" + std::string(name) + ")";
  unsigned char uuid[16] = {};
  AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.deviceGetUuid(uuid, gpu->device), "cuDeviceGetUuid"));
  gpu->own.assign(reinterpret_cast<char *>(uuid), sizeof(uuid));
  int major = 0, minor = 0;
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.deviceGetAttribute(&major, kComputeCapabilityMajor, gpu->device),
                 "cuDeviceGetAttribute"));
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.deviceGetAttribute(&minor, kComputeCapabilityMinor, gpu->device),
                 "cuDeviceGetAttribute"));
  AUTOPAR_RETURN_IF_ERROR(
      gpu->check(calls.deviceGetAttribute(&gpu->sharedBytes, kMaxSharedBytesPerBlock, gpu->device),
                 "cuDeviceGetAttribute"));
  gpu->computeCapability = major * 10 + minor;
  AUTOPAR_RETURN_IF_ERROR(gpu->check(calls.primaryContextRetain(&gpu->context, gpu->device),
                                     "cuDevicePrimaryCtxRetain"));
  return gpu;
}

Gpu::~Gpu() {
  if (context)
    calls().primaryContextRelease(device);
}

} // namespace autopar::runtime::cuda
