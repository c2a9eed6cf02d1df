// SPDX-License-Identifier: Apache-2.0
// Activation functions that other families of operators use.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// The activation called `name` in ONNX, spelled in any case, with its defaults for alpha and beta
/// where none are given; nothing if there is none of that name.
std::optional<Value> activation(TensorBuilder &b, StringRef name, Value x,
                                std::optional<double> alpha = {}, std::optional<double> beta = {});

/// x * sigmoid(alpha * x)
Value swish(TensorBuilder &b, Value x, double alpha);

} // namespace mlir::autopar
