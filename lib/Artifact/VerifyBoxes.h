// SPDX-License-Identifier: Apache-2.0
// A part of verifyRanks().
#pragma once

#include "autopar/Artifact/Verify.h"

namespace autopar::artifact {

/// Whether the ranks together hold every input, output, metric and state. Tables and programs are
/// verified already.
Status verifyBoxes(const std::vector<RankTable> &ranks,
                   const std::vector<const Program *> &programs);

} // namespace autopar::artifact
