// SPDX-License-Identifier: Apache-2.0
// Memory of the emulated GPUs. Its addresses are no host addresses: touching one from the host
// faults, as it should.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace emulated {

/// A piece that was allocated: [begin, begin + bytes).
struct Allocation {
  uint64_t begin = 0, bytes = 0;
  int device = -1;         ///< -1: pinned memory of the host
  uint8_t *host = nullptr; ///< where its bytes really are
};

/// One for the process. Guarded by the lock of the timeline.
class DeviceMemory {
public:
  static DeviceMemory &get();

  /// 0 when `device` has too little left.
  uint64_t allocate(int device, uint64_t bytes);
  void *allocateHost(uint64_t bytes);
  bool release(uint64_t address);
  bool releaseHost(void *address);

  uint64_t totalBytes() const { return total; }
  uint64_t freeBytes(int device) { return total - used[device]; }

  /// The allocation that holds all of the bytes; null: none does.
  const Allocation *find(uint64_t address, uint64_t bytes) const;
  /// Where the bytes are; null when they are not within one allocation.
  uint8_t *resolve(uint64_t address, uint64_t bytes) const;
  /// Whether the address is one of the GPUs'.
  static bool isDeviceAddress(uint64_t address);
  size_t count() const { return allocations.size(); }

private:
  DeviceMemory();
  uint64_t total, next;
  std::map<int, uint64_t> used;
  std::map<uint64_t, Allocation> allocations;
};

/// The number in an environment variable.
uint64_t setting(const char *name, uint64_t otherwise);

} // namespace emulated
