// SPDX-License-Identifier: Apache-2.0
// Sizes that the library for matrix products asks for: packed weights and scratch. The compiler's
// static memory plan and the CPU device call the same functions, so that the planned peak is exact.
// Linked from AutoParCpuMath (oneDNN only).
#pragma once

#include "autopar/Artifact/Program.h"
#include "autopar/Base/Status.h"

#include <cstdint>

namespace autopar::artifact {

/// Bytes of b after a Pack for this geometry on this machine's CPU. packedB of the argument is
/// ignored (taken as true).
Result<int64_t> packedBytes(const MatmulGeometry &geometry);
/// Bytes of w after a Pack for this geometry. packedW is taken as true.
Result<int64_t> packedBytes(const ConvolutionGeometry &geometry);

/// Bytes of scratch that the instruction needs with `threads` threads per rank (0 = none).
Result<int64_t> scratchBytes(const MatmulGeometry &geometry, int32_t threads);
Result<int64_t> scratchBytes(const ConvolutionGeometry &geometry, int32_t threads);
Result<int64_t> scratchBytes(const AttentionGeometry &geometry, int32_t threads);

} // namespace autopar::artifact
