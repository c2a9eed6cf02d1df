// SPDX-License-Identifier: Apache-2.0
// Which buffers an instruction reads and which it writes.
#pragma once

#include "autopar/Artifact/Program.h"

#include <vector>

namespace autopar::artifact {

/// Numbers of buffers, none of them -1; one that is both stands in both.
struct InstructionBuffers {
  std::vector<int32_t> read, written; ///< scratch is written
};

InstructionBuffers buffersOf(const Payload &payload);

} // namespace autopar::artifact
