// SPDX-License-Identifier: Apache-2.0
// Sharding rules and costs for operations of other dialects, so that a module that never saw ONNX
// can be sharded and partitioned.
#pragma once

namespace mlir {
class DialectRegistry;
}

namespace mlir::autopar {

/// linalg structured operations (from their indexing maps), tensor.empty, and elementwise arith and
/// math operations on tensors.
void registerExternalModels(DialectRegistry &registry);

} // namespace mlir::autopar
