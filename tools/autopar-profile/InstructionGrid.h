// SPDX-License-Identifier: Apache-2.0
// The sizes at which instructions are measured: grids that belong to no model, one per class
// (docs/ProfileDatabase.md).
#pragma once

#include "Measurements.h"
#include "ProbeMemory.h"

#include "autopar/Artifact/Program.h"
#include "autopar/Cost/MeasuredOperation.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace autopar::tools {

/// A size per extent.
using Point = std::vector<int64_t>;

/// A class: its extents, and how an instruction of given extents is made.
struct Grid {
  std::vector<MeasuredExtent> extents;
  /// Nothing for a point that is left out because it is too large, as all beyond it are: it gets
  /// the time of a smaller one, in proportion.
  std::function<std::optional<artifact::Payload>(ProbeMemory &, const Point &)> make;
  std::string kind = {}; ///< of kernels; others name themselves
};

/// Of products, convolutions, attention, kernels, copies and changes of layout.
std::vector<Grid> gridsOf(const Machine &machine);

} // namespace autopar::tools
