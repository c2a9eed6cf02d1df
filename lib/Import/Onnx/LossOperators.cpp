// SPDX-License-Identifier: Apache-2.0
// Losses: negative log-likelihood and softmax cross-entropy, by selecting each sample's class.
#include "Node.h"

using namespace mlir;
using namespace mlir::autopar;

/// Loss of log-probabilities [n, c, d...] for labels [n, d...], reduced as the attributes say.
static LogicalResult negativeLogLikelihood(Node &node, Value logProbabilities) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(logProbabilities);
  Shape expected(shape.take_front(1));
  llvm::append_range(expected, shape.drop_front(std::min<size_t>(2, shape.size())));
  if (shape.size() < 2 || node.inputType(1).getShape() != ArrayRef<int64_t>(expected))
    return node.error("labels " + printShape(node.inputType(1).getShape()) + " do not fit scores " +
                      printShape(shape));
  Type element = TensorBuilder::elementOf(logProbabilities), i64 = b.opBuilder().getI64Type();
  Value labels = b.cast(node.input(1), i64),
        hit = b.compare(ComparePredicate::Eq, b.iota(shape, i64, 1), b.unsqueeze(labels, {1}));
  // Labels that are an input are checked before the first step.
  hit.getDefiningOp()->setAttr("autopar.limits",
                               b.opBuilder().getDenseI64ArrayAttr({0, shape[1] - 1}));
  if (node.hasAttribute("ignore_index"))
    hit.getDefiningOp()->setAttr("autopar.exception",
                                 b.opBuilder().getI64IntegerAttr(node.integer("ignore_index", 0)));
  Value picked = b.reduce(ReduceKind::Sum,
                          b.select(hit, logProbabilities, b.splatLike(logProbabilities, 0)), {1});
  Value weight;
  if (node.hasInput(2)) {
    if (node.inputType(2).getShape() != ArrayRef<int64_t>{shape[1]})
      return node.inputError(2, "must hold one weight per class");
    Value weights = b.broadcast(node.input(2), shape, {1});
    weight = b.reduce(ReduceKind::Sum, b.select(hit, weights, b.splatLike(weights, 0)), {1});
  }
  if (node.hasAttribute("ignore_index")) {
    Value counts =
        b.compare(ComparePredicate::Ne, labels, b.scalar(i64, node.integer("ignore_index", 0)));
    weight = weight ? b.select(counts, weight, b.splatLike(weight, 0)) : b.cast(counts, element);
  }
  Value loss = b.unary(UnaryKind::Neg, picked);
  if (weight)
    loss = b.mul(loss, weight);
  std::string reduction = node.string("reduction", "mean");
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, TensorBuilder::rankOf(loss)));
  if (reduction == "none")
    return node.result(loss);
  if (reduction != "sum" && reduction != "mean")
    return node.error("attribute 'reduction' must be none, sum or mean, not '" + Twine(reduction) +
                      "'");
  Value sum = b.reduce(ReduceKind::Sum, loss, all);
  if (reduction == "sum")
    return node.result(sum);
  Value count =
      weight ? b.reduce(ReduceKind::Sum, weight, all)
             : b.scalar(element, static_cast<double>(TensorBuilder::typeOf(loss).getNumElements()));
  return node.result(b.div(sum, count));
}

static LogicalResult importNegativeLogLikelihood(Node &node) {
  return negativeLogLikelihood(node, node.input(0));
}

static LogicalResult importSoftmaxCrossEntropy(Node &node) {
  if (node.inputType(0).getRank() < 2)
    return node.inputError(0, "must have at least 2 dimensions");
  Value logProbabilities = node.b.softmax(node.input(0), 1, /*log=*/true);
  node.setOutput(1, logProbabilities);
  return negativeLogLikelihood(node, logProbabilities);
}

void mlir::autopar::addLossOperators(OperatorTable &table) {
  table.add("NegativeLogLikelihoodLoss", {12}, {2, 3}, "ignore_index reduction",
            importNegativeLogLikelihood);
  table.add("SoftmaxCrossEntropyLoss", {12}, {2, 3}, "ignore_index reduction",
            importSoftmaxCrossEntropy);
}
