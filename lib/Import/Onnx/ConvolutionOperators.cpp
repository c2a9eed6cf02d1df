// SPDX-License-Identifier: Apache-2.0
// Convolutions, transposed convolutions, and the folding of columns into images.
#include "Convolutions.h"

#include "WindowGeometry.h"

using namespace mlir;
using namespace mlir::autopar;

static FailureOr<int64_t> groupsOf(Node &node, int64_t channels) {
  int64_t groups = node.integer("group", 1);
  if (groups < 1 || channels % groups)
    return node.error("attribute 'group' = " + Twine(groups) + " does not divide " +
                      Twine(channels) + " channels");
  return groups;
}

Value mlir::autopar::addChannelBias(TensorBuilder &b, Value image, Value bias) {
  return b.add(image, b.broadcast(bias, TensorBuilder::shapeOf(image), {1}));
}

static Value withChannels(TensorBuilder &b, Value image, int64_t from, int64_t to) {
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, TensorBuilder::rankOf(image)));
  if (order.size() < 3)
    return image;
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return b.transpose(image, order);
}

Value mlir::autopar::channelsFirst(TensorBuilder &b, Value image) {
  return withChannels(b, image, TensorBuilder::rankOf(image) - 1, 1);
}

Value mlir::autopar::channelsToEnd(TensorBuilder &b, Value image) {
  return withChannels(b, image, 1, TensorBuilder::rankOf(image) - 1);
}

FailureOr<Value> mlir::autopar::convolve(Node &node, Value input, Value filter) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(input), weights = TensorBuilder::shapeOf(filter);
  if (shape.size() < 3 || weights.size() != shape.size())
    return node.error("needs an image and a filter of one rank of at least 3, got " +
                      printShape(shape) + " and " + printShape(weights));
  FailureOr<int64_t> groups = groupsOf(node, shape[1]);
  if (failed(groups))
    return failure();
  if (weights[1] * *groups != shape[1] || weights[0] % *groups)
    return node.error("filter " + printShape(weights) + " in " + Twine(*groups) +
                      " groups does not fit image " + printShape(shape));
  if (auto kernel = node.integers("kernel_shape");
      kernel && ArrayRef<int64_t>(*kernel) != weights.drop_front(2))
    return node.error("attribute 'kernel_shape' differs from the filter " + printShape(weights));
  FailureOr<WindowGeometry> window = readWindow(node, shape.drop_front(2), weights.drop_front(2));
  if (failed(window) || failed(checkFits(node, *window, shape.drop_front(2))))
    return failure();
  return node.b.convolution(input, filter, window->strides, window->padBegin, window->padEnd,
                            Shape(shape.size() - 2, 1), window->dilations, *groups);
}

static LogicalResult importConv(Node &node) {
  FailureOr<Value> y = convolve(node, node.input(0), node.input(1));
  if (failed(y))
    return failure();
  return node.result(node.hasInput(2) ? addChannelBias(node.b, *y, node.input(2)) : *y);
}

//===-- transposed convolution ---------------------------------------------------------------===//

/// Pads that give `output` positions, the odd one as auto_pad says.
static void padToOutput(WindowGeometry &window, size_t i, int64_t extent, int64_t outputPadding,
                        int64_t output) {
  int64_t total = window.strides[i] * (extent - 1) + outputPadding + window.extent(i) - output;
  if (total < 0) {
    window.padBegin[i] = 0;
    window.padEnd[i] = total;
    return;
  }
  int64_t half = total / 2;
  window.padBegin[i] = window.autoPad == "SAME_UPPER" ? half : total - half;
  window.padEnd[i] = total - window.padBegin[i];
}

static LogicalResult importConvTranspose(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape(), weights = node.inputType(1).getShape();
  if (shape.size() < 3 || weights.size() != shape.size() || weights[0] != shape[1])
    return node.error("filter " + printShape(weights) + " does not fit image " + printShape(shape));
  FailureOr<int64_t> groups = groupsOf(node, shape[1]);
  FailureOr<WindowGeometry> window =
      readWindow(node, shape.drop_front(2), weights.drop_front(2), /*keepAutoPad=*/true);
  if (failed(groups) || failed(window))
    return failure();
  size_t rank = shape.size() - 2;
  Shape outputPadding(rank, 0);
  if (auto given = node.integers("output_padding"))
    outputPadding = *given;
  std::optional<SmallVector<int64_t>> output = node.integers("output_shape");
  if (output && output->size() == rank + 2) // some exporters give batch and channels too
    output->erase(output->begin(), output->begin() + 2);
  auto outOfRange = [](int64_t value) { return value < 0 || value > (int64_t(1) << 40); };
  if (outputPadding.size() != rank || llvm::any_of(outputPadding, outOfRange) ||
      (output && (output->size() != rank || llvm::any_of(*output, outOfRange))))
    return node.error("output_padding and output_shape must have " + Twine(rank) +
                      " entries that are not negative");
  bool same = window->autoPad == "SAME_UPPER" || window->autoPad == "SAME_LOWER";
  Shape sizes{shape[0], weights[1] * *groups}, padEnd;
  for (size_t i = 0; i < rank; ++i) {
    int64_t stride = window->strides[i];
    if (output)
      padToOutput(*window, i, shape[i + 2], outputPadding[i], (*output)[i]);
    else if (same)
      padToOutput(*window, i, shape[i + 2], outputPadding[i], shape[i + 2] * stride);
    // Where its last window ends, the convolution back may see more than it needs.
    int64_t end = window->padEnd[i] - outputPadding[i];
    padEnd.push_back(std::max(end, std::min<int64_t>(end + stride - 1, 0)));
    sizes.push_back(std::max<int64_t>(
        (shape[i + 2] - 1) * stride + window->extent(i) - window->padBegin[i] - end, 0));
  }
  Value y = b.transposedConvolution(node.input(0), node.input(1), sizes, window->strides,
                                    window->padBegin, padEnd, window->dilations, *groups);
  return node.result(node.hasInput(2) ? addChannelBias(b, y, node.input(2)) : y);
}

