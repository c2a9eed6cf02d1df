// SPDX-License-Identifier: Apache-2.0
// What of a program's memory a step begins without: programs that run in turn may have it in
// common.
#pragma once

#include "autopar/Artifact/Program.h"

#include <vector>

namespace autopar::artifact {

/// Buffers, no views among them, whose bytes a step finds as load or the step before left them:
/// parameters, state, what load makes for the steps, and what the runtime sets. Inputs are none.
std::vector<bool> lastingBuffers(const Program &program);

/// A range of an arena.
struct ByteRange {
  int64_t offset = 0, bytes = 0;
};
/// The largest range of the device's arena in which nothing lasts.
ByteRange workspaceOf(const Program &program);

} // namespace autopar::artifact
