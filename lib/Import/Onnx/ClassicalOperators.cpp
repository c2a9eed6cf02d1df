// SPDX-License-Identifier: Apache-2.0
// The operators of domain ai.onnx.ml that are arithmetic on tensors; trees, vector machines, maps
// and strings are refused.
#include "Node.h"

using namespace mlir;
using namespace mlir::autopar;

/// Results are f32 whatever the numbers that go in.
static Value asFloat(Node &node, size_t i) {
  return node.b.cast(node.input(i), node.b.opBuilder().getF32Type());
}

/// A list attribute of one number, or one per feature (the last dimension of `x`), as a tensor that
/// broadcasts to x.
static FailureOr<Value> perFeature(Node &node, Value x, StringRef attribute, double otherwise) {
  SmallVector<double> values = node.floats(attribute).value_or(SmallVector<double>{otherwise});
  int64_t features = TensorBuilder::rankOf(x) ? TensorBuilder::shapeOf(x).back() : 1;
  if (values.size() != 1 && static_cast<int64_t>(values.size()) != features)
    return node.error("attribute '" + attribute + "' must hold 1 or " + Twine(features) +
                      " numbers");
  if (values.size() == 1)
    return node.b.scalar(TensorBuilder::elementOf(x), values.front());
  return node.b.floats(values, {features}, TensorBuilder::elementOf(x));
}

static LogicalResult importScaler(Node &node) {
  Value x = asFloat(node, 0);
  FailureOr<Value> offset = perFeature(node, x, "offset", 0),
                   scale = perFeature(node, x, "scale", 1);
  if (failed(offset) || failed(scale))
    return failure();
  return node.result(node.b.mul(node.b.sub(x, *offset), *scale));
}

static LogicalResult importBinarizer(Node &node) {
  Value x = node.input(0);
  Value above =
      node.b.compare(ComparePredicate::Gt, x,
                     node.b.scalar(TensorBuilder::elementOf(x), node.floating("threshold", 0)));
  return node.result(node.b.cast(above, TensorBuilder::elementOf(x)));
}

static LogicalResult importNormalizer(Node &node) {
  TensorBuilder &b = node.b;
  Value x = asFloat(node, 0), norm;
  int64_t last = TensorBuilder::rankOf(x) - 1;
  std::string kind = node.string("norm", "MAX");
  if (last < 0)
    return node.inputError(0, "must have at least 1 dimension");
  if (kind == "MAX")
    norm = b.reduce(ReduceKind::Max, x, {last}, /*keepDims=*/true);
  else if (kind == "L1")
    norm = b.reduce(ReduceKind::Sum, b.unary(UnaryKind::Abs, x), {last}, /*keepDims=*/true);
  else if (kind == "L2")
    norm =
        b.unary(UnaryKind::Sqrt, b.reduce(ReduceKind::Sum, b.mul(x, x), {last}, /*keepDims=*/true));
  else
    return node.error("attribute 'norm' must be MAX, L1 or L2, not '" + Twine(kind) + "'");
  Value isZero =
      b.compare(ComparePredicate::Eq, norm, b.scalar(TensorBuilder::elementOf(norm), 0.0));
  return node.result(b.div(x, b.select(isZero, b.splatLike(norm, 1), norm)));
}

static LogicalResult importLinearRegressor(Node &node) {
  TensorBuilder &b = node.b;
  Value x = asFloat(node, 0);
  auto weights = node.floats("coefficients");
  int64_t targets = node.integer("targets", 1),
          features = TensorBuilder::rankOf(x) == 2 ? TensorBuilder::shapeOf(x)[1] : -1;
  if (!weights || features < 1 || targets < 1 ||
      static_cast<int64_t>(weights->size()) / targets != features ||
      static_cast<int64_t>(weights->size()) % targets)
    return node.error("needs an input [n, features] and targets x features coefficients");
  if (std::string post = node.string("post_transform", "NONE"); post != "NONE")
    return node.error("attribute 'post_transform' = '" + Twine(post) + "' is not supported");
  Value y = b.dot(x, b.floats(*weights, {targets, features}, TensorBuilder::elementOf(x)), {}, {},
                  {1}, {1});
  FailureOr<Value> offset = perFeature(node, y, "intercepts", 0);
  return failed(offset) ? failure() : node.result(b.add(y, *offset));
}

static LogicalResult importArrayFeatureExtractor(Node &node) {
  TensorBuilder &b = node.b;
  int64_t last = node.inputType(0).getRank() - 1;
  if (last < 0)
    return node.inputError(0, "must have at least 1 dimension");
  Value indices = b.reshape(b.cast(node.input(1), b.opBuilder().getI64Type()),
                            {node.inputType(1).getNumElements(), 1});
  Value y = b.gather(node.input(0), indices, {last}, 0);
  return node.result(last == 0 ? b.unsqueeze(y, {0}) : y);
}

static LogicalResult importFeatureVectorizer(Node &node) {
  SmallVector<Value> columns;
  for (size_t i = 0; i < node.inputCount(); ++i) {
    if (!node.hasInput(i) || node.inputType(i).getRank() != 2)
      return node.inputError(i, "must be of shape [n, features]");
    columns.push_back(asFloat(node, i));
  }
  if (auto sizes = node.integers("inputdimensions"); sizes && sizes->size() != columns.size())
    return node.error("attribute 'inputdimensions' must have one entry per input");
  return node.result(node.b.concat(columns, 1));
}

void mlir::autopar::addClassicalOperators(OperatorTable &table) {
  table.inDomain("ai.onnx.ml");
  table.add("Scaler", {1}, {1, 1}, "offset scale", importScaler);
  table.add("Binarizer", {1}, {1, 1}, "threshold", importBinarizer);
  table.add("Normalizer", {1}, {1, 1}, "norm", importNormalizer);
  table.add("LinearRegressor", {1}, {1, 1}, "coefficients intercepts post_transform targets",
            importLinearRegressor);
  table.add("ArrayFeatureExtractor", {1}, {2, 2}, "", importArrayFeatureExtractor);
  table.add("FeatureVectorizer", {1}, {1, -1}, "inputdimensions", importFeatureVectorizer);
  for (StringRef name : {"TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor",
                         "SVMClassifier", "SVMRegressor"})
    table.refuse(name, "decides sample by sample, which is no tensor operation");
  for (StringRef name : {"CastMap", "CategoryMapper", "DictVectorizer", "LabelEncoder",
                         "LinearClassifier", "OneHotEncoder", "ZipMap", "Imputer"})
    table.refuse(name, "works on maps, strings or labels, which have no type in the dialect");
  table.inDomain("");
}
