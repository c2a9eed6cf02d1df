// SPDX-License-Identifier: Apache-2.0
// What an instruction's time depends on, as a name that measurements are looked up by:
// "product/f32/packed:1x512x1536x512" is a class, a colon and the extents within the class.
// Classes and extents stand in docs/ProfileDatabase.md.
#pragma once

#include "autopar/Artifact/Program.h"

#include <string>
#include <string_view>

namespace autopar::artifact {

/// Of library calls, changes of layout and copies; empty for what else says it: kernels, whose
/// class lowering knows, and communication, which is looked up by kind and group.
std::string profileKey(const Payload &payload);

/// Of a kernel: `kind` is "map", where an element of a result depends on one of each operand, or
/// "rows"; `bytes` are read and written.
std::string kernelProfileKey(std::string_view kind, int64_t bytes);

} // namespace autopar::artifact
