// SPDX-License-Identifier: Apache-2.0
// Where the buffers of a program lie in the arenas of its rank; or, where another program of the
// process holds the same, elsewhere.
#pragma once

#include "autopar/Artifact/Program.h"

#include <array>
#include <cstdint>
#include <map>
#include <vector>

namespace autopar::runtime {

/// Addresses that others hold, by buffer; no views.
using HeldElsewhere = std::map<int32_t, void *>;

class BufferPlaces {
public:
  /// As planned.
  explicit BufferPlaces(const artifact::Program &program);
  /// What others hold, views of it included, takes no room in the arenas, nor do buffers that only
  /// instructions of load use that are left out.
  BufferPlaces(const artifact::Program &program, const HeldElsewhere &elsewhere,
               const std::vector<bool> &leftOut);

  int64_t arenaBytes(artifact::Space space) const { return bytes[size_t(space)]; }
  /// Address of slot 0; null: it lies in an arena.
  uint8_t *elsewhere(int32_t buffer) const {
    return outside.empty() ? nullptr : outside[size_t(buffer)];
  }
  /// Bytes from the beginning of the arena; -1 where it has no place, as nothing uses it.
  int64_t offset(int32_t buffer) const { return offsets[size_t(buffer)]; }

private:
  std::array<int64_t, artifact::kSpaceCount> bytes{};
  std::vector<int64_t> offsets;
  std::vector<uint8_t *> outside; ///< per buffer; empty: none is
};

/// Which instructions of load nobody needs where others hold what `elsewhere` says; per instruction
/// of the entry.
std::vector<bool> leftOutOfLoad(const artifact::Program &program, const HeldElsewhere &elsewhere);

} // namespace autopar::runtime