//===-- columns to images --------------------------------------------------------------------===//

/// Linear positions in the padded image of each (block element, block) pair, block elements major.
static SmallVector<int64_t> blockPositions(const WindowGeometry &window, ArrayRef<int64_t> padded,
                                           ArrayRef<int64_t> counts) {
  SmallVector<int64_t> positions;
  size_t rank = padded.size();
  Shape element(rank, 0), block(rank, 0);
  auto step = [](Shape &index, ArrayRef<int64_t> limits) {
    for (size_t i = limits.size(); i-- > 0;) {
      if (++index[i] < limits[i])
        return true;
      index[i] = 0;
    }
    return false;
  };
  do {
    do {
      int64_t at = 0;
      for (size_t i = 0; i < rank; ++i)
        at = at * padded[i] + block[i] * window.strides[i] + element[i] * window.dilations[i];
      positions.push_back(at);
    } while (step(block, counts));
  } while (step(element, window.kernel));
  return positions;
}

static LogicalResult importCol2Im(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> image = node.constantIntegers(1),
                                  kernel = node.constantIntegers(2);
  if (failed(image) || failed(kernel))
    return failure();
  size_t rank = image->size();
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  auto tooLarge = [](int64_t value) { return value < 1 || value > (1 << 20); };
  if (kernel->size() != rank || shape.size() != 3 || llvm::any_of(*image, tooLarge) ||
      llvm::any_of(*kernel, tooLarge))
    return node.error(
        "needs columns [n, c * block, positions] and an extent of image and block per dimension");
  FailureOr<WindowGeometry> window = readWindow(node, *image, *kernel);
  if (failed(window))
    return failure();
  Shape padded, counts;
  int64_t blockSize = 1, blocks = 1, pixels = 1;
  for (size_t i = 0; i < rank; ++i) {
    padded.push_back((*image)[i] + window->padBegin[i] + window->padEnd[i]);
    counts.push_back(padded[i] < window->extent(i)
                         ? 0
                         : (padded[i] - window->extent(i)) / window->strides[i] + 1);
    blockSize *= (*kernel)[i], blocks *= counts[i], pixels *= padded[i];
    if (blockSize > (1 << 20) || blocks > (1 << 24) || pixels > (1 << 28))
      return node.error("the image is too large");
  }
  if (shape[2] != blocks || shape[1] % blockSize || blocks == 0 || blocks * blockSize > (1 << 24))
    return node.error("columns " + printShape(shape) + " do not fit " + Twine(blocks) +
                      " blocks of " + Twine(blockSize));
  int64_t batch = shape[0], channels = shape[1] / blockSize, rows = blockSize * blocks;
  Value columns = b.reshape(b.transpose(b.reshape(node.input(0), {batch * channels, rows}), {1, 0}),
                            {rows, batch * channels});
  Value indices = b.reshape(b.integers(blockPositions(*window, padded, counts)), {rows, 1});
  Value flat = b.scatter(ScatterKind::Add,
                         b.splat({pixels, batch * channels}, TensorBuilder::elementOf(columns), 0),
                         indices, columns);
  Shape full{batch, channels}, starts{0, 0}, sizes{batch, channels};
  llvm::append_range(full, padded);
  llvm::append_range(starts, window->padBegin);
  llvm::append_range(sizes, *image);
  return node.result(
      b.slice(b.reshape(b.transpose(flat, {1, 0}), full), starts, sizes, Shape(rank + 2, 1)));
}

void mlir::autopar::addConvolutionOperators(OperatorTable &table) {
  table.add("Conv", {1}, {2, 3}, "auto_pad dilations group kernel_shape pads strides", importConv);
  table.add("ConvTranspose", {1}, {2, 3},
            "auto_pad dilations group kernel_shape output_padding output_shape pads strides",
            importConvTranspose);
  table.add("Col2Im", {18}, {3, 3}, "dilations pads strides", importCol2Im);
}
