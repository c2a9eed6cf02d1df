// SPDX-License-Identifier: Apache-2.0
// Interpolation along one dimension at positions known at compile time.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// For each result position, the same number of source positions and their weights.
struct Taps {
  size_t perPosition = 1;
  SmallVector<int64_t> positions; ///< [result, tap], inside the source
  SmallVector<double> weights;    ///< [result, tap]; empty: one tap of weight 1
};

/// The source extent `extent` seen through `taps` along dimension `dim`.
Value interpolate(TensorBuilder &b, Value x, int64_t dim, const Taps &taps);

/// Weights of the four neighbours of a fraction in cubic convolution (Keys, 1981) with coefficient
/// `a`.
std::array<double, 4> cubicWeights(double fraction, double a);

} // namespace mlir::autopar
