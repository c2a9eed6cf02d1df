// SPDX-License-Identifier: Apache-2.0
// Times of the instructions that compiled models consist of, over grids of sizes that belong to no
// model: what a profile database of this machine says. docs/ProfileDatabase.md names the classes.
#pragma once

#include "Measurements.h"

#include "autopar/Cost/MeasuredOperation.h"

#include <vector>

namespace autopar::tools {

/// Products, convolutions, kernels, copies and changes of layout, of all ranks at once.
Result<std::vector<MeasuredOperation>> measureInstructions(const Machine &machine);

} // namespace autopar::tools
