// SPDX-License-Identifier: Apache-2.0
// Runs the sample program, on whatever device its artifact is for.
#pragma once

#include "SampleArtifact.h"
#include "autopar/Runtime/Session.h"

#include <functional>

namespace autopar::testing {

/// Numbers of an output that was collected.
std::vector<float> fetch(runtime::Session &session, const std::string &name, size_t count);

/// Gives the sample its input, runs steps [0, 3) and compares what comes out with sampleOutput().
void expectSampleOutputs(runtime::Session &session, const std::string &what);

/// The same for 1, 2, 4 and 8 ranks, the second time with `change`d options and fewer threads than
/// ranks.
void expectSampleOutputsOfAllRanks(
    const std::function<std::unique_ptr<runtime::Session>(int32_t ranks, runtime::SessionOptions)>
        &open,
    const std::function<void(runtime::SessionOptions &)> &change);

} // namespace autopar::testing
