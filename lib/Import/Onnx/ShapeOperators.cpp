// SPDX-License-Identifier: Apache-2.0
// Operators on the shape of tensors: reading it, changing it, joining and splitting along it.
#include "Node.h"

#include <numeric>

using namespace mlir;
using namespace mlir::autopar;

static LogicalResult importIdentity(Node &node) {
  node.setOutput(0, node.anyInput(0));
  return success();
}

static LogicalResult importShape(Node &node) {
  int64_t rank = node.inputType(0).getRank();
  auto clamp = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  int64_t start = clamp(node.integer("start", 0)), end = clamp(node.integer("end", rank));
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  return node.result(
      node.b.integers(start < end ? shape.slice(start, end - start) : ArrayRef<int64_t>()));
}

static LogicalResult importSize(Node &node) {
  return node.result(
      node.b.scalar(node.b.opBuilder().getI64Type(), node.inputType(0).getNumElements()));
}

static LogicalResult importReshape(Node &node) {
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "shape");
  if (failed(given) || !*given)
    return failed(given) ? failure() : node.error("has no shape");
  Shape shape(**given);
  RankedTensorType input = node.inputType(0);
  int64_t known = 1, open = -1;
  for (auto [i, extent] : llvm::enumerate(shape)) {
    if (extent == 0 && !node.integer("allowzero", 0)) {
      if (static_cast<int64_t>(i) >= input.getRank())
        return node.error("shape copies dimension " + Twine(i) + ", which the input does not have");
      extent = input.getDimSize(i);
    }
    if (extent < -1 || (extent == -1 && open >= 0))
      return node.error("shape " + printShape(**given) +
                        " is no shape: expected extents of at least 0, and at most one -1");
    if (extent == -1)
      open = static_cast<int64_t>(i);
    else if (__builtin_mul_overflow(known, extent, &known))
      return node.error("shape " + printShape(**given) + " is too large");
  }
  if (open >= 0) {
    if (known == 0 || input.getNumElements() % known)
      return node.error("shape " + printShape(**given) + " does not fit input of shape " +
                        printShape(input.getShape()));
    shape[open] = input.getNumElements() / known;
  } else if (known != input.getNumElements()) {
    return node.error("shape " + printShape(**given) + " does not fit input of shape " +
                      printShape(input.getShape()));
  }
  return node.result(node.b.reshape(node.input(0), shape));
}

static LogicalResult importFlatten(Node &node) {
  RankedTensorType input = node.inputType(0);
  int64_t axis = node.integer("axis", 1), rank = input.getRank();
  if (axis < -rank || axis > rank)
    return node.error("axis " + Twine(axis) + " is out of range for rank " + Twine(rank));
  axis = axis < 0 ? axis + rank : axis;
  auto product = [](ArrayRef<int64_t> extents) {
    return std::accumulate(extents.begin(), extents.end(), int64_t(1), std::multiplies<>());
  };
  return node.result(node.b.reshape(node.input(0), {product(input.getShape().take_front(axis)),
                                                    product(input.getShape().drop_front(axis))}));
}

static LogicalResult importSqueeze(Node &node) {
  RankedTensorType input = node.inputType(0);
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "axes");
  if (failed(given))
    return failure();
  SmallVector<int64_t> dims;
  if (*given) {
    FailureOr<SmallVector<int64_t>> checked = node.axes(**given, input.getRank());
    if (failed(checked))
      return failure();
    dims = *checked;
    for (int64_t dim : dims)
      if (input.getDimSize(dim) != 1)
        return node.error("dimension " + Twine(dim) + " of shape " + printShape(input.getShape()) +
                          " is not 1");
  } else {
    for (int64_t dim = 0; dim < input.getRank(); ++dim)
      if (input.getDimSize(dim) == 1)
        dims.push_back(dim);
  }
  return node.result(node.b.squeeze(node.input(0), dims));
}

static LogicalResult importUnsqueeze(Node &node) {
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "axes");
  if (failed(given) || !*given)
    return failed(given) ? failure() : node.error("has no axes");
  FailureOr<SmallVector<int64_t>> dims =
      node.axes(**given, node.inputType(0).getRank() + static_cast<int64_t>((*given)->size()));
  return failed(dims) ? failure() : node.result(node.b.unsqueeze(node.input(0), *dims));
}

