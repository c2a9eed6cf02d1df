// SPDX-License-Identifier: Apache-2.0
// Times of the instructions that compiled models consist of, over grids of sizes: what a profile
// database of this machine says.
#pragma once

#include "Measurements.h"

#include "autopar/Cost/MeasuredOperation.h"

#include <vector>

namespace autopar::tools {

/// Of every grid (InstructionGrid.h), of all ranks at once.
Result<std::vector<MeasuredOperation>> measureInstructions(const Machine &machine);

} // namespace autopar::tools
