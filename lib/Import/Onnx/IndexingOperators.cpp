// SPDX-License-Identifier: Apache-2.0
// Operators that pick elements by position: gather, scatter, slice, pad, triangles, one-hot
// vectors.
#include "AlongAxis.h"
#include "ExportRecords.h"

#include "autopar/Dialect/AutoPar/IR/PaddingIndex.h"

using namespace mlir;
using namespace mlir::autopar;

/// Indices of a type that gather takes.
static Value indexType(TensorBuilder &b, Value indices) {
  Type element = TensorBuilder::elementOf(indices);
  return element.isInteger(32) && !element.isUnsignedInteger()
             ? indices
             : b.cast(indices, b.opBuilder().getI64Type());
}

static LogicalResult importGather(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.inputType(0).getRank());
  if (failed(axis))
    return failure();
  Value indices = node.input(1);
  // A scalar known position is a slice.
  if (auto known = b.integersOf(indices); known && known->size() == 1) {
    int64_t extent = node.inputType(0).getDimSize(*axis),
            at = known->front() < 0 ? known->front() + extent : known->front();
    if (at < 0 || at >= extent)
      return node.inputError(1, "holds " + Twine(known->front()) + ", but the gathered extent is " +
                                    Twine(extent));
    Value slice = b.squeeze(b.sliceDim(node.input(0), *axis, at, 1), {*axis});
    SmallVector<int64_t> added;
    for (int64_t i = 0; i < TensorBuilder::rankOf(indices); ++i)
      added.push_back(*axis + i);
    return node.result(b.unsqueeze(slice, added));
  }
  indices = b.unsqueeze(indexType(b, indices), {TensorBuilder::rankOf(indices)});
  Value found = b.gather(node.input(0), indices, {*axis}, 0);
  std::optional<int64_t> padding = ExportRecords::paddingIndexOf(node.source());
  if (auto gather = found.getDefiningOp<GatherOp>(); gather && padding)
    gather->setAttr(kPaddingIndexAttribute, b.opBuilder().getI64IntegerAttr(*padding));
  return node.result(found);
}

static LogicalResult importGatherElements(Node &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.inputType(0).getRank());
  if (failed(axis))
    return failure();
  return node.result(node.b.gatherElements(node.input(0), indexType(node.b, node.input(1)), *axis));
}

static LogicalResult importGatherND(Node &node) {
  int64_t batch = node.integer("batch_dims", 0), rank = node.inputType(0).getRank();
  RankedTensorType indices = node.inputType(1);
  if (indices.getRank() < 1 || batch < 0 || batch >= std::min(rank, indices.getRank()))
    return node.error("batch_dims " + Twine(batch) + " is out of range");
  int64_t depth = indices.getShape().back();
  if (depth < 1 || batch + depth > rank)
    return node.inputError(1,
                           "indexes " + Twine(depth) + " dimensions, input 0 has " + Twine(rank));
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < depth; ++i)
    dims.push_back(batch + i);
  return node.result(node.b.gather(node.input(0), indexType(node.b, node.input(1)), dims, batch));
}

static FailureOr<ScatterKind> scatterKind(Node &node) {
  std::string reduction = node.string("reduction", "none");
  if (reduction == "none")
    return ScatterKind::Assign;
  if (std::optional<ScatterKind> kind = symbolizeScatterKind(reduction);
      kind && *kind != ScatterKind::Assign)
    return *kind;
  return node.error("attribute 'reduction' must be none, add, mul, max or min, not '" +
                    Twine(reduction) + "'");
}

static LogicalResult importScatterND(Node &node) {
  FailureOr<ScatterKind> kind = scatterKind(node);
  if (failed(kind))
    return failure();
  return node.result(
      node.b.scatter(*kind, node.input(0), indexType(node.b, node.input(1)), node.input(2)));
}

static LogicalResult importScatterElements(Node &node) {
  FailureOr<ScatterKind> kind = scatterKind(node);
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.inputType(0).getRank());
  if (failed(kind) || failed(axis))
    return failure();
  return node.result(node.b.scatterElements(*kind, node.input(0), indexType(node.b, node.input(1)),
                                            node.input(2), *axis));
}

//===-- slice and pad ------------------------------------------------------------------------===//

