// SPDX-License-Identifier: Apache-2.0
// Activations that onnxruntime's optimizers write in place of ONNX's (its contrib operators), with
// the additions around them.
#include "Activations.h"

using namespace mlir;
using namespace mlir::autopar;

/// Input 0, plus input 1 where it is given.
static Value withBias(Node &node) {
  return node.hasInput(1) ? node.b.add(node.input(0), node.input(1)) : node.input(0);
}

static LogicalResult importGelu(Node &node) {
  return node.result(node.b.unary(UnaryKind::Gelu, withBias(node)));
}

static LogicalResult importFastGelu(Node &node) {
  return node.result(node.b.unary(UnaryKind::GeluTanh, withBias(node)));
}

static LogicalResult importQuickGelu(Node &node) {
  return node.result(swish(node.b, node.input(0), node.floating("alpha", 1.702)));
}

/// The first half of the channels times the gelu of the second half.
static LogicalResult importBiasSplitGelu(Node &node) {
  TensorBuilder &b = node.b;
  Value x = withBias(node);
  int64_t last = TensorBuilder::rankOf(x) - 1;
  if (last < 0 || TensorBuilder::shapeOf(x)[last] % 2)
    return node.inputError(0, "must have an even number of channels");
  int64_t half = TensorBuilder::shapeOf(x)[last] / 2;
  return node.result(b.mul(b.sliceDim(x, last, 0, half),
                           b.unary(UnaryKind::Gelu, b.sliceDim(x, last, half, half))));
}

static LogicalResult importBiasAdd(Node &node) {
  return node.result(node.b.add(withBias(node), node.input(2)));
}

/// Input 0 plus input 1 times a gate per row.
static LogicalResult importGatedAdd(Node &node) {
  Shape gates(node.inputType(0).getShape());
  if (gates.empty() || node.inputType(1).getShape() != ArrayRef<int64_t>(gates))
    return node.inputError(1, "must be of the shape of input 0");
  gates.back() = 1;
  if (node.hasInput(3))
    return node.inputError(3, "projects gates, which onnxruntime's CPU does not do");
  if (node.inputType(2).getShape() != ArrayRef<int64_t>(gates))
    return node.inputError(2, "must be of shape " + printShape(gates));
  return node.result(node.b.add(node.input(0), node.b.mul(node.input(1), node.input(2))));
}

/// Over all dimensions from `axis` on. Both kinds of broadcast are told by the shape of the bias.
static LogicalResult importBiasSoftmax(Node &node) {
  TensorBuilder &b = node.b;
  Value x = withBias(node);
  Shape shape(TensorBuilder::shapeOf(x));
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 1), static_cast<int64_t>(shape.size()));
  if (failed(axis))
    return failure();
  Shape rows(ArrayRef<int64_t>(shape).take_front(*axis));
  rows.push_back(ShapedType::getNumElements(ArrayRef<int64_t>(shape).drop_front(*axis)));
  return node.result(b.reshape(b.softmax(b.reshape(x, rows), *axis, /*log=*/false), shape));
}

void mlir::autopar::addContribActivationOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("Gelu", {1}, {1, 1}, "", importGelu);
  table.add("BiasGelu", {1}, {2, 2}, "", importGelu);
  table.add("FastGelu", {1}, {1, 2}, "", importFastGelu);
  table.add("QuickGelu", {1}, {1, 1}, "alpha", importQuickGelu);
  table.add("BiasSplitGelu", {1}, {2, 2}, "", importBiasSplitGelu);
  table.add("BiasAdd", {1}, {3, 3}, "", importBiasAdd);
  table.add("GatedAdd", {1}, {3, 4}, "", importGatedAdd);
  table.add("BiasSoftmax", {1}, {2, 2}, "axis is_inner_broadcast", importBiasSoftmax);
  table.inDomain("");
}
