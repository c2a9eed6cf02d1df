// SPDX-License-Identifier: Apache-2.0
// The fixed part of compiled.bin: header and table of contents, byte by byte as
// docs/ArtifactFormat.md lists them. Private to the Artifact room.
#pragma once

#include "autopar/Base/Digest.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <string>

namespace autopar::artifact {

constexpr char kMagic[8] = {'A', 'U', 'T', 'O', 'P', 'A', 'R', '\x1a'};
constexpr uint32_t kMajor = 1;
constexpr uint32_t kMinor = 3;
constexpr uint64_t kHeaderBytes = 4096;
constexpr uint64_t kAlignment = 4096;
/// The header digest covers the bytes before it.
constexpr uint64_t kHeaderDigestAt = kHeaderBytes - 16;
constexpr uint64_t kMaxSections = 1u << 20;

enum class SectionKind : uint32_t {
  Program = 1,
  Ranks = 2,
  Kernels = 3,
  Constants = 4,
  Plan = 5,
  Source = 6,
  Ptx = 7,
  Cubin = 8,
};
/// "PROGRAM", ...; empty for an unknown kind.
const char *sectionName(SectionKind kind);

/// What a reader has to understand, since what it leaves out changes results.
enum RequiredFlag : uint64_t {
  kPartsOfRows = 1,  ///< attention whose rows are a part of a triangle's (Attention::shardValue)
  kWindows = 2,      ///< attention to a window of keys (AttentionGeometry::window)
  kMadeMatrices = 4, ///< grouped products whose matrices a kernel makes (GroupedProduct::maker)
  kSeveralRows = 8,  ///< timetables of several rows, which wait as Instruction::awaits says
};
constexpr uint64_t kKnownFlags = kPartsOfRows | kWindows | kMadeMatrices | kSeveralRows;

/// Little-endian, as on disk.
struct Header {
  char magic[8];
  uint32_t major;
  uint32_t minor;
  uint32_t headerBytes;
  uint32_t sectionCount;
  uint64_t fileBytes;
  uint64_t tocOffset;
  uint64_t tocBytes;
  uint8_t tocDigest[16];
  char architecture[32]; ///< zero-terminated, zero-filled
  char features[32];
  uint64_t requiredFlags; ///< of RequiredFlag; a reader refuses flags that it does not know
};
static_assert(sizeof(Header) == 136);

struct TocEntry {
  uint32_t kind;
  int32_t rankClass; ///< -1: belongs to all
  uint64_t offset;
  uint64_t bytes;
  uint64_t alignment;
  uint8_t digest[16];
  uint8_t reserved[16]; ///< zero
};
static_assert(sizeof(TocEntry) == 64);

constexpr uint64_t alignUp(uint64_t value) {
  return (value + kAlignment - 1) / kAlignment * kAlignment;
}

} // namespace autopar::artifact