/// First position and number of positions of start:end:step over `extent`, as in Python.
static std::pair<int64_t, int64_t> resolveRange(int64_t start, int64_t end, int64_t step,
                                                int64_t extent) {
  int64_t low = step > 0 ? 0 : -1, high = step > 0 ? extent : extent - 1;
  auto resolve = [&](int64_t at) { return std::clamp(at < 0 ? at + extent : at, low, high); };
  start = resolve(start), end = resolve(end);
  int64_t distance = step > 0 ? end - start : start - end;
  if (distance <= 0)
    return {0, 0};
  uint64_t width = step > 0 ? static_cast<uint64_t>(step) : -static_cast<uint64_t>(step);
  return {start, static_cast<int64_t>((static_cast<uint64_t>(distance) - 1) / width + 1)};
}

static LogicalResult importSlice(Node &node) {
  RankedTensorType input = node.inputType(0);
  FailureOr<std::optional<SmallVector<int64_t>>> starts = node.integersFrom(1, "starts"),
                                                 ends = node.integersFrom(2, "ends"),
                                                 axes = node.integersFrom(3, "axes"),
                                                 steps = node.integersFrom(4, "steps");
  if (failed(starts) || failed(ends) || failed(axes) || failed(steps))
    return failure();
  if (!*starts || !*ends || (*starts)->size() != (*ends)->size())
    return node.error("needs as many ends as starts");
  size_t count = (*starts)->size();
  SmallVector<int64_t> dims = *axes ? **axes : llvm::to_vector(llvm::seq<int64_t>(0, count));
  if (dims.size() != count || (*steps && (*steps)->size() != count))
    return node.error("needs as many axes and steps as starts");
  SmallVector<int64_t> first(input.getRank(), 0), step(input.getRank(), 1), sizes(input.getShape());
  if (failed(node.axes(dims, input.getRank())))
    return failure();
  for (size_t i = 0; i < count; ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + input.getRank() : dims[i], by = *steps ? (**steps)[i] : 1;
    if (by == 0)
      return node.error("step is zero");
    std::tie(first[dim], sizes[dim]) =
        resolveRange((**starts)[i], (**ends)[i], by, input.getDimSize(dim));
    step[dim] = sizes[dim] > 1 ? by : 1;
  }
  return node.result(node.b.slice(node.input(0), first, sizes, step));
}

/// Source positions of a dimension padded by repeating its own elements.
static FailureOr<SmallVector<int64_t>> paddedPositions(Node &node, StringRef mode, int64_t low,
                                                       int64_t high, int64_t extent) {
  constexpr int64_t mostPositions = 1 << 22;
  SmallVector<int64_t> positions;
  if (extent == 0 || low + extent + high > mostPositions)
    return node.error("pads a dimension of extent " + Twine(extent) + " that cannot be repeated");
  for (int64_t at = -low; at < extent + high; ++at) {
    int64_t from = at;
    if (mode == "edge")
      from = std::clamp<int64_t>(at, 0, extent - 1);
    else if (mode == "wrap")
      from = (at % extent + extent) % extent;
    else if (extent == 1)
      from = 0;
    else { // reflect: a period of 2 (extent - 1)
      int64_t period = 2 * (extent - 1);
      from = (at % period + period) % period;
      from = from < extent ? from : period - from;
    }
    positions.push_back(from);
  }
  return positions;
}

static LogicalResult padDims(Node &node, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                             StringRef mode, Value value) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  int64_t rank = TensorBuilder::rankOf(x);
  constexpr int64_t mostPad = int64_t(1) << 40;
  // Negative pads cut.
  SmallVector<int64_t> starts(rank, 0), steps(rank, 1), sizes(TensorBuilder::shapeOf(x)),
      before(rank, 0);
  for (int64_t dim = 0; dim < rank; ++dim) {
    if (std::abs(low[dim]) > mostPad || std::abs(high[dim]) > mostPad)
      return node.error("pads are too large");
    starts[dim] = std::max<int64_t>(-low[dim], 0);
    sizes[dim] -= starts[dim] + std::max<int64_t>(-high[dim], 0);
    if (sizes[dim] < 0)
      return node.error("pads cut more than dimension " + Twine(dim) + " holds");
    if (sizes[dim] == 0)
      starts[dim] = 0;
  }
  x = b.slice(x, starts, sizes, steps);
  if (mode == "constant") {
    for (int64_t dim = 0; dim < rank; ++dim) {
      before[dim] = std::max<int64_t>(low[dim], 0);
      sizes[dim] += before[dim] + std::max<int64_t>(high[dim], 0);
    }
    return node.result(b.pad(x, value, before, sizes));
  }
  if (mode != "edge" && mode != "reflect" && mode != "wrap")
    return node.error("attribute 'mode' must be constant, edge, reflect or wrap, not '" + mode +
                      "'");
  for (int64_t dim = 0; dim < rank; ++dim) {
    int64_t front = std::max<int64_t>(low[dim], 0), back = std::max<int64_t>(high[dim], 0);
    if (front == 0 && back == 0)
      continue;
    FailureOr<SmallVector<int64_t>> positions =
        paddedPositions(node, mode, front, back, sizes[dim]);
    if (failed(positions))
      return failure();
    x = b.take(x, *positions, dim);
  }
  return node.result(x);
}

