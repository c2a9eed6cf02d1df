// SPDX-License-Identifier: Apache-2.0
// The driver's functions: start, devices, contexts, names of errors.
#include "DriverState.h"

#include <cstdio>
#include <cstring>

namespace emulated {

std::map<int, ContextRecord *> contexts;
std::set<ContextRecord *> liveContexts;
bool isInitialized = false;
thread_local ContextRecord *current = nullptr;

int deviceCount() { return int(setting("AUTOPAR_EMULATED_CUDA_DEVICES", 1)); }
/// A chip that no preset of clusters has: artifacts bring machine code for those.
int chip() { return int(setting("AUTOPAR_EMULATED_CUDA_CHIP", 86)); }
int mostSharedBytesPerBlock() {
  switch (chip()) {
  case 70:
    return 96 * 1024;
  case 75:
    return 64 * 1024;
  case 80:
  case 87:
    return 163 * 1024;
  case 86:
  case 89:
  case 120:
    return 99 * 1024;
  default:
    return 227 * 1024;
  }
}
int driverVersion() { return int(setting("AUTOPAR_EMULATED_CUDA_DRIVER", 13000)); }

Call::Call(bool needsContext) : lock(Timeline::get().mutex) {
  if (!isInitialized)
    state = DriverError::NotInitialized;
  else if (needsContext && (!current || !liveContexts.count(current)))
    state = DriverError::InvalidContext;
  else if (needsContext && Timeline::get().error)
    state = DriverError(Timeline::get().error);
}

bool Call::isUnsafe() {
  if (!Timeline::get().breakCaptureOfThread())
    return false;
  state = DriverError::CaptureUnsupported;
  return true;
}

bool isStream(Stream stream) {
  bool known = Timeline::get().streams.count(stream) != 0;
  if (!known)
    complain("no such stream");
  else if (stream->device != current->device)
    complain("a stream of another GPU than the context's");
  return known && stream->device == current->device;
}

bool enqueueWork(const char *kind, Stream stream, Work work, Ready isReady) {
  Call call;
  if (call.isBad() || !isStream(stream))
    return false;
  Timeline::get().enqueue(kind, *stream, std::move(work), std::move(isReady));
  return true;
}
uint8_t *deviceBytes(const void *address, uint64_t bytes) {
  std::lock_guard lock(Timeline::get().mutex);
  return DeviceMemory::get().resolve(uint64_t(address), bytes);
}
int currentDevice() { return current ? current->device : -1; }
void complain(const std::string &text) {
  std::fprintf(stderr, "emulated CUDA: %s\n", text.c_str());
}

} // namespace emulated

/// How often work of a kind was given to streams of their own accord: "kernels", "products",
/// "copies", "fills", "collectives", "graphs". What is captured or in a graph does not count.
extern "C" EMULATED_API uint64_t emulatedCudaCount(const char *kind) {
  std::lock_guard lock(emulated::Timeline::get().mutex);
  return emulated::Timeline::get().counts[kind];
}

using namespace autopar::runtime::cuda;
using namespace emulated;