static LogicalResult importTranspose(Node &node) {
  int64_t rank = node.inputType(0).getRank();
  SmallVector<int64_t> permutation(llvm::reverse(llvm::to_vector(llvm::seq<int64_t>(0, rank))));
  if (auto given = node.integers("perm"))
    permutation = *given;
  FailureOr<SmallVector<int64_t>> sorted = node.axes(permutation, rank);
  if (failed(sorted))
    return failure();
  if (static_cast<int64_t>(permutation.size()) != rank)
    return node.error("attribute 'perm' must have " + Twine(rank) + " entries");
  for (int64_t &dim : permutation)
    dim = dim < 0 ? dim + rank : dim;
  return node.result(node.b.transpose(node.input(0), permutation));
}

static LogicalResult importExpand(Node &node) {
  FailureOr<SmallVector<int64_t>> shape = node.constantIntegers(1);
  if (failed(shape))
    return failure();
  std::optional<Shape> common = TensorBuilder::commonShape(node.inputType(0).getShape(), *shape);
  if (!common)
    return node.error("shape " + printShape(node.inputType(0).getShape()) +
                      " does not broadcast to " + printShape(*shape));
  return node.result(node.b.broadcastTo(node.input(0), *common));
}

/// Repetition as a broadcast along new dimensions, merged afterwards.
static Value tile(TensorBuilder &b, Value input, ArrayRef<int64_t> repeats) {
  Shape wide, merged;
  SmallVector<int64_t> dims;
  for (auto [extent, repeat] : llvm::zip(TensorBuilder::shapeOf(input), repeats)) {
    if (repeat != 1 && extent != 1)
      wide.push_back(repeat);
    dims.push_back(static_cast<int64_t>(wide.size()));
    wide.push_back(extent == 1 ? repeat : extent);
    int64_t product;
    if (__builtin_mul_overflow(extent, repeat, &product)) {
      (void)b.fail("repetition of shape " + printShape(TensorBuilder::shapeOf(input)) +
                   " is too large");
      return input;
    }
    merged.push_back(product);
  }
  return b.reshape(b.broadcast(input, wide, dims), merged);
}

static LogicalResult importTile(Node &node) {
  FailureOr<SmallVector<int64_t>> repeats = node.constantIntegers(1);
  int64_t rank = node.inputType(0).getRank();
  if (failed(repeats))
    return failure();
  if (node.hasInput(2)) { // version 1: tiles along one axis
    FailureOr<SmallVector<int64_t>> along = node.constantIntegers(2);
    if (failed(along) || along->size() != 1 || repeats->size() != 1)
      return failed(along) ? failure() : node.error("tiles and axis must be scalars");
    FailureOr<int64_t> axis = node.axis(along->front(), rank);
    if (failed(axis))
      return failure();
    SmallVector<int64_t> all(rank, 1);
    all[*axis] = repeats->front();
    *repeats = all;
  }
  if (static_cast<int64_t>(repeats->size()) != rank ||
      llvm::any_of(*repeats, [](int64_t count) { return count < 0; }))
    return node.error("repeats " + printShape(*repeats) + " must be " + Twine(rank) +
                      " numbers that are not negative");
  return node.result(tile(node.b, node.input(0), *repeats));
}

static LogicalResult importConcat(Node &node) {
  SmallVector<Value> inputs;
  FailureOr<int64_t> axis =
      node.axis(node.integer("axis", node.version < 4 ? 1 : 0), node.inputType(0).getRank());
  if (failed(axis))
    return failure();
  if (node.version >= 4 && !node.hasAttribute("axis"))
    return node.error("attribute 'axis' is missing");
  for (size_t i = 0; i < node.inputCount(); ++i) {
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
    inputs.push_back(node.input(i));
  }
  return node.result(node.b.concat(inputs, *axis));
}

static LogicalResult importSplit(Node &node) {
  RankedTensorType input = node.inputType(0);
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), input.getRank());
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "split");
  if (failed(axis) || failed(given))
    return failure();
  int64_t extent = input.getDimSize(*axis), start = 0;
  auto count = static_cast<int64_t>(node.outputCount());
  SmallVector<int64_t> sizes;
  if (*given) {
    sizes = **given;
  } else if (node.version < 18 && extent % count) {
    return node.error("extent " + Twine(extent) + " does not split evenly into " + Twine(count) +
                      "; only from operator set 18 on may the last part be smaller");
  } else {
    int64_t chunk = (extent + count - 1) / count; // the last one may be smaller
    for (int64_t i = 0; i < count; ++i)
      sizes.push_back(std::clamp<int64_t>(extent - i * chunk, 0, chunk));
  }
  if (static_cast<int64_t>(sizes.size()) != count ||
      llvm::any_of(sizes, [](int64_t size) { return size < 0; }) ||
      llvm::any_of(sizes, [&](int64_t size) { return size > extent; }) ||
      std::accumulate(sizes.begin(), sizes.end(), int64_t(0)) != extent)
    return node.error("split " + printShape(sizes) + " does not divide extent " + Twine(extent) +
                      " into " + Twine(count));
  for (int64_t i = 0; i < count; ++i) {
    node.setOutput(i, node.b.sliceDim(node.input(0), *axis, start, sizes[i]));
    start += sizes[i];
  }
  return success();
}

