// SPDX-License-Identifier: Apache-2.0
// A compiled.bin as text, for people and FileCheck.
#pragma once

#include "autopar/Artifact/Reader.h"

#include <string>

namespace autopar::artifact {

/// Sections, programs (buffers, ports, entries, timetable) and rank tables; with `withText` also
/// the plan and source sections.
std::string dumpArtifact(const Reader &reader, bool withText = false);

} // namespace autopar::artifact
