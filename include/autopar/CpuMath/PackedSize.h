// SPDX-License-Identifier: Apache-2.0
// Sizes that products, convolutions and attention on CPUs ask for: packed weights and scratch. The
// compiler's static memory plan and the CPU device ask the same mathematics, so that the planned
// peak is exact.
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>
#include <string>

namespace autopar::cpumath {

/// Bytes of b after a Pack for this geometry on this machine's CPU. packedB of the argument is
/// ignored (taken as true).
Result<int64_t> packedBytes(const artifact::MatmulGeometry &geometry);
/// Bytes of w after a Pack for this geometry. packedW is taken as true.
Result<int64_t> packedBytes(const artifact::ConvolutionGeometry &geometry);

/// Whether this machine's CPU has code for the geometry that does not merely follow the definition.
Result<bool> isFast(const artifact::ConvolutionGeometry &geometry);

/// Bytes of scratch that the instruction needs with `threads` threads per rank (0 = none).
Result<int64_t> scratchBytes(const artifact::MatmulGeometry &geometry, int32_t threads);
Result<int64_t> scratchBytes(const artifact::ConvolutionGeometry &geometry, int32_t threads);
Result<int64_t> scratchBytes(const artifact::AttentionGeometry &geometry, int32_t threads);
Result<int64_t> scratchBytes(const artifact::GroupedProductGeometry &geometry, int32_t threads);

/// In words the layout that a Pack writes on this machine's CPU with the calling thread's number of
/// threads: what writes the same writes the same bytes. Empty where it cannot be told.
std::string packedLayout(const artifact::Pack &pack);

} // namespace autopar::cpumath
