// SPDX-License-Identifier: Apache-2.0
// Optimizer steps of domain ai.onnx.preview.training, as the arithmetic that defines them. Their
// inputs are the rate, the step number, then parameters, gradients and states, each for all tensors
// in turn.
#include "Node.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// One optimizer node: `perTensor` inputs for each tensor, the first its value, the second its
/// gradient.
struct Optimizer {
  Node &node;
  size_t perTensor;
  size_t tensors = 0;
  Value rate = {}, step = {};

  LogicalResult read() {
    TensorBuilder &b = node.b;
    size_t count = node.inputCount() - 2;
    tensors = count / perTensor;
    if (count % perTensor || tensors == 0)
      return node.error("needs " + Twine(perTensor) + " inputs per tensor after rate and step");
    for (size_t i = 0; i < node.inputCount(); ++i)
      if (!node.hasInput(i) ||
          (i >= 2 && node.inputType(i) != node.inputType(2 + (i - 2) % tensors)) ||
          (i >= 2 && !TensorBuilder::isFloat(node.input(i))))
        return node.inputError(i, "must be floats of its tensor's shape");
    if (node.inputType(0).getNumElements() != 1 || node.inputType(1).getNumElements() != 1)
      return node.error("rate and step must be scalars");
    rate = b.reshape(node.input(0), {});
    step = b.reshape(node.input(1), {});
    return success();
  }
  Value of(size_t which, size_t tensor) { return node.input(2 + which * tensors + tensor); }
  void setResult(size_t which, size_t tensor, Value value) {
    node.setOutput(which * tensors + tensor, value);
  }
  Value scaled(Value x, double factor) {
    return factor == 1 ? x : node.b.binary(BinaryKind::Mul, x, factor);
  }
  /// The gradient with that of the L2 penalty.
  Value gradient(size_t tensor) {
    double norm = node.floating("norm_coefficient", 0);
    return norm == 0 ? of(1, tensor) : node.b.add(of(1, tensor), scaled(of(0, tensor), norm));
  }
  Value asElementOf(Value scalar, Value like) {
    return node.b.cast(scalar, TensorBuilder::elementOf(like));
  }
  Value isLater() {
    return node.b.compare(ComparePredicate::Gt, step,
                          node.b.scalar(TensorBuilder::elementOf(step), 0.0));
  }
};
} // namespace

static LogicalResult importAdagrad(Node &node) {
  TensorBuilder &b = node.b;
  Optimizer optimizer{node, /*perTensor=*/3};
  if (failed(optimizer.read()))
    return failure();
  Value wideStep = b.cast(optimizer.step, TensorBuilder::elementOf(optimizer.rate));
  Value rate = b.div(
      optimizer.rate,
      b.binary(BinaryKind::Add, optimizer.scaled(wideStep, node.floating("decay_factor", 0)), 1.0));
  for (size_t i = 0; i < optimizer.tensors; ++i) {
    Value x = optimizer.of(0, i), gradient = optimizer.gradient(i);
    Value squares = b.add(optimizer.of(2, i), b.mul(gradient, gradient));
    Value adapted = b.div(gradient, b.binary(BinaryKind::Add, b.unary(UnaryKind::Sqrt, squares),
                                             node.floating("epsilon", 1e-6)));
    optimizer.setResult(0, i, b.sub(x, b.mul(adapted, optimizer.asElementOf(rate, x))));
    optimizer.setResult(1, i, squares);
  }
  return success();
}

static LogicalResult importMomentum(Node &node) {
  TensorBuilder &b = node.b;
  Optimizer optimizer{node, /*perTensor=*/3};
  std::string mode = node.string("mode", "standard");
  if (failed(optimizer.read()))
    return failure();
  if (mode != "standard" && mode != "nesterov")
    return node.error("attribute 'mode' must be standard or nesterov, not '" + Twine(mode) + "'");
  double alpha = node.floating("alpha", 0), beta = node.floating("beta", 1);
  for (size_t i = 0; i < optimizer.tensors; ++i) {
    Value x = optimizer.of(0, i), gradient = optimizer.gradient(i);
    Type element = TensorBuilder::elementOf(x);
    Value weight = b.select(optimizer.isLater(), b.scalar(element, beta), b.scalar(element, 1.0));
    Value velocity = b.add(optimizer.scaled(optimizer.of(2, i), alpha), b.mul(gradient, weight));
    Value direction =
        mode == "standard" ? velocity : b.add(gradient, optimizer.scaled(velocity, alpha));
    optimizer.setResult(0, i, b.sub(x, b.mul(direction, optimizer.asElementOf(optimizer.rate, x))));
    optimizer.setResult(1, i, velocity);
  }
  return success();
}

static LogicalResult importAdam(Node &node) {
  TensorBuilder &b = node.b;
  Optimizer optimizer{node, /*perTensor=*/4};
  if (failed(optimizer.read()))
    return failure();
  double alpha = node.floating("alpha", 0.9), beta = node.floating("beta", 0.999);
  Type wide = TensorBuilder::elementOf(optimizer.rate);
  Value step = b.cast(optimizer.step, wide), one = b.scalar(wide, 1.0);
  auto remaining = [&](double decay) {
    return b.sub(one, b.binary(BinaryKind::Pow, b.scalar(wide, decay), step));
  };
  Value corrected =
      b.div(b.mul(optimizer.rate, b.unary(UnaryKind::Sqrt, remaining(beta))), remaining(alpha));
  Value rate = b.select(optimizer.isLater(), corrected, optimizer.rate);
  for (size_t i = 0; i < optimizer.tensors; ++i) {
    Value x = optimizer.of(0, i), gradient = optimizer.gradient(i);
    Value mean =
        b.add(optimizer.scaled(optimizer.of(2, i), alpha), optimizer.scaled(gradient, 1 - alpha));
    Value squares = b.add(optimizer.scaled(optimizer.of(3, i), beta),
                          optimizer.scaled(b.mul(gradient, gradient), 1 - beta));
    Value root = b.binary(BinaryKind::Add, b.unary(UnaryKind::Sqrt, squares),
                          node.floating("epsilon", 1e-6));
    Value updated = b.sub(x, b.mul(b.div(mean, root), optimizer.asElementOf(rate, x)));
    optimizer.setResult(0, i,
                        optimizer.scaled(updated, 1 - node.floating("norm_coefficient_post", 0)));
    optimizer.setResult(1, i, mean);
    optimizer.setResult(2, i, squares);
  }
  return success();
}

void mlir::autopar::addTrainingOperators(OperatorTable &table) {
  table.inDomain("ai.onnx.preview.training");
  table.add("Adagrad", {1}, {5, -1}, "decay_factor epsilon norm_coefficient", importAdagrad);
  table.add("Momentum", {1}, {5, -1}, "alpha beta mode norm_coefficient", importMomentum);
  table.add("Adam", {1}, {6, -1}, "alpha beta epsilon norm_coefficient norm_coefficient_post",
            importAdam);
  table.inDomain("");
}
