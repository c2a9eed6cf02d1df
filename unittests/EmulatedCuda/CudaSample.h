// SPDX-License-Identifier: Apache-2.0
// The sample program of unittests/Artifact, for CUDA: its kernel as PTX, weights as they lie in the
// file.
#pragma once

#include "SampleArtifact.h"

namespace autopar::testing {

artifact::Contents cudaSampleContents(int32_t ranks, const std::string &weightFile);

} // namespace autopar::testing
