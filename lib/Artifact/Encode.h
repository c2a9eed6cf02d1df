// SPDX-License-Identifier: Apache-2.0
// Between plain program structs and FlatBuffers bytes. Private to the Artifact room.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <span>
#include <vector>

namespace autopar::artifact {

std::vector<uint8_t> encodeProgram(const Program &program);
std::vector<uint8_t> encodeRanks(const std::vector<RankTable> &ranks);

/// Structure is verified (FlatBuffers Verifier) before anything is read; BadInput otherwise.
/// Enumerated values are range-checked here, so that later code may switch over them.
Result<Program> decodeProgram(std::span<const uint8_t> bytes);
Result<std::vector<RankTable>> decodeRanks(std::span<const uint8_t> bytes);

} // namespace autopar::artifact
