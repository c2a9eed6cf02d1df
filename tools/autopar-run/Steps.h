// SPDX-License-Identifier: Apache-2.0
// The steps of a run: batches in, metrics and outputs out, checkpoints in between.
#pragma once

#include "RunOptions.h"
#include "autopar/Base/Status.h"
#include "autopar/Runtime/Session.h"

#include <vector>

namespace autopar::tools {

/// Runs the steps that the options ask for, and writes their outputs where these are wanted;
/// `stepMs` gets the time of each. A checkpoint to go on
/// from is loaded first, and one is written every so often, at the end, and on SIGTERM or SIGINT
/// (which then is stopSignal(), on all ranks).
Status runSteps(runtime::Session &session, const RunOptions &options, bool isRoot,
                std::vector<double> &stepMs);

/// The signal that ended runSteps() early, behind a checkpoint where there are any; 0: none.
int stopSignal();

} // namespace autopar::tools
