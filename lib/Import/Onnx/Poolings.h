// SPDX-License-Identifier: Apache-2.0
// Poolings that several operator families share.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// The pooling of an image [n, c, ...] that the attributes of an AveragePool-like node describe.
FailureOr<Value> averagePool(Node &node, Value image);
/// As a MaxPool-like node describes it.
FailureOr<Value> maxPool(Node &node, Value image);

} // namespace mlir::autopar
