// SPDX-License-Identifier: Apache-2.0
// Checks window attributes and resolves automatic padding.
#include "WindowGeometry.h"

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t largest = int64_t(1) << 31;

static FailureOr<Shape> positiveList(Node &node, StringRef attribute, size_t count) {
  Shape values(count, 1);
  if (auto given = node.integers(attribute))
    values = *given;
  if (values.size() != count ||
      llvm::any_of(values, [](int64_t v) { return v < 1 || v > largest; }))
    return node.error("attribute '" + attribute + "' must hold " + Twine(count) +
                      " positive numbers");
  return values;
}

/// SAME pads so that the result has ceil(extent / stride) positions.
static void padSame(WindowGeometry &window, size_t i, int64_t extent) {
  int64_t positions = (extent + window.strides[i] - 1) / window.strides[i];
  int64_t total =
      std::max<int64_t>((positions - 1) * window.strides[i] + window.extent(i) - extent, 0);
  int64_t less = total / 2, more = total - less;
  bool upper = window.autoPad == "SAME_UPPER";
  window.padBegin[i] = upper ? less : more;
  window.padEnd[i] = upper ? more : less;
}

FailureOr<WindowGeometry> mlir::autopar::readWindow(Node &node, ArrayRef<int64_t> spatial,
                                                    ArrayRef<int64_t> kernel, bool keepAutoPad) {
  size_t rank = spatial.size();
  FailureOr<Shape> strides = positiveList(node, "strides", rank),
                   dilations = positiveList(node, "dilations", rank);
  if (failed(strides) || failed(dilations))
    return failure();
  WindowGeometry window{Shape(kernel),
                        *strides,
                        *dilations,
                        Shape(rank, 0),
                        Shape(rank, 0),
                        node.string("auto_pad", "NOTSET"),
                        node.integer("ceil_mode", 0) != 0};
  if (window.autoPad.empty())
    window.autoPad = "NOTSET";
  for (size_t i = 0; i < rank; ++i)
    if (spatial[i] > largest || kernel[i] < 1 || kernel[i] > largest ||
        window.extent(i) > (int64_t(1) << 40))
      return node.error("spatial extents or window are too large or empty");
  if (auto pads = node.integers("pads"); pads && window.autoPad == "NOTSET") {
    if (pads->size() != 2 * rank ||
        llvm::any_of(*pads, [](int64_t pad) { return pad < 0 || pad > largest; }))
      return node.error("attribute 'pads' must hold " + Twine(2 * rank) +
                        " numbers that are not negative");
    window.padBegin.assign(pads->begin(), pads->begin() + rank);
    window.padEnd.assign(pads->begin() + rank, pads->end());
  }
  bool same = window.autoPad == "SAME_UPPER" || window.autoPad == "SAME_LOWER";
  if (!same && window.autoPad != "NOTSET" && window.autoPad != "VALID")
    return node.error(
        "attribute 'auto_pad' must be NOTSET, VALID, SAME_UPPER or SAME_LOWER, not '" +
        Twine(window.autoPad) + "'");
  for (size_t i = 0; same && !keepAutoPad && i < rank; ++i)
    padSame(window, i, spatial[i]);
  return window;
}

FailureOr<WindowGeometry> mlir::autopar::readWindow(Node &node, ArrayRef<int64_t> spatial) {
  if (!node.hasAttribute("kernel_shape"))
    return node.error("attribute 'kernel_shape' is missing");
  FailureOr<Shape> kernel = positiveList(node, "kernel_shape", spatial.size());
  if (failed(kernel))
    return failure();
  return readWindow(node, spatial, *kernel);
}

LogicalResult mlir::autopar::checkFits(Node &node, const WindowGeometry &window,
                                       ArrayRef<int64_t> spatial) {
  for (size_t i = 0; i < spatial.size(); ++i) {
    int64_t padded = spatial[i] + window.padBegin[i] + window.padEnd[i];
    if (window.extent(i) > padded)
      return node.error("the window has " + Twine(window.extent(i)) +
                        " elements along spatial dimension " + Twine(i) +
                        ", the input with its pads only " + Twine(padded));
  }
  return success();
}
