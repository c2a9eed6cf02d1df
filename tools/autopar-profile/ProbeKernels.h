// SPDX-License-Identifier: Apache-2.0
// The shared object of ProbeKernels.c, as bytes in this program.
#pragma once

#include <cstdint>
#include <span>

namespace autopar::tools {

/// Numbers per iteration of each kernel.
constexpr int64_t kRowFloats = 256;
/// Kernels by number, in the order of Program::kernels.
enum ProbeKernel : int32_t { AddRows = 0, SumRows = 1, NormalizeRows = 2, StreamRows = 3 };

std::span<const uint8_t> probeKernels();

} // namespace autopar::tools