static LogicalResult importPad(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  FailureOr<std::optional<SmallVector<int64_t>>> pads = node.integersFrom(1, "pads"),
                                                 axes = node.integersFrom(3, "");
  if (failed(pads) || failed(axes))
    return failure();
  if (!*pads)
    *pads = node.integers("paddings");
  if (!*pads)
    return node.error("has no pads");
  SmallVector<int64_t> dims =
      *axes ? **axes : llvm::to_vector(llvm::seq<int64_t>(0, input.getRank()));
  if (failed(node.axes(dims, input.getRank())))
    return failure();
  if ((*pads)->size() != 2 * dims.size())
    return node.error("needs " + Twine(2 * dims.size()) + " pads, has " + Twine((*pads)->size()));
  SmallVector<int64_t> low(input.getRank(), 0), high(input.getRank(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + input.getRank() : dims[i];
    low[dim] = (**pads)[i];
    high[dim] = (**pads)[dims.size() + i];
  }
  Value value = b.scalar(input.getElementType(), node.floating("value", 0));
  if (node.hasInput(2)) {
    if (node.inputType(2).getNumElements() != 1 ||
        node.inputType(2).getElementType() != input.getElementType())
      return node.inputError(2, "must be one element of the type of input 0");
    value = b.reshape(node.input(2), {});
  }
  return padDims(node, low, high, node.string("mode", "constant"), value);
}

static LogicalResult importCenterCropPad(Node &node) {
  RankedTensorType input = node.inputType(0);
  FailureOr<SmallVector<int64_t>> shape = node.constantIntegers(1);
  std::optional<SmallVector<int64_t>> axes = node.integers("axes");
  SmallVector<int64_t> dims =
      axes ? *axes : llvm::to_vector(llvm::seq<int64_t>(0, input.getRank()));
  if (failed(shape) || failed(node.axes(dims, input.getRank())))
    return failure();
  if (shape->size() != dims.size())
    return node.error("needs one extent per axis");
  SmallVector<int64_t> low(input.getRank(), 0), high(input.getRank(), 0);
  for (size_t i = 0; i < dims.size(); ++i) {
    int64_t dim = dims[i] < 0 ? dims[i] + input.getRank() : dims[i], extent = input.getDimSize(dim);
    if ((*shape)[i] < 0 || (*shape)[i] > (int64_t(1) << 40))
      return node.error("shape " + printShape(*shape) + " is negative or too large");
    int64_t missing = (*shape)[i] - extent;
    low[dim] = missing >= 0 ? missing / 2 : -(-missing / 2);
    high[dim] = missing - low[dim];
  }
  return padDims(node, low, high, "constant", node.b.scalar(input.getElementType(), 0.0));
}

//===-- masks --------------------------------------------------------------------------------===//

static LogicalResult importTrilu(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  int64_t diagonal = 0, rank = input.getRank();
  if (rank < 2)
    return node.inputError(0, "must have at least 2 dimensions");
  if (node.hasInput(1)) {
    FailureOr<SmallVector<int64_t>> k = node.constantIntegers(1);
    if (failed(k) || k->size() != 1)
      return failed(k) ? failure() : node.inputError(1, "must be a scalar");
    diagonal = k->front();
  }
  SmallVector<int64_t> plane(input.getShape().take_back(2));
  Type i64 = b.opBuilder().getI64Type();
  Value shifted = b.add(b.iota(plane, i64, 0), b.scalar(i64, diagonal));
  bool upper = node.integer("upper", 1);
  Value keep = b.compare(upper ? ComparePredicate::Ge : ComparePredicate::Le, b.iota(plane, i64, 1),
                         shifted);
  return node.result(b.select(keep, node.input(0), b.splatLike(node.input(0), 0)));
}

static LogicalResult importOneHot(Node &node) {
  TensorBuilder &b = node.b;
  Type i64 = b.opBuilder().getI64Type();
  std::optional<SmallVector<int64_t>> depth = b.integersOf(node.input(1));
  if (!depth)
    if (auto given = b.floatsOf(node.input(1));
        given && given->size() == 1 && std::abs(given->front()) < 1e12)
      depth = SmallVector<int64_t>{static_cast<int64_t>(given->front())};
  if (!depth || depth->size() != 1 || depth->front() < 1)
    return node.inputError(1, "must be one positive number known at compile time");
  int64_t rank = node.inputType(0).getRank();
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), rank + 1);
  if (failed(axis) || node.inputType(2).getNumElements() != 2 || node.inputType(2).getRank() != 1)
    return failed(axis) ? failure() : node.inputError(2, "must hold two values, off and on");
  // Negative indices count from the end; those outside select nothing.
  Value indices = b.cast(node.input(0), i64), extent = b.scalar(i64, depth->front());
  indices = b.select(b.compare(ComparePredicate::Lt, indices, b.scalar(i64, int64_t(0))),
                     b.add(indices, extent), indices);
  indices = b.unsqueeze(indices, {*axis});
  Shape shape(TensorBuilder::shapeOf(indices));
  shape[*axis] = depth->front();
  Value hit = b.compare(ComparePredicate::Eq, indices, b.iota(shape, i64, *axis));
  auto value = [&](int64_t i) { return b.reshape(b.sliceDim(node.input(2), 0, i, 1), {}); };
  return node.result(b.select(hit, value(1), value(0)));
}

