// SPDX-License-Identifier: Apache-2.0
// Allocations with gaps between them, so that what runs over the end of one is noticed.
#include "DeviceMemory.h"

#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace emulated {
namespace {

/// No process has memory here: addresses of user space end below.
constexpr uint64_t kFirstAddress = uint64_t{0xd} << 52, kLastAddress = uint64_t{0xe} << 52;
constexpr uint64_t kGap = 4096, kAlignment = 512;

} // namespace

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *text = std::getenv(name);
  return text && *text ? std::strtoull(text, nullptr, 10) : otherwise;
}

DeviceMemory &DeviceMemory::get() {
  static DeviceMemory *memory = new DeviceMemory;
  return *memory;
}

DeviceMemory::DeviceMemory()
    : total(setting("AUTOPAR_EMULATED_CUDA_MEMORY", uint64_t{8} << 30)), next(kFirstAddress) {}

bool DeviceMemory::isDeviceAddress(uint64_t address) {
  return address >= kFirstAddress && address < kLastAddress;
}

uint64_t DeviceMemory::allocate(int device, uint64_t bytes) {
  if (bytes == 0 || bytes > freeBytes(device))
    return 0;
  // Pages come when they are touched.
  void *host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (host == MAP_FAILED)
    return 0;
  // What a program does not write is no number.
  std::memset(host, 0xff, size_t(bytes < (uint64_t{64} << 20) ? bytes : uint64_t{64} << 20));
  uint64_t address = next;
  next += (bytes + kAlignment - 1) / kAlignment * kAlignment + kGap;
  used[device] += bytes;
  allocations[address] = {address, bytes, device, static_cast<uint8_t *>(host)};
  return address;
}

void *DeviceMemory::allocateHost(uint64_t bytes) {
  void *host = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  if (host)
    allocations[uint64_t(host)] = {uint64_t(host), bytes, -1, static_cast<uint8_t *>(host)};
  return host;
}

bool DeviceMemory::release(uint64_t address) {
  auto found = allocations.find(address);
  if (found == allocations.end() || found->second.device < 0)
    return false;
  used[found->second.device] -= found->second.bytes;
  munmap(found->second.host, found->second.bytes);
  allocations.erase(found);
  return true;
}

bool DeviceMemory::releaseHost(void *address) {
  auto found = allocations.find(uint64_t(address));
  if (found == allocations.end() || found->second.device >= 0)
    return false;
  std::free(address);
  allocations.erase(found);
  return true;
}

const Allocation *DeviceMemory::find(uint64_t address, uint64_t bytes) const {
  auto after = allocations.upper_bound(address);
  if (after == allocations.begin())
    return nullptr;
  const Allocation &allocation = std::prev(after)->second;
  bool isInside = address - allocation.begin < allocation.bytes &&
                  bytes <= allocation.bytes - (address - allocation.begin);
  return isInside ? &allocation : nullptr;
}

uint8_t *DeviceMemory::resolve(uint64_t address, uint64_t bytes) const {
  const Allocation *allocation = find(address, bytes);
  return allocation ? allocation->host + (address - allocation->begin) : nullptr;
}

} // namespace emulated
