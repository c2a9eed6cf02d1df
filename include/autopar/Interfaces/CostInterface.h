// SPDX-License-Identifier: Apache-2.0
// C++ side of the cost interface.
#pragma once

#include "autopar/Interfaces/TensorLayout.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include <cstdint>
#include <optional>

namespace mlir::autopar {

/// What the FLOPs of an operation are, as the cost model tells them apart.
enum class Work : uint8_t { Product, Attention, AttentionGradient };

/// Marks operations that only rearrange or make elements and are computed inside their users.
template <typename ConcreteType>
class LightOp : public OpTrait::TraitBase<ConcreteType, LightOp> {};

} // namespace mlir::autopar

#include "autopar/Interfaces/CostInterface.h.inc"
