// SPDX-License-Identifier: Apache-2.0
// Sizes of activations in the layouts that convolutions use.
#pragma once

#include "autopar/Artifact/Program.h"

#include <optional>

namespace autopar::artifact {

/// Channels rounded up to the layout's block.
int64_t paddedChannels(int64_t channels, Layout layout);
/// Bytes of an activation of these logical [N, C, spatial...] dims in a layout (blocked layouts pad
/// the channels); nothing on overflow or negative dims.
std::optional<int64_t> layoutBytes(const std::vector<int64_t> &dims, DataType type, Layout layout);

} // namespace autopar::artifact
