// SPDX-License-Identifier: Apache-2.0
// Where a run writes to.
#pragma once

#include "RunOptions.h"

#include "autopar/Base/Status.h"

namespace autopar::tools {

/// Makes the folders that the run will write to. CannotCreate where one cannot be, so that nobody
/// learns of it after the last step.
Status prepareDestinations(const RunOptions &options);

} // namespace autopar::tools
