// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a program lie in the arenas of its rank; or, where another program of the
// process holds the same, elsewhere.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Artifact/Workspace.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace autopar::runtime {

/// Addresses that others hold, by buffer; no views.
using HeldElsewhere = std::map<int32_t, void *>;

/// Memory of a device that programs which run in turn have in common; what is in it lasts for a
/// step.
struct Workspace {
  uint8_t *address = nullptr; ///< a multiple of 64
  int64_t bytes = 0;
};

class BufferPlaces {
public:
  /// As planned.
  explicit BufferPlaces(const artifact::Program &program);
  /// What others hold, views of it included, takes no room in the arenas, nor do buffers that only
  /// instructions of load use that are left out. What lasts no longer than a step lies in `lent`,
  /// where that is large enough.
  BufferPlaces(const artifact::Program &program, const HeldElsewhere &elsewhere,
               const std::vector<bool> &leftOut, Workspace lent = {});

  int64_t arenaBytes(artifact::Space space) const { return bytes[size_t(space)]; }
  /// Address of slot 0; null: it lies in an arena.
  uint8_t *elsewhere(int32_t buffer) const {
    return outside.empty() ? nullptr : outside[size_t(buffer)];
  }
  /// Whether another program holds it, whose bytes are not to be moved.
  bool isHeldElsewhere(int32_t buffer) const { return !held.empty() && held[size_t(buffer)]; }
  /// Bytes from the beginning of the arena; -1 where it has no place, as nothing uses it.
  int64_t offset(int32_t buffer) const { return offsets[size_t(buffer)]; }

  /// Whether `lent` is used.
  bool borrows() const { return isBorrowing; }
  /// What of the device's arena lasts no longer than a step.
  artifact::ByteRange workspace() const { return own; }

private:
  std::array<int64_t, artifact::kSpaceCount> bytes{};
  std::vector<int64_t> offsets;
  std::vector<uint8_t *> outside; ///< per buffer; empty: none is
  std::vector<bool> held;         ///< the same, without what is lent
  artifact::ByteRange own;
  bool isBorrowing = false;

  void place(const artifact::Program &program, std::vector<int32_t> buffers);
};

/// Which instructions of load nobody needs where others hold what `elsewhere` says; per instruction
/// of the entry.
std::vector<bool> leftOutOfLoad(const artifact::Program &program, const HeldElsewhere &elsewhere);

} // namespace autopar::runtime
