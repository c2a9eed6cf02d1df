// SPDX-License-Identifier: Apache-2.0
// What operations do not say themselves: sharding rules and costs of other dialects' operations, so
// that a module that never saw ONNX can be sharded and partitioned; precisions of our own.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace mlir::autopar {

/// linalg structured operations (from their indexing maps), tensor.empty, and elementwise arith and
/// math operations on tensors; which of our operations compute in narrow floats.
void registerExternalModels(DialectRegistry &registry);

} // namespace mlir::autopar
