// SPDX-License-Identifier: Apache-2.0
// Poolings: reductions over sliding windows, averages as a sum over a count, and their global
// forms.
#include "Poolings.h"
#include "WindowGeometry.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

/// The window of a pooling node, with `padEnd` stretched where ceil_mode asks for a last partial
/// window.
static FailureOr<WindowGeometry> poolingWindow(Node &node, ArrayRef<int64_t> shape, Shape &pads) {
  if (shape.size() < 3)
    return node.inputError(0, "must have at least 3 dimensions");
  FailureOr<WindowGeometry> window = readWindow(node, shape.drop_front(2));
  if (failed(window) || failed(checkFits(node, *window, shape.drop_front(2))))
    return failure();
  pads = window->padEnd;
  for (size_t i = 0; window->ceilMode && i < window->kernel.size(); ++i) {
    int64_t extent = shape[i + 2],
            padded = extent + window->padBegin[i] + window->padEnd[i] - window->extent(i);
    int64_t steps = (padded + window->strides[i] - 1) / window->strides[i];
    // A window that would start behind the input is dropped.
    if (steps * window->strides[i] >= extent + window->padBegin[i])
      --steps;
    int64_t needed = steps * window->strides[i] + window->extent(i) - extent - window->padBegin[i];
    window->padEnd[i] = std::max(window->padEnd[i], needed);
  }
  return window;
}

static Window overAllDims(const WindowGeometry &geometry) {
  auto lead = [](int64_t value, ArrayRef<int64_t> rest) {
    Shape all{value, value};
    llvm::append_range(all, rest);
    return all;
  };
  return {lead(1, geometry.kernel), lead(1, geometry.strides), lead(0, geometry.padBegin),
          lead(0, geometry.padEnd), lead(1, geometry.dilations)};
}

FailureOr<Value> mlir::autopar::maxPool(Node &node, Value image) {
  Shape pads;
  FailureOr<WindowGeometry> geometry = poolingWindow(node, TensorBuilder::shapeOf(image), pads);
  if (failed(geometry))
    return failure();
  return node.b.pool(ReduceKind::Max, image, overAllDims(*geometry));
}

static LogicalResult importMaxPool(Node &node) {
  Shape pads;
  FailureOr<WindowGeometry> geometry = poolingWindow(node, node.inputType(0).getShape(), pads);
  if (failed(geometry))
    return failure();
  Window window = overAllDims(*geometry);
  node.setOutput(0, node.b.pool(ReduceKind::Max, node.input(0), window));
  if (node.wants(1))
    node.setOutput(1, node.b.argPool(node.input(0), window, node.integer("storage_order", 0) != 0));
  return success();
}

/// How many positions each window covers along one dimension: those inside the input, or also the
/// pads that the attributes name.
static SmallVector<double> coverage(const WindowGeometry &window, size_t i, int64_t extent,
                                    int64_t padEnd, bool includePads, int64_t positions) {
  SmallVector<double> counts;
  int64_t low = includePads ? -window.padBegin[i] : 0,
          high = includePads ? extent + padEnd : extent;
  for (int64_t at = 0; at < positions; ++at) {
    int64_t count = 0, start = at * window.strides[i] - window.padBegin[i];
    for (int64_t k = 0; k < window.kernel[i]; ++k) {
      int64_t position = start + k * window.dilations[i];
      count += position >= low && position < high;
    }
    counts.push_back(static_cast<double>(std::max<int64_t>(count, 1)));
  }
  return counts;
}

FailureOr<Value> mlir::autopar::averagePool(Node &node, Value image) {
  TensorBuilder &b = node.b;
  Shape pads;
  FailureOr<WindowGeometry> geometry = poolingWindow(node, TensorBuilder::shapeOf(image), pads);
  if (failed(geometry))
    return failure();
  Value sum = b.pool(ReduceKind::Sum, image, overAllDims(*geometry));
  bool includePads = node.integer("count_include_pad", 0) != 0;
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(image), result = TensorBuilder::shapeOf(sum);
  constexpr int64_t mostWork = 1 << 28;
  double uniform = 1;
  Value count;
  for (size_t i = 0; i < geometry->kernel.size(); ++i) {
    if (result[i + 2] > 0 && geometry->kernel[i] > mostWork / result[i + 2])
      return node.error("the window is too large");
    SmallVector<double> counts =
        coverage(*geometry, i, shape[i + 2], pads[i], includePads, result[i + 2]);
    if (llvm::all_equal(counts)) {
      uniform *= counts.empty() ? 1 : counts.front();
      continue;
    }
    Value line =
        b.floats(counts, {static_cast<int64_t>(counts.size())}, TensorBuilder::elementOf(sum));
    Shape aligned(geometry->kernel.size(), 1);
    aligned[i] = static_cast<int64_t>(counts.size());
    line = b.reshape(line, aligned);
    count = count ? b.mul(count, line) : line;
  }
  if (!count)
    return b.binary(BinaryKind::Div, sum, uniform);
  return b.div(sum, uniform == 1 ? count : b.binary(BinaryKind::Mul, count, uniform));
}

