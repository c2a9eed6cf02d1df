// SPDX-License-Identifier: Apache-2.0
// What compute-sanitizer's racecheck and initcheck find: accesses of two threads to the same bytes
// that nothing orders, one of them a write, and shared memory that is read before it is written.
// Barriers order the threads of a block, bar.warp.sync those of a warp; shuffles and votes order no
// memory, lanes of a warp do not run in lockstep, and blocks of a launch are never ordered. Since
// it is order that counts, not time, a hazard shows in whatever order warps and blocks run. Two
// writes of the same value are none, as for racecheck, which has them as information only.
#pragma once

#include "Ptx.h"

#include <memory>
#include <unordered_map>

namespace emulated {

/// How a thread touches memory. What a ReadOnlyLoad (ld.global.nc) reads, nobody may write while
/// the kernel runs, the thread itself included.
enum class Access : uint8_t { Load, ReadOnlyLoad, Store, Atomic };

/// An access, and what it writes over what.
struct Touch {
  Access access = Access::Load;
  uint32_t thread = 0, line = 0; ///< of the block; of the text
  const uint8_t *old = nullptr, *written = nullptr;
};

/// What is wrong with an access; with another one that was before it, or with none.
struct Hazard {
  enum class Kind : uint8_t { None, Unwritten, ReadAfterWrite, WriteAfterRead, WriteAfterWrite };
  Kind kind = Kind::None;
  uint64_t earlier = 0; ///< the stamp of the other access
  explicit operator bool() const { return kind != Kind::None; }
};

/// Of one launch.
class Hazards {
public:
  Hazards(const Kernel &kernel, uint32_t sharedBytes, bool checksGlobal);

  /// Another block begins: its shared memory is unwritten.
  void beginBlock();
  /// All threads of the block, or of one of its warps, have come to a barrier.
  void orderBlock() { barrier = ++now; }
  void orderWarp(uint32_t warp) { warps[warp] = ++now; }

  const bool checksGlobal;
  /// Records an access to `bytes` aligned bytes of the block's shared memory, or of global memory.
  Hazard touchShared(uint64_t address, uint32_t bytes, const Touch &touch);
  Hazard touchGlobal(uint64_t address, uint32_t bytes, const Touch &touch);

  /// What `hazard` is, for a message about `bytes` at `address` of `memory`.
  std::string describe(const Hazard &hazard, uint64_t address, uint32_t bytes,
                       const char *memory) const;

private:
  /// The last accesses to a few bytes. Of readers that nothing orders two are enough, as far apart
  /// as there are (lanes, warps, blocks): what is written without order to any, is to one of them.
  struct Cell {
    uint64_t writer = 0, reader = 0, otherReader = 0, readOnlyReader = 0;
  };
  enum class Memory { Shared, Global };

  template <Memory memory>
  Hazard touch(Cell *cells, uint32_t shift, uint32_t bytes, const Touch &touch);
  template <Memory memory>
  Hazard load(Cell &cell, uint64_t stamp) const;
  template <Memory memory>
  Hazard write(Cell &cell, uint64_t stamp, const uint8_t *old, const uint8_t *written,
               uint32_t bytes) const;
  template <Memory memory>
  bool isOrdered(uint64_t stamp, uint32_t thread) const;
  int distance(uint64_t stamp, uint32_t thread) const;
  Cell *globalCells(uint64_t address);

  // Accesses have stamps, which grow with every barrier; 0 is none. Blocks run one after the other.
  uint32_t now = 0, blockBegin = 0, barrier = 0;
  uint32_t warps[32] = {};           ///< when their lanes were ordered last
  std::vector<uint32_t> blockBegins; ///< of all blocks so far

  uint32_t sharedShift, globalShift; ///< log2 of the bytes per cell: nothing smaller is accessed
  std::vector<Cell> shared;
  static constexpr uint64_t kPage = 4096;
  std::unordered_map<uint64_t, std::unique_ptr<Cell[]>> pages; ///< of global memory
  uint64_t lastPage = ~uint64_t{0};
  Cell *lastCells = nullptr;
};

} // namespace emulated
