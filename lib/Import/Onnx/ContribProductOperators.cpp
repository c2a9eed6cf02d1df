// SPDX-License-Identifier: Apache-2.0
// Products and convolutions that onnxruntime's optimizer fused with what surrounds them: transposed
// operands, a bias, a residual, an activation, channels behind.
#include "Activations.h"
#include "Contractions.h"
#include "Convolutions.h"
#include "NumberArithmetic.h"
#include "Poolings.h"

using namespace mlir;
using namespace mlir::autopar;

/// The activation that attribute `activation` names, of `x`; `x` itself where there is none.
static FailureOr<Value> activated(Node &node, Value x, std::optional<double> alpha,
                                  std::optional<double> beta) {
  std::string name = node.string("activation", "");
  if (name.empty())
    return x;
  if (name == "Clip") {
    if (!alpha || !beta)
      return node.error("activation 'Clip' needs two activation_params");
    return clamp(node.b, x, *alpha, *beta);
  }
  std::optional<Value> y = activation(node.b, name, x, alpha, beta);
  if (!y)
    return node.error("activation '" + Twine(name) + "' is unknown");
  return *y;
}

/// With the parameters of the attributes activation_alpha and activation_beta.
static LogicalResult activatedResult(Node &node, Value x) {
  auto given = [&](StringRef name) {
    return node.hasAttribute(name) ? std::optional(node.floating(name, 0)) : std::nullopt;
  };
  FailureOr<Value> y = activated(node, x, given("activation_alpha"), given("activation_beta"));
  return failed(y) ? failure() : node.result(*y);
}

//===-- products -----------------------------------------------------------------------------===//

/// An operand as matrixProduct takes it. `rowsFirst`: the dimension in front of the last one stands
/// before the batch dimensions.
static Value operand(TensorBuilder &b, Value x, bool transposes, bool rowsFirst) {
  int64_t rank = TensorBuilder::rankOf(x);
  if (rank < 2)
    return x;
  auto order = llvm::to_vector(llvm::seq(rank));
  if (rowsFirst)
    std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  if (transposes)
    std::swap(order[rank - 2], order[rank - 1]);
  return b.transpose(x, order);
}

static LogicalResult importFusedMatMul(Node &node) {
  TensorBuilder &b = node.b;
  auto side = [&](size_t i, StringRef transposes, StringRef rowsFirst) {
    return operand(b, node.input(i), node.integer(transposes, 0) != 0,
                   node.integer(rowsFirst, 0) != 0);
  };
  Value y = matrixProduct(node, side(0, "transA", "transBatchA"), side(1, "transB", "transBatchB"));
  return activatedResult(node, scaled(b, y, node.floating("alpha", 1), 0));
}

static LogicalResult importFusedGemm(Node &node) {
  FailureOr<Value> y = gemm(node);
  return failed(y) ? failure() : activatedResult(node, *y);
}

static LogicalResult importGemmFastGelu(Node &node) {
  Value y = matrixProduct(node, node.input(0), node.input(1));
  if (node.hasInput(2))
    y = node.b.add(y, node.input(2));
  return node.result(node.b.unary(UnaryKind::GeluTanh, y));
}

//===-- convolutions -------------------------------------------------------------------------===//

/// activation(convolution + bias + residual)
template <bool channelsLast>
static LogicalResult importFusedConv(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0);
  FailureOr<Value> y = convolve(node, channelsLast ? channelsFirst(b, x) : x, node.input(1));
  if (failed(y))
    return failure();
  if (node.hasInput(2))
    y = addChannelBias(b, *y, node.input(2));
  if (node.hasInput(3))
    y = b.add(*y, channelsLast ? channelsFirst(b, node.input(3)) : node.input(3));
  SmallVector<double> parameters = node.floats("activation_params").value_or(SmallVector<double>());
  auto parameter = [&](size_t i) {
    return i < parameters.size() ? std::optional(parameters[i]) : std::nullopt;
  };
  y = activated(node, *y, parameter(0), parameter(1));
  if (failed(y))
    return failure();
  return node.result(channelsLast ? channelsToEnd(b, *y) : *y);
}

static LogicalResult importNhwcMaxPool(Node &node) {
  FailureOr<Value> y = maxPool(node, channelsFirst(node.b, node.input(0)));
  return failed(y) ? failure() : node.result(channelsToEnd(node.b, *y));
}

void mlir::autopar::addContribProductOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("FusedMatMul", {1}, {2, 2}, "alpha transA transB transBatchA transBatchB",
            importFusedMatMul);
  table.add("TransposeMatMul", {1}, {2, 2}, "alpha transA transB", importFusedMatMul);
  table.add("FusedMatMulActivation", {1}, {2, 2},
            "activation activation_alpha activation_beta alpha transA transB transBatchA "
            "transBatchB",
            importFusedMatMul);
  table.add("FusedGemm", {1}, {2, 3},
            "activation activation_alpha activation_beta alpha beta transA transB",
            importFusedGemm);
  table.add("GemmFastGelu", {1}, {2, 3}, "", importGemmFastGelu);
  const StringRef fused = "activation activation_params auto_pad dilations group kernel_shape pads "
                          "strides";
  table.add("FusedConv", {1}, {2, 4}, fused, importFusedConv<false>);
  table.add("NhwcFusedConv", {1}, {2, 4}, fused, importFusedConv<true>);
  table.add("NhwcConv", {1}, {2, 3}, "auto_pad dilations group kernel_shape pads strides",
            importFusedConv<true>);
  table.add("NhwcMaxPool", {1}, {1, 1}, "auto_pad ceil_mode dilations kernel_shape pads strides",
            importNhwcMaxPool);
  table.inDomain("");
}
