// SPDX-License-Identifier: Apache-2.0
// Convolutions that several operator families share.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// The convolution that the attributes of a Conv-like node describe.
FailureOr<Value> convolve(Node &node, Value input, Value filter);
/// Adds one number per channel to [n, c, ...].
Value addChannelBias(TensorBuilder &b, Value image, Value bias);
/// [n, ..., c] as [n, c, ...].
Value channelsFirst(TensorBuilder &b, Value image);
/// [n, c, ...] as [n, ..., c].
Value channelsToEnd(TensorBuilder &b, Value image);

} // namespace mlir::autopar
