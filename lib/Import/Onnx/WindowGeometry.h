// SPDX-License-Identifier: Apache-2.0
// Strides, pads and dilations of convolutions and poolings, as their attributes say.
#pragma once

#include "Node.h"

namespace mlir::autopar {

/// Per spatial dimension.
struct WindowGeometry {
  Shape kernel, strides, dilations, padBegin, padEnd;
  /// SAME_UPPER, SAME_LOWER, VALID or NOTSET.
  std::string autoPad;
  bool ceilMode = false;

  /// Extent of the dilated window.
  int64_t extent(size_t i) const { return (kernel[i] - 1) * dilations[i] + 1; }
};

/// Reads strides, dilations, pads, auto_pad and ceil_mode for `spatial` extents under `kernel`;
/// auto_pad is resolved into pads unless `keepAutoPad`. All numbers are checked to be small enough
/// for products of them.
FailureOr<WindowGeometry> readWindow(Node &node, ArrayRef<int64_t> spatial,
                                     ArrayRef<int64_t> kernel, bool keepAutoPad = false);

/// The same under the kernel of attribute `kernel_shape`, which must be there.
FailureOr<WindowGeometry> readWindow(Node &node, ArrayRef<int64_t> spatial);

/// Refuses a window that is larger than the padded input, under which nothing would be left.
LogicalResult checkFits(Node &node, const WindowGeometry &window, ArrayRef<int64_t> spatial);

} // namespace mlir::autopar
