// SPDX-License-Identifier: Apache-2.0
// Normalizations that onnxruntime's optimizers and model builder write (its contrib operators):
// with what is added before, with embeddings, of images with channels first or last, with a gate.
#include "Attentions.h"
#include "Normalizations.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// What a skip normalization adds up, and where its scale and shifts are among the inputs.
struct SkipInputs {
  bool rms;
  size_t shift, bias; ///< inputs, beyond the last one where there is none
};
} // namespace

/// Of input + skip + bias over the last dimension; statistics and the sum are outputs, too.
static LogicalResult importSkip(Node &node, SkipInputs in) {
  TensorBuilder &b = node.b;
  int64_t rank = node.inputType(0).getRank();
  if (rank < 2 || rank > 3)
    return node.inputError(0, "must have 2 or 3 dimensions");
  auto given = [&](size_t i) { return node.hasInput(i) ? node.input(i) : Value(); };
  Value sum = b.add(node.input(0), node.input(1));
  if (Value bias = given(in.bias))
    sum = b.add(sum, bias);
  if (sum.getType() != node.input(0).getType())
    return node.inputError(1, "must broadcast to input 0");
  double epsilon = node.floating("epsilon", 1e-12);
  node.setOutput(
      0, normalizeRows(b, sum, {rank - 1}, epsilon, in.rms, node.input(2), given(in.shift)));
  node.setOutput(3, sum);
  if (!node.wants(1) && !node.wants(2))
    return success();
  RowStatistics made =
      rowStatistics(b, b.cast(sum, b.opBuilder().getF32Type()), {rank - 1}, epsilon, in.rms);
  if (!in.rms)
    node.setOutput(1, made.mean);
  node.setOutput(2, made.inverseDeviation);
  return success();
}

static LogicalResult importSkipLayerNormalization(Node &node) {
  return importSkip(node, {/*rms=*/false, /*shift=*/3, /*bias=*/4});
}

static LogicalResult importSkipSimplifiedLayerNormalization(Node &node) {
  return importSkip(node, {/*rms=*/true, /*shift=*/4, /*bias=*/3});
}

/// Inputs: ids, segments, their tables and that of positions (2 to 4), scale, shift, mask,
/// positions. With quantized tables, scale and shift, there are no positions but the scales of
/// inputs 2 to 6 from input 8 on, and their zero points from 13 on; what is read is dequantized.
template <bool isQuantized>
static LogicalResult importEmbedLayerNormalization(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> ids = node.inputType(0).getShape();
  if (ids.size() != 2)
    return node.inputError(0, "must be of shape [batch, tokens]");
  for (size_t i : {2, 3, 5, 6})
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
  for (size_t i = 8; isQuantized && i < 18; ++i)
    if (node.hasInput((i - 8) % 5 + 2) &&
        (!node.hasInput(i) || node.inputType(i).getNumElements() != 1))
      return node.inputError(i, "must be one number");
  bool hasPositions = !isQuantized && node.hasInput(8);
  auto real = [&](size_t i, Value numbers) {
    if (!isQuantized)
      return numbers;
    Type i32 = b.opBuilder().getI32Type();
    Value whole = b.sub(b.cast(numbers, i32), b.reshape(b.cast(node.input(i + 11), i32), {}));
    return b.mul(b.cast(whole, b.opBuilder().getF32Type()), b.reshape(node.input(i + 6), {}));
  };
  for (size_t i : {2, 3, 4})
    if (node.hasInput(i) && node.inputType(i).getRank() != 2)
      return node.inputError(i, "must be a table");
  if (node.hasInput(1) != node.hasInput(4))
    return node.error("segments and their table must be given together");
  if (!hasPositions && node.inputType(3).getDimSize(0) < ids[1])
    return node.inputError(3, "must have a row for each of " + Twine(ids[1]) + " positions");
  Value words = real(2, rowsAt(b, node.input(2), node.input(0)));
  Value positions = real(3, hasPositions ? rowsAt(b, node.input(3), node.input(8))
                                         : b.sliceDim(node.input(3), 0, 0, ids[1]));
  Value sum = b.add(words, positions);
  if (node.hasInput(1))
    sum = b.add(sum, real(4, rowsAt(b, node.input(4), node.input(1))));
  node.setOutput(0, normalizeRows(b, sum, {2}, node.floating("epsilon", 1e-12), /*rms=*/false,
                                  real(5, node.input(5)), real(6, node.input(6))));
  node.setOutput(2, sum);
  if (!node.wants(1))
    return success();
  Type i32 = b.opBuilder().getI32Type();
  node.setOutput(1, node.hasInput(7) ? b.reduce(ReduceKind::Sum, b.cast(node.input(7), i32), {1})
                                     : b.splat({ids[0]}, i32, 0));
  return success();
}

