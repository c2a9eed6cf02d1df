// SPDX-License-Identifier: Apache-2.0
// Small operators of onnxruntime: distances, complex products, sliding windows, checks for
// infinities, dropouts that drop nothing.
#include "Node.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

/// Distances between the rows of two matrices.
static LogicalResult importCDist(Node &node) {
  TensorBuilder &b = node.b;
  std::string metric = node.string("metric", "sqeuclidean");
  if (metric != "sqeuclidean" && metric != "euclidean")
    return node.error("attribute 'metric' must be euclidean or sqeuclidean, not '" + Twine(metric) +
                      "'");
  ArrayRef<int64_t> lhs = node.inputType(0).getShape(), rhs = node.inputType(1).getShape();
  if (lhs.size() != 2 || rhs.size() != 2 || lhs[1] != rhs[1])
    return node.error("needs matrices of as many columns, got " + printShape(lhs) + " and " +
                      printShape(rhs));
  Shape pairs{lhs[0], rhs[0], lhs[1]};
  Value difference =
      b.sub(b.broadcast(node.input(0), pairs, {0, 2}), b.broadcast(node.input(1), pairs, {1, 2}));
  Value square = b.reduce(ReduceKind::Sum, b.mul(difference, difference), {2});
  return node.result(metric == "euclidean" ? b.unary(UnaryKind::Sqrt, square) : square);
}

/// A product of complex numbers, real and imaginary part in the last dimension; with the conjugate
/// of the second one.
template <bool conjugates>
static LogicalResult importComplexMul(Node &node) {
  TensorBuilder &b = node.b;
  for (size_t i : {0, 1})
    if (node.inputType(i).getRank() < 1 || node.inputType(i).getShape().back() != 2)
      return node.inputError(i, "must have a last dimension of 2, the real and imaginary parts");
  auto part = [&](size_t i, int64_t which) {
    return b.sliceDim(node.input(i), node.inputType(i).getRank() - 1, which, 1);
  };
  auto product = [&](int64_t lhs, int64_t rhs) { return b.mul(part(0, lhs), part(1, rhs)); };
  Value real = product(0, 0), imaginary = product(0, 1);
  real = b.binary(conjugates ? BinaryKind::Add : BinaryKind::Sub, real, product(1, 1));
  imaginary = b.binary(conjugates ? BinaryKind::Sub : BinaryKind::Add, product(1, 0), imaginary);
  return node.result(b.concat({real, imaginary}, TensorBuilder::rankOf(real) - 1));
}

/// Windows of `size` positions along `dim`, `step` apart; their positions become the last
/// dimension.
static LogicalResult importUnfoldTensor(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  auto rank = static_cast<int64_t>(shape.size());
  FailureOr<int64_t> dim = node.axis(node.integer("dim", -1), rank);
  int64_t size = node.integer("size", 0), step = node.integer("step", 1);
  if (failed(dim))
    return failure();
  constexpr int64_t most = 1 << 24;
  if (size < 1 || step < 1 || size > shape[*dim] || (shape[*dim] - size) / step + 1 > most / size)
    return node.error("windows of " + Twine(size) + " positions, " + Twine(step) +
                      " apart, do not fit " + printShape(shape));
  int64_t count = (shape[*dim] - size) / step + 1;
  SmallVector<int64_t> positions;
  for (int64_t window = 0; window < count; ++window)
    for (int64_t at = 0; at < size; ++at)
      positions.push_back(window * step + at);
  Shape split(shape);
  split[*dim] = count;
  split.insert(split.begin() + *dim + 1, size);
  auto order = llvm::to_vector(llvm::seq<int64_t>(0, rank + 1));
  std::rotate(order.begin() + *dim + 1, order.begin() + *dim + 2, order.end());
  return node.result(b.transpose(b.reshape(b.take(node.input(0), positions, *dim), split), order));
}

static LogicalResult importIsAllFinite(Node &node) {
  TensorBuilder &b = node.b;
  bool infinities = !node.integer("isnan_only", 0), nans = !node.integer("isinf_only", 0);
  if (!infinities && !nans)
    return node.error("attributes 'isinf_only' and 'isnan_only' exclude each other");
  Value all;
  for (size_t i = 0; i < node.inputCount(); ++i) {
    if (!node.hasInput(i) || !TensorBuilder::isFloat(node.input(i)))
      return node.inputError(i, "must be of floats");
    Value x = node.input(i);
    auto check = [&](Value holds) {
      holds = b.reduce(ReduceKind::And, holds,
                       llvm::to_vector(llvm::seq<int64_t>(0, TensorBuilder::rankOf(holds))));
      all = all ? b.binary(BinaryKind::And, all, holds) : holds;
    };
    if (nans)
      check(b.compare(ComparePredicate::Eq, x, x));
    if (infinities)
      check(b.compare(ComparePredicate::Ne, b.unary(UnaryKind::Abs, x),
                      b.scalar(TensorBuilder::elementOf(x), HUGE_VAL)));
  }
  return node.result(all);
}

/// dropout(data + bias) + residual, or of data alone, in inference: nothing is dropped. Where the
/// mask is one of bits, it is none that the dialect has.
template <bool hasBias, bool bits>
static LogicalResult importDropout(Node &node) {
  TensorBuilder &b = node.b;
  bool training = false;
  if (size_t mode = hasBias ? 4 : 2; node.hasInput(mode)) {
    FailureOr<SmallVector<int64_t>> given = node.constantIntegers(mode);
    if (failed(given) || given->size() != 1)
      return failed(given) ? failure() : node.inputError(mode, "must be a scalar");
    training = given->front() != 0;
  }
  if (node.trains(training))
    return node.error("is imported for inference only; give the model as it was before "
                      "onnxruntime's optimizer");
  Value x = node.input(0);
  if (hasBias)
    x = b.add(x, node.input(1));
  if (hasBias && node.hasInput(2))
    x = b.add(x, node.input(2));
  if (!bits)
    node.setOutput(1, b.splat(TensorBuilder::shapeOf(x), b.opBuilder().getI1Type(), 1));
  return node.result(x);
}

void mlir::autopar::addContribTensorOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("CDist", {1}, {2, 2}, "metric", importCDist);
  table.add("ComplexMul", {1}, {2, 2}, "", importComplexMul<false>);
  table.add("ComplexMulConj", {1}, {2, 2}, "", importComplexMul<true>);
  table.add("UnfoldTensor", {1}, {1, 1}, "dim size step", importUnfoldTensor);
  table.add("IsAllFinite", {1}, {1, -1}, "isinf_only isnan_only", importIsAllFinite);
  table.add("BiasDropout", {1}, {2, 5}, "seed", importDropout<true, false>);
  table.add("BitmaskBiasDropout", {1}, {2, 5}, "seed", importDropout<true, true>);
  table.add("BitmaskDropout", {1}, {1, 3}, "seed", importDropout<false, true>);
  table.refuse("DynamicTimeWarping", "the result's shape depends on values");
  table.inDomain("");
}