/// Each row of a batch reversed up to its own length.
static LogicalResult importReverseSequence(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  FailureOr<int64_t> batch = node.axis(node.integer("batch_axis", 1), input.getRank()),
                     time = node.axis(node.integer("time_axis", 0), input.getRank());
  if (failed(batch) || failed(time) || *batch == *time ||
      node.inputType(1).getShape() != ArrayRef<int64_t>{input.getDimSize(*batch)})
    return node.error("needs different batch and time axes, and one length per batch entry");
  Type i64 = b.opBuilder().getI64Type();
  Value lengths = b.broadcast(b.cast(node.input(1), i64), input.getShape(), {*batch});
  Value position = b.iota(input.getShape(), i64, *time);
  Value mirrored = b.binary(BinaryKind::Sub, b.sub(lengths, position), 1.0);
  Value from = b.select(b.compare(ComparePredicate::Lt, position, lengths), mirrored, position);
  return node.result(b.gatherElements(node.input(0), from, *time));
}

/// Keeps the slices whose condition, known at compile time, is true.
static LogicalResult importCompress(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<SmallVector<int64_t>> condition = node.constantIntegers(1);
  if (failed(condition))
    return failure();
  FailureOr<AlongAxis> input = inputAlongAxis(node);
  if (failed(input))
    return failure();
  auto [x, along] = *input;
  SmallVector<int64_t> kept;
  for (auto [i, flag] : llvm::enumerate(*condition))
    if (flag && static_cast<int64_t>(i) < TensorBuilder::shapeOf(x)[along])
      kept.push_back(static_cast<int64_t>(i));
  return node.result(kept.empty() ? b.sliceDim(x, along, 0, 0) : b.take(x, kept, along));
}

void mlir::autopar::addIndexingOperators(OperatorTable &table) {
  table.add("Gather", {1}, {2, 2}, "axis", importGather);
  table.add("GatherElements", {11}, {2, 2}, "axis", importGatherElements);
  table.add("GatherND", {11}, {2, 2}, "batch_dims", importGatherND);
  table.add("ScatterND", {11}, {3, 3}, "reduction", importScatterND);
  table.add("ScatterElements", {11}, {3, 3}, "axis reduction", importScatterElements);
  table.add("Scatter", {9}, {3, 3}, "axis", importScatterElements);
  table.add("Slice", {1, 9}, {1, 1}, "axes ends starts", importSlice);
  table.add("Slice", {10}, {3, 5}, "", importSlice);
  table.add("Pad", {1, 10}, {1, 1}, "mode pads paddings value", importPad);
  table.add("Pad", {11}, {2, 4}, "mode", importPad);
  table.add("CenterCropPad", {18}, {2, 2}, "axes", importCenterCropPad);
  table.add("Trilu", {14}, {1, 2}, "upper", importTrilu);
  table.add("OneHot", {9}, {3, 3}, "axis", importOneHot);
  table.add("ReverseSequence", {10}, {2, 2}, "batch_axis time_axis", importReverseSequence);
  table.add("Compress", {9}, {2, 2}, "axis", importCompress);
  table.inDomain("com.microsoft");
  table.add("GatherND", {1}, {2, 2}, "", importGatherND);
  table.add("Pad", {1}, {2, 3}, "mode", importPad);
  table.add("Trilu", {1}, {1, 2}, "upper", importTrilu);
  table.inDomain("");
}