static LogicalResult importAveragePool(Node &node) {
  FailureOr<Value> y = averagePool(node, node.input(0));
  return failed(y) ? failure() : node.result(*y);
}

/// (sum of |x|^p)^(1/p), with `sum` over windows or everything.
static Value powerMean(TensorBuilder &b, Value x, double p, llvm::function_ref<Value(Value)> sum) {
  if (p == 1)
    return sum(b.unary(UnaryKind::Abs, x));
  if (p == 2)
    return b.unary(UnaryKind::Sqrt, sum(b.mul(x, x)));
  return b.binary(BinaryKind::Pow, sum(b.binary(BinaryKind::Pow, b.unary(UnaryKind::Abs, x), p)),
                  1 / p);
}

static FailureOr<double> orderOf(Node &node) {
  double p = node.version < 2 ? node.floating("p", 2) : static_cast<double>(node.integer("p", 2));
  if (!(p > 0))
    return node.error("attribute 'p' must be positive");
  return p;
}

static LogicalResult importLpPool(Node &node) {
  Shape pads;
  FailureOr<WindowGeometry> geometry = poolingWindow(node, node.inputType(0).getShape(), pads);
  FailureOr<double> p = orderOf(node);
  if (failed(geometry) || failed(p))
    return failure();
  Window window = overAllDims(*geometry);
  return node.result(powerMean(node.b, node.input(0), *p, [&](Value terms) {
    return node.b.pool(ReduceKind::Sum, terms, window);
  }));
}

static SmallVector<int64_t> spatialDims(Node &node) {
  return llvm::to_vector(llvm::seq<int64_t>(2, std::max<int64_t>(node.inputType(0).getRank(), 2)));
}

static LogicalResult importGlobalLpPool(Node &node) {
  FailureOr<double> p = orderOf(node);
  if (failed(p))
    return failure();
  return node.result(powerMean(node.b, node.input(0), *p, [&](Value terms) {
    return node.b.reduce(ReduceKind::Sum, terms, spatialDims(node), /*keepDims=*/true);
  }));
}

static LogicalResult importGlobalMaxPool(Node &node) {
  return node.result(
      node.b.reduce(ReduceKind::Max, node.input(0), spatialDims(node), /*keepDims=*/true));
}

static LogicalResult importGlobalAveragePool(Node &node) {
  double count = 1;
  for (int64_t dim : spatialDims(node))
    count *= static_cast<double>(node.inputType(0).getDimSize(dim));
  Value sum = node.b.reduce(ReduceKind::Sum, node.input(0), spatialDims(node), /*keepDims=*/true);
  return node.result(node.b.binary(BinaryKind::Div, sum, count));
}

/// Puts elements back to the positions that MaxPool's Indices name.
static LogicalResult importMaxUnpool(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  if (shape.size() < 3 || node.inputType(1).getShape() != shape)
    return node.error("needs an input of at least 3 dimensions and an index for each element");
  FailureOr<WindowGeometry> window = readWindow(node, shape.drop_front(2));
  if (failed(window))
    return failure();
  Shape inferred(shape.take_front(2));
  for (size_t i = 0; i < window->kernel.size(); ++i)
    inferred.push_back((shape[i + 2] - 1) * window->strides[i] + window->extent(i) -
                       window->padBegin[i] - window->padEnd[i]);
  RankedTensorType type = b.type(inferred, node.inputType(0).getElementType());
  int64_t count = node.inputType(0).getNumElements();
  Value flat = b.splat({type.getNumElements()}, type.getElementType(), 0);
  Value indices = b.reshape(b.cast(node.input(1), b.opBuilder().getI64Type()), {count, 1});
  Value y =
      b.reshape(b.scatter(ScatterKind::Assign, flat, indices, b.reshape(node.input(0), {count})),
                type.getShape());
  if (!node.hasInput(2))
    return node.result(y);
  FailureOr<SmallVector<int64_t>> wanted = node.constantIntegers(2);
  if (failed(wanted))
    return failure();
  if (wanted->size() != shape.size())
    return node.inputError(2, "must have " + Twine(shape.size()) + " entries");
  return node.result(
      b.pad(y, b.scalar(type.getElementType(), 0.0), Shape(shape.size(), 0), *wanted));
}

void mlir::autopar::addPoolingOperators(OperatorTable &table) {
  table.add("MaxPool", {1}, {1, 1},
            "auto_pad ceil_mode dilations kernel_shape pads storage_order strides", importMaxPool);
  table.add("AveragePool", {1}, {1, 1},
            "auto_pad ceil_mode count_include_pad dilations kernel_shape pads strides",
            importAveragePool);
  table.add("LpPool", {1}, {1, 1}, "auto_pad ceil_mode dilations kernel_shape p pads strides",
            importLpPool);
  table.add("GlobalLpPool", {1}, {1, 1}, "p", importGlobalLpPool);
  table.add("GlobalMaxPool", {1}, {1, 1}, "", importGlobalMaxPool);
  table.add("GlobalAveragePool", {1}, {1, 1}, "", importGlobalAveragePool);
  table.add("MaxUnpool", {9}, {2, 3}, "kernel_shape pads strides", importMaxUnpool);
}
