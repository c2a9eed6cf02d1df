// SPDX-License-Identifier: Apache-2.0
// A warp in flight: its registers, which of its lanes go on where, and the memory that it reaches.
#pragma once

#include "Hazards.h"

#include <cstring>

namespace emulated {

/// Generic addresses of shared and local memory lie here, as far from global ones as in hardware.
constexpr uint64_t kSharedWindow = uint64_t{1} << 60, kLocalWindow = uint64_t{2} << 60,
                   kWindowBytes = uint64_t{1} << 32;

struct Block {
  const PtxModule *module = nullptr;
  const Kernel *kernel = nullptr;
  const uint8_t *parameters = nullptr;
  uint32_t id[3] = {};
  std::vector<uint8_t> shared;
  Hazards *hazards = nullptr;
  // The allocation that was touched last; none where accesses to global memory are checked.
  uint64_t begin = 1, end = 0;
  uint8_t *host = nullptr;
};

struct Warp {
  uint8_t *registers = nullptr;
  uint32_t active = 0; ///< lanes that the running operation is for
  uint32_t mask = 0;   ///< lanes that go on together at `next`
  uint32_t launched = 0, alive = 0;
  uint32_t next = 0;
  uint32_t limit = ~0u; ///< the least place where other lanes stand
  struct Group {
    uint32_t next, mask;
    bool waits;
  };
  std::vector<Group> others;
  const Operation *atBarrier = nullptr;
  bool isDone = false;
  Block *block = nullptr;
  uint32_t index = 0;
  std::vector<uint8_t> local; ///< of all lanes, one after the other

  /// A copy that no thread has waited for.
  struct Copy {
    uint64_t to = 0, from = 0;
    uint32_t bytes = 0, lane = 0;
    const Operation *operation = nullptr;
  };
  std::vector<Copy> copies; ///< of no group yet
  std::vector<std::vector<Copy>> copyGroups;

  template <typename T>
  T *lanes(uint32_t place) {
    return reinterpret_cast<T *>(registers + place);
  }
  uint32_t &predicate(uint32_t place) { return *reinterpret_cast<uint32_t *>(registers + place); }

  enum class Space { Generic, Global, Shared, Local, Parameter, Constant };
  /// Bytes at an address as lane `lane` sees it, which is about to access them; throws Fault.
  /// `written`: what a store puts there.
  uint8_t *reach(Space space, uint64_t address, uint32_t bytes, uint32_t lane,
                 const Operation &operation, Access access, const void *written);
  [[noreturn]] void fault(int error, const std::string &text, uint32_t lane,
                          const Operation &operation);
};

} // namespace emulated
