// SPDX-License-Identifier: Apache-2.0
// The driver's functions: memory of GPUs and pinned memory, copies.
#include "DriverState.h"

#include <cstring>

using namespace autopar::runtime::cuda;
using namespace emulated;

namespace {

bool isHostMemory(DevicePointer address, size_t bytes, bool &isPinned) {
  isPinned = false;
  if (DeviceMemory::isDeviceAddress(address))
    return false;
  isPinned = DeviceMemory::get().find(address, bytes) != nullptr;
  return true;
}

} // namespace

EXPORTED cuMemGetInfo_v2(size_t *free, size_t *total) {
  Call call;
  if (call.isBad())
    return call.state;
  *free = DeviceMemory::get().freeBytes(current->device);
  *total = DeviceMemory::get().totalBytes();
  return DriverError::Success;
}
namespace {

/// Freeing waits for all that runs; `release` knows whether there was something to free.
template <typename F>
DriverError freed(F &&release) {
  Call call;
  if (call.isUnsafe())
    return call.state;
  for (StreamState *stream : Timeline::get().streams)
    Timeline::get().finish(*stream);
  return call.isBad() ? call.state : release() ? DriverError::Success : DriverError::InvalidValue;
}

} // namespace

EXPORTED cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  Call call;
  if (call.isBad() || call.isUnsafe())
    return call.state;
  if (bytes == 0)
    return DriverError::InvalidValue;
  *address = DeviceMemory::get().allocate(current->device, bytes);
  return *address ? DriverError::Success : DriverError::OutOfMemory;
}
EXPORTED cuMemFree_v2(DevicePointer address) {
  return freed([&] { return DeviceMemory::get().release(address); });
}
EXPORTED cuMemHostAlloc(void **address, size_t bytes, unsigned) {
  Call call;
  if (call.isBad() || call.isUnsafe())
    return call.state;
  if (bytes == 0)
    return DriverError::InvalidValue;
  *address = DeviceMemory::get().allocateHost(bytes);
  return *address ? DriverError::Success : DriverError::OutOfMemory;
}
EXPORTED cuMemFreeHost(void *address) {
  return freed([&] { return DeviceMemory::get().releaseHost(address); });
}
/// Fills the GPU's memory. That a graph may fill the host's, no document says.
EXPORTED cuMemsetD8Async(DevicePointer address, unsigned char value, size_t bytes, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  bool isPinned = false;
  if (!isStream(stream) || bytes == 0 || isHostMemory(address, bytes, isPinned) ||
      !DeviceMemory::get().find(address, bytes))
    return DriverError::InvalidValue;
  Timeline::get().enqueue("fills", *stream, [=] {
    uint8_t *at = DeviceMemory::get().resolve(address, bytes);
    if (!at)
      return int(DriverError::IllegalAddress);
    std::memset(at, value, bytes);
    return 0;
  });
  return DriverError::Success;
}
EXPORTED cuMemsetD2D8Async(DevicePointer address, size_t pitch, unsigned char value, size_t width,
                           size_t height, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  if (!isStream(stream) || width == 0 || height == 0 || pitch < width ||
      !DeviceMemory::get().find(address, (height - 1) * pitch + width))
    return DriverError::InvalidValue;
  Timeline::get().enqueue("fills rows", *stream, [=] {
    for (size_t row = 0; row < height; ++row) {
      uint8_t *at = DeviceMemory::get().resolve(address + row * pitch, width);
      if (!at)
        return int(DriverError::IllegalAddress);
      std::memset(at, value, width);
    }
    return 0;
  });
  return DriverError::Success;
}
EXPORTED cuMemcpyAsync(DevicePointer to, DevicePointer from, size_t bytes, Stream stream) {
  Call call;
  if (call.isBad())
    return call.state;
  bool toPinned = false, fromPinned = false;
  bool toHost = isHostMemory(to, bytes, toPinned), fromHost = isHostMemory(from, bytes, fromPinned);
  if (!isStream(stream) || bytes == 0)
    return DriverError::InvalidValue;
  if ((!toHost && !DeviceMemory::get().find(to, bytes)) ||
      (!fromHost && !DeviceMemory::get().find(from, bytes))) {
    complain("a copy of " + std::to_string(bytes) + " bytes outside of what is allocated");
    return DriverError::InvalidValue;
  }
  if (stream->capture && ((fromHost && !fromPinned) || (toHost && !toPinned))) {
    complain("a captured copy of memory that is not pinned");
    stream->capture->isBroken = true;
    return DriverError::CaptureUnsupported;
  }
  // From pageable memory the driver takes the bytes at once.
  std::shared_ptr<std::vector<uint8_t>> taken;
  if (fromHost && !fromPinned)
    taken = std::make_shared<std::vector<uint8_t>>(reinterpret_cast<uint8_t *>(from),
                                                   reinterpret_cast<uint8_t *>(from) + bytes);
  Timeline::get().enqueue("copies", *stream, [=] {
    auto at = [&](DevicePointer address, bool isHost) {
      return isHost ? reinterpret_cast<uint8_t *>(address)
                    : DeviceMemory::get().resolve(address, bytes);
    };
    uint8_t *target = at(to, toHost), *source = taken ? taken->data() : at(from, fromHost);
    if (!target || !source)
      return int(DriverError::IllegalAddress);
    std::memmove(target, source, bytes);
    return 0;
  });
  return DriverError::Success;
}
