// SPDX-License-Identifier: Apache-2.0
// Products that several operator families share.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// numpy.matmul of two tensors; an error of the node if they do not fit.
Value matrixProduct(Node &node, Value lhs, Value rhs);
/// What a Gemm-like node computes with its inputs 0 to 2 and attributes.
FailureOr<Value> gemm(Node &node);

} // namespace mlir::autopar
