// SPDX-License-Identifier: Apache-2.0
// What the FLOPs of an operation are.
#pragma once

#include <cstdint>

namespace autopar {

/// Told apart by the share of a device's peak that kernels reach in it
/// (`DeviceType::efficiencyOf`).
enum class Work : uint8_t {
  Product,           ///< and all that is bound by memory
  Attention,         ///< scores, softmax and values in one kernel
  AttentionGradient, ///< of query, key and value in one kernel
};

} // namespace autopar
