// SPDX-License-Identifier: Apache-2.0
// autopar-run --simulate.
#pragma once

#include "RunOptions.h"
#include "autopar/Artifact/Reader.h"
#include "autopar/Base/Status.h"

namespace autopar::tools {

/// Executes the steps in virtual time; prints the time of a step, what the ranks do in it, and the
/// memory that they need.
Status simulate(artifact::Reader reader, const RunOptions &options);

} // namespace autopar::tools
