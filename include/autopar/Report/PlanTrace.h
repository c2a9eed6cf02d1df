// SPDX-License-Identifier: Apache-2.0
// A plan's step as a Chrome/Perfetto trace: the timeline of the HTML page for who wants to zoom.
#pragma once

#include <string>

#include "autopar/Report/HtmlReport.h"

namespace autopar {

/// JSON for ui.perfetto.dev: one row per mesh, per link between meshes, and for the collectives of
/// a plan without stages; times in us. "otherData" says what the slices do not hold: the step and
/// the part of it in which results are computed again.
std::string planTrace(const ReportInput &input);

} // namespace autopar