/// Of `x` in groups of channels, with SiLU behind it where the attribute says so.
static LogicalResult normalizeImage(Node &node, Value x) {
  TensorBuilder &b = node.b;
  int64_t groups = node.integer("groups", 0), activation = node.integer("activation", 0);
  bool isLast = node.integer("channels_last", 1) != 0;
  if (TensorBuilder::rankOf(x) != 4)
    return node.inputError(0, "must have 4 dimensions");
  x = isLast ? b.transpose(x, {0, 3, 1, 2}) : x;
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  if (groups < 1 || shape[1] % groups)
    return node.error("groups " + Twine(groups) + " must divide " + Twine(shape[1]) + " channels");
  if (activation < 0 || activation > 1)
    return node.error("attribute 'activation' must be 0 or 1, not " + Twine(activation));
  Type element = TensorBuilder::elementOf(x);
  Value y = b.cast(normalizeGroups(b, x, groups, node.floating("epsilon", 1e-5)),
                   node.inputType(1).getElementType());
  y = b.mul(y, b.broadcast(node.input(1), shape, {1}));
  y = b.add(y, b.broadcast(node.input(2), shape, {1}));
  if (activation)
    y = b.unary(UnaryKind::Silu, y);
  y = b.cast(y, element);
  return node.result(isLast ? b.transpose(y, {0, 2, 3, 1}) : y);
}

static LogicalResult importGroupNorm(Node &node) { return normalizeImage(node, node.input(0)); }

/// Skips are of the shape of the input, or have one number per image and channel.
static LogicalResult importSkipGroupNorm(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0), skip = node.input(3);
  SmallVector<int64_t> channel{node.integer("channels_last", 1) ? 3 : 1};
  if (TensorBuilder::rankOf(x) != 4)
    return node.inputError(0, "must have 4 dimensions");
  if (TensorBuilder::rankOf(skip) == 2)
    skip = b.broadcast(skip, TensorBuilder::shapeOf(x), {0, channel[0]});
  Value sum = b.add(x, skip);
  if (node.hasInput(4))
    sum = b.add(sum, b.broadcast(node.input(4), TensorBuilder::shapeOf(x), channel));
  if (sum.getType() != x.getType())
    return node.inputError(3, "must broadcast to input 0");
  node.setOutput(1, sum);
  return normalizeImage(node, sum);
}

/// Of each group of as many channels as there are scales, by its root mean square, times an
/// activation of the gate, in f32.
static LogicalResult importGatedRmsNorm(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  if (node.inputType(1).getRank() != 1)
    return node.inputError(1, "must have one dimension");
  int64_t size = node.inputType(1).getDimSize(0);
  if (shape.empty() || size < 1 || shape.back() % size)
    return node.inputError(0, "must have groups of " + Twine(size) + " channels");
  if (node.inputType(2).getShape() != shape)
    return node.inputError(2, "must be of shape " + printShape(shape));
  std::string activation = node.string("activation", "silu");
  if (activation != "silu" && activation != "swish" && activation != "sigmoid")
    return node.error("attribute 'activation' must be silu, swish or sigmoid, not '" + activation +
                      "'");
  Type f32 = b.opBuilder().getF32Type();
  Shape groups(shape);
  groups.back() /= size;
  groups.push_back(size);
  Value x = b.reshape(b.cast(node.input(0), f32), groups);
  Value y =
      normalizeRows(b, x, {static_cast<int64_t>(shape.size())}, node.floating("epsilon", 1e-5),
                    /*rms=*/true, b.cast(node.input(1), f32), Value());
  Value gate = b.unary(activation == "sigmoid" ? UnaryKind::Sigmoid : UnaryKind::Silu,
                       b.cast(node.input(2), f32));
  return node.result(b.cast(b.mul(b.reshape(y, shape), gate), node.inputType(0).getElementType()));
}

void mlir::autopar::addContribNormalizationOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("SkipLayerNormalization", {1}, {3, 5}, "epsilon", importSkipLayerNormalization);
  table.add("SkipSimplifiedLayerNormalization", {1}, {3, 4}, "epsilon",
            importSkipSimplifiedLayerNormalization);
  table.add("EmbedLayerNormalization", {1}, {1, 9}, "epsilon mask_index_type",
            importEmbedLayerNormalization<false>);
  table.add("QEmbedLayerNormalization", {1}, {1, 18}, "epsilon",
            importEmbedLayerNormalization<true>);
  table.add("GroupNorm", {1}, {3, 3}, "activation channels_last epsilon groups", importGroupNorm);
  table.add("SkipGroupNorm", {1}, {4, 5}, "activation channels_last epsilon groups",
            importSkipGroupNorm);
  table.add("GatedRMSNorm", {1}, {3, 3}, "activation epsilon", importGatedRmsNorm);
  table.inDomain("");
}
