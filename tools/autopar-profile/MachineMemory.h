// SPDX-License-Identifier: Apache-2.0
// How much memory the ranks of this machine may share.
#pragma once

#include "autopar/Base/Status.h"

#include <cstdint>

namespace autopar::tools {

/// Bytes of main memory that this process may use: what is installed, or the limit of its control
/// group where that is lower.
Result<int64_t> machineMemoryBytes();

} // namespace autopar::tools