EXPORTED cuInit(unsigned flags) {
  std::lock_guard lock(Timeline::get().mutex);
  if (flags != 0)
    return DriverError::InvalidValue;
  if (deviceCount() == 0)
    return DriverError::NoDevice;
  isInitialized = true;
  return DriverError::Success;
}
EXPORTED cuDriverGetVersion(int *version) {
  *version = driverVersion();
  return DriverError::Success;
}
EXPORTED cuDeviceGetCount(int *count) {
  Call call(false);
  *count = deviceCount();
  return call.state;
}
EXPORTED cuDeviceGet(DeviceOrdinal *device, int ordinal) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (ordinal < 0 || ordinal >= deviceCount())
    return DriverError::InvalidDevice;
  *device = ordinal;
  return DriverError::Success;
}
EXPORTED cuDeviceGetName(char *name, int length, DeviceOrdinal device) {
  Call call(false);
  std::snprintf(name, size_t(length), "emulated GPU");
  return call.isBad()             ? call.state
         : device < deviceCount() ? DriverError::Success
                                  : DriverError::InvalidDevice;
}
EXPORTED cuDeviceGetUuid_v2(unsigned char *uuid, DeviceOrdinal device) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (device < 0 || device >= deviceCount())
    return DriverError::InvalidDevice;
  // The same for all processes, as they are on one machine.
  std::memcpy(uuid, "emulated GPU   ", 16);
  uuid[15] = static_cast<unsigned char>(device);
  return DriverError::Success;
}
EXPORTED cuDeviceGetAttribute(int *value, int attribute, DeviceOrdinal device) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (device < 0 || device >= deviceCount())
    return DriverError::InvalidDevice;
  switch (attribute) {
  case kComputeCapabilityMajor:
    *value = chip() / 10;
    return DriverError::Success;
  case kComputeCapabilityMinor:
    *value = chip() % 10;
    return DriverError::Success;
  case kMaxSharedBytesPerBlock:
    *value = mostSharedBytesPerBlock();
    return DriverError::Success;
  }
  complain("attribute " + std::to_string(attribute) + " of GPUs is not known");
  return DriverError::InvalidValue;
}
EXPORTED cuDevicePrimaryCtxRetain(Context *context, DeviceOrdinal device) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (device < 0 || device >= deviceCount())
    return DriverError::InvalidDevice;
  ContextRecord *&own = contexts[device];
  if (!own) {
    own = new ContextRecord{device, 0};
    liveContexts.insert(own);
  }
  ++own->uses;
  *context = own;
  return DriverError::Success;
}
EXPORTED cuDevicePrimaryCtxRelease_v2(DeviceOrdinal device) {
  Call call(false);
  auto found = contexts.find(device);
  if (found == contexts.end() || found->second->uses == 0)
    return DriverError::InvalidContext;
  --found->second->uses;
  return DriverError::Success;
}
EXPORTED cuCtxSetCurrent(Context context) {
  Call call(false);
  if (call.isBad())
    return call.state;
  if (context && !exists(liveContexts, context))
    return DriverError::InvalidContext;
  current = context;
  return DriverError::Success;
}
EXPORTED cuGetErrorName(DriverError error, const char **name) {
  static const std::map<int, const char *> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                    {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                    {3, "CUDA_ERROR_NOT_INITIALIZED"},
                                                    {100, "CUDA_ERROR_NO_DEVICE"},
                                                    {200, "CUDA_ERROR_INVALID_IMAGE"},
                                                    {101, "CUDA_ERROR_INVALID_DEVICE"},
                                                    {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                    {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                    {218, "CUDA_ERROR_INVALID_PTX"},
                                                    {222, "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"},
                                                    {400, "CUDA_ERROR_INVALID_HANDLE"},
                                                    {500, "CUDA_ERROR_NOT_FOUND"},
                                                    {600, "CUDA_ERROR_NOT_READY"},
                                                    {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"},
                                                    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION"},
                                                    {716, "CUDA_ERROR_MISALIGNED_ADDRESS"},
                                                    {719, "CUDA_ERROR_LAUNCH_FAILED"},
                                                    {900, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED"},
                                                    {901, "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED"},
                                                    {902, "CUDA_ERROR_STREAM_CAPTURE_MERGE"},
                                                    {904, "CUDA_ERROR_STREAM_CAPTURE_UNJOINED"},
                                                    {905, "CUDA_ERROR_STREAM_CAPTURE_ISOLATION"},
                                                    {907, "CUDA_ERROR_CAPTURED_EVENT"}};
  auto found = names.find(int(error));
  *name = found == names.end() ? nullptr : found->second;
  return found == names.end() ? DriverError::InvalidValue : DriverError::Success;
}
EXPORTED cuGetErrorString(DriverError, const char **text) {
  *text = "of the emulated GPU";
  return DriverError::Success;
}