/// [n, c, h, w] with blocks of `block` x `block` positions moved from or to channels.
static LogicalResult importDepthToSpace(Node &node) {
  RankedTensorType input = node.inputType(0);
  int64_t block = node.integer("blocksize", 0);
  if (input.getRank() != 4 || block < 1 || block > (1 << 20) ||
      input.getDimSize(1) % (block * block))
    return node.error("needs an input [n, c, h, w] with c a multiple of blocksize squared");
  int64_t n = input.getDimSize(0), c = input.getDimSize(1) / (block * block),
          h = input.getDimSize(2), w = input.getDimSize(3);
  std::string mode = node.string("mode", "DCR");
  TensorBuilder &b = node.b;
  Value blocks;
  if (mode == "DCR")
    blocks = b.transpose(b.reshape(node.input(0), {n, block, block, c, h, w}), {0, 3, 4, 1, 5, 2});
  else if (mode == "CRD")
    blocks = b.transpose(b.reshape(node.input(0), {n, c, block, block, h, w}), {0, 1, 4, 2, 5, 3});
  else
    return node.error("attribute 'mode' must be DCR or CRD, not '" + Twine(mode) + "'");
  return node.result(b.reshape(blocks, {n, c, h * block, w * block}));
}

static LogicalResult importSpaceToDepth(Node &node) {
  RankedTensorType input = node.inputType(0);
  int64_t block = node.integer("blocksize", 0);
  if (input.getRank() != 4 || block < 1 || input.getDimSize(2) % block ||
      input.getDimSize(3) % block)
    return node.error("needs an input [n, c, h, w] with h and w multiples of blocksize");
  int64_t n = input.getDimSize(0), c = input.getDimSize(1), h = input.getDimSize(2) / block,
          w = input.getDimSize(3) / block;
  TensorBuilder &b = node.b;
  std::string mode = node.string("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return node.error("attribute 'mode' must be DCR or CRD, not '" + Twine(mode) + "'");
  SmallVector<int64_t> permutation = mode == "DCR" ? SmallVector<int64_t>{0, 3, 5, 1, 2, 4}
                                                   : SmallVector<int64_t>{0, 1, 3, 5, 2, 4};
  Value blocks = b.transpose(b.reshape(node.input(0), {n, c, h, block, w, block}), permutation);
  return node.result(b.reshape(blocks, {n, c * block * block, h, w}));
}

void mlir::autopar::addShapeOperators(OperatorTable &table) {
  table.addAnyValue("Identity", {1}, {1, 1}, "", importIdentity);
  table.add("Shape", {1}, {1, 1}, "start end", importShape);
  table.add("Size", {1}, {1, 1}, "", importSize);
  table.add("Reshape", {1, 4}, {1, 1}, "shape consumed_inputs", importReshape);
  table.add("Reshape", {5}, {2, 2}, "allowzero", importReshape);
  table.add("Flatten", {1}, {1, 1}, "axis", importFlatten);
  table.add("Squeeze", {1, 12}, {1, 1}, "axes", importSqueeze);
  table.add("Squeeze", {13}, {1, 2}, "", importSqueeze);
  table.add("Unsqueeze", {1, 12}, {1, 1}, "axes", importUnsqueeze);
  table.add("Unsqueeze", {13}, {2, 2}, "", importUnsqueeze);
  table.add("Transpose", {1}, {1, 1}, "perm", importTranspose);
  table.add("Expand", {8}, {2, 2}, "", importExpand);
  table.add("Tile", {1, 5}, {3, 3}, "", importTile);
  table.add("Tile", {6}, {2, 2}, "", importTile);
  table.add("Concat", {1}, {1, -1}, "axis", importConcat);
  table.add("Split", {1, 1}, {1, 2}, "axis split", importSplit);
  table.add("Split", {2, 12}, {1, 1}, "axis split", importSplit);
  table.add("Split", {13}, {1, 2}, "axis num_outputs", importSplit);
  table.add("DepthToSpace", {1}, {1, 1}, "blocksize mode", importDepthToSpace);
  table.add("SpaceToDepth", {1}, {1, 1}, "blocksize mode", importSpaceToDepth);
  table.inDomain("com.microsoft");
  table.add("ExpandDims", {1}, {2, 2}, "", importUnsqueeze);
  table.inDomain("");
}
