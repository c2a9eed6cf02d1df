// SPDX-License-Identifier: Apache-2.0
// Opens a compiled.bin, checks every byte of it before anything is used, and gives the programs
// back as plain values.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace autopar::artifact {

/// One row of the table of contents, for listings.
struct SectionInfo {
  std::string name; ///< "PROGRAM", "RANKS", ...
  int32_t rankClass = -1;
  uint64_t offset = 0;
  uint64_t size = 0;
  Digest digest;
};

/// A verified artifact. Copies share the mapped file, which stays mapped as long as one lives.
class Reader {
public:
  /// Maps and verifies the file: header, table, digests, padding, FlatBuffers structure, semantics.
  /// NoInput when it cannot be opened; BadInput, naming the section, when anything is not as
  /// written.
  static Result<Reader> open(const std::string &path);
  /// The same for bytes in memory, which are copied; `name` stands for the path in errors.
  static Result<Reader> fromBytes(std::span<const uint8_t> bytes, const std::string &name);

  /// Path as given, and the folder that relative parameter paths start from.
  const std::string &path() const;
  const std::string &folder() const;
  /// Identity of the artifact: the digest of its header, which covers the table and through it
  /// every section. Ranks compare it before the first step.
  Digest digest() const;
  const Target &target() const;

  int32_t worldSize() const;
  int32_t classCount() const;
  const Program &program(int32_t rankClass) const;
  const RankTable &rank(int32_t rank) const;
  /// Program of the class that a rank belongs to.
  const Program &programOfRank(int32_t rank) const;

  /// The ports of all programs, one of each name; valid while a Reader copy lives.
  std::vector<const Port *> ports() const;

  /// Bytes of the class's shared object (empty without kernels), valid while a Reader copy lives.
  std::span<const uint8_t> kernels(int32_t rankClass) const;
  /// The class's CUDA module as PTX text (empty without kernels, and on a CPU); data() is
  /// zero-terminated, as the driver wants it.
  std::string_view ptx(int32_t rankClass) const;
  /// The same module assembled for the chip that the target names; empty where there is none.
  std::span<const uint8_t> cubin(int32_t rankClass) const;
  std::span<const uint8_t> constants() const;
  std::string_view plan() const;
  std::string_view source() const;
  const std::vector<SectionInfo> &sections() const;

private:
  struct Image;
  explicit Reader(std::shared_ptr<const Image> image);
  std::shared_ptr<const Image> image;
};

} // namespace autopar::artifact
