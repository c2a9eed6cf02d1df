// SPDX-License-Identifier: Apache-2.0
// Turns programs, rank tables and kernels into the bytes of a compiled.bin. Same input, same bytes.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace autopar::artifact {

/// The program of a rank class and its kernels, which stand for every symbol in program.kernels
/// (all empty when there are none). For x86-64 `kernels` is a self-contained ELF shared object
/// that needs no other library; for CUDA `ptx` is a module as text, and `cubin` the same module
/// assembled for the target's chip, or empty.
struct RankClass {
  Program program;
  std::vector<uint8_t> kernels = {};
  std::string ptx = {};
  std::vector<uint8_t> cubin = {};
};

/// Everything that an artifact holds.
struct Contents {
  Target target;
  std::vector<RankClass> classes;
  std::vector<RankTable> ranks; ///< index = world rank
  std::vector<uint8_t> constants;
  std::string plan;   ///< JSON text, may be empty
  std::string source; ///< MLIR text for `--dump` and recompilation, may be empty
};

/// The complete file image. Fails with Internal when the contents do not pass the same semantic
/// verifier that the Reader applies (an index out of range, a buffer outside its arena, ...).
Result<std::vector<uint8_t>> serialize(const Contents &contents);

/// serialize() into a temporary file beside `path`, then rename: the path holds the whole file or
/// what it held before. CannotCreate / IoError name the path.
Status writeArtifact(const Contents &contents, const std::string &path);

} // namespace autopar::artifact
