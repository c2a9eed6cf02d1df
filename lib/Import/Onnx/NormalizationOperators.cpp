// SPDX-License-Identifier: Apache-2.0
// Normalizations over rows, channels and groups, as `normalize` with scale and bias behind it.
#include "Normalizations.h"

using namespace mlir;
using namespace mlir::autopar;

SmallVector<int64_t> mlir::autopar::dimsFrom(int64_t axis, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(axis, rank));
}

Value mlir::autopar::normalizeRows(TensorBuilder &b, Value x, ArrayRef<int64_t> dims,
                                   double epsilon, bool rms, Value scale, Value bias) {
  Value y = b.cast(b.normalize(x, dims, epsilon, rms), TensorBuilder::elementOf(scale));
  y = b.mul(y, scale);
  return bias ? b.add(y, bias) : y;
}

RowStatistics mlir::autopar::rowStatistics(TensorBuilder &b, Value x, ArrayRef<int64_t> dims,
                                           double epsilon, bool rms) {
  double count = 1;
  for (int64_t dim : dims)
    count *= static_cast<double>(TensorBuilder::shapeOf(x)[dim]);
  auto meanOf = [&](Value value) {
    return b.binary(BinaryKind::Div, b.reduce(ReduceKind::Sum, value, dims, /*keepDims=*/true),
                    count);
  };
  RowStatistics made;
  if (!rms) {
    made.mean = meanOf(x);
    x = b.sub(x, made.mean);
  }
  made.inverseDeviation =
      b.unary(UnaryKind::Rsqrt, b.binary(BinaryKind::Add, meanOf(b.mul(x, x)), epsilon));
  return made;
}

/// The type in which statistics are computed: f32 unless the input is wider or `stash_type` says
/// otherwise.
static FailureOr<Type> stashType(Node &node) {
  Type element = node.inputType(0).getElementType();
  if (!isa<FloatType>(element))
    return node.inputError(0, "must be of floats");
  FailureOr<Type> stash = node.elementType("stash_type", node.b.opBuilder().getF32Type());
  if (failed(stash))
    return failure();
  return element.isF64() ? element : *stash;
}

/// The first output; the statistics follow where they are wanted.
static LogicalResult importRowNormalization(Node &node, bool rms) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), input.getRank());
  FailureOr<Type> stash = stashType(node);
  if (failed(axis) || failed(stash))
    return failure();
  SmallVector<int64_t> dims = dimsFrom(*axis, input.getRank());
  double epsilon = node.floating("epsilon", 1e-5);
  node.setOutput(0, normalizeRows(b, node.input(0), dims, epsilon, rms, node.input(1),
                                  node.hasInput(2) ? node.input(2) : Value()));
  if (!node.wants(1) && !node.wants(2))
    return success();
  RowStatistics made = rowStatistics(b, b.cast(node.input(0), *stash), dims, epsilon, rms);
  if (!rms)
    node.setOutput(1, made.mean);
  node.setOutput(rms ? 1 : 2, made.inverseDeviation);
  return success();
}

static LogicalResult importLayerNormalization(Node &node) {
  return importRowNormalization(node, /*rms=*/false);
}

static LogicalResult importRmsNormalization(Node &node) {
  return importRowNormalization(node, /*rms=*/true);
}

/// A vector of one number per channel, over [n, c, ...].
static Value perChannel(TensorBuilder &b, Value vector, ArrayRef<int64_t> shape) {
  return b.broadcast(vector, shape, {1});
}

Value mlir::autopar::normalizeGroups(TensorBuilder &b, Value x, int64_t groups, double epsilon) {
  ArrayRef<int64_t> input = TensorBuilder::shapeOf(x);
  Shape shape{input[0], groups, input[1] / groups};
  llvm::append_range(shape, input.drop_front(2));
  SmallVector<int64_t> dims = dimsFrom(2, static_cast<int64_t>(shape.size()));
  return b.reshape(b.normalize(b.reshape(x, shape), dims, epsilon, /*rms=*/false), input);
}

static LogicalResult importInstanceNormalization(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  if (input.getRank() < 3)
    return node.inputError(0, "must have at least 3 dimensions");
  Value y = b.normalize(node.input(0), dimsFrom(2, input.getRank()), node.floating("epsilon", 1e-5),
                        /*rms=*/false);
  y = b.mul(y, perChannel(b, node.input(1), input.getShape()));
  return node.result(b.add(y, perChannel(b, node.input(2), input.getShape())));
}

static LogicalResult importGroupNormalization(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  int64_t groups = node.integer("num_groups", 0);
  if (input.getRank() < 2 || groups < 1 || input.getDimSize(1) % groups)
    return node.error("num_groups " + Twine(groups) + " must divide the channels of input " +
                      printShape(input.getShape()));
  Value y = normalizeGroups(b, node.input(0), groups, node.floating("epsilon", 1e-5));
  // Before version 21, scale and bias had one number per group.
  auto affine = [&](Value vector) {
    if (TensorBuilder::rankOf(vector) == 1 && TensorBuilder::shapeOf(vector)[0] == groups &&
        groups != input.getDimSize(1))
      vector = b.reshape(b.broadcast(vector, {groups, input.getDimSize(1) / groups}, {0}),
                         {input.getDimSize(1)});
    return perChannel(b, vector, input.getShape());
  };
  return node.result(b.add(b.mul(y, affine(node.input(1))), affine(node.input(2))));
}

namespace {
struct ChannelStatistics {
  Value mean, variance;
};
} // namespace

/// Over batch and positions.
static ChannelStatistics channelStatistics(TensorBuilder &b, Value x) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  SmallVector<int64_t> dims{0};
  double count = static_cast<double>(shape[0]);
  for (size_t dim = 2; dim < shape.size(); ++dim) {
    dims.push_back(static_cast<int64_t>(dim));
    count *= static_cast<double>(shape[dim]);
  }
  Value mean = b.binary(BinaryKind::Div, b.reduce(ReduceKind::Sum, x, dims), count);
  Value centered = b.sub(x, b.broadcast(mean, shape, {1}));
  Value variance =
      b.binary(BinaryKind::Div, b.reduce(ReduceKind::Sum, b.mul(centered, centered), dims), count);
  return {mean, variance};
}

namespace {
/// What both modes of BatchNormalization share.
struct BatchNormalization {
  Node &node;
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  Type element = node.inputType(0).getElementType(),
       wide = element.isF64() ? element : Type(b.opBuilder().getF32Type());

  Value widened(size_t i) { return b.cast(node.input(i), wide); }
  Value factor(Value variance) {
    return b.mul(widened(1), b.unary(UnaryKind::Rsqrt, b.binary(BinaryKind::Add, variance,
                                                                node.floating("epsilon", 1e-5))));
  }
  void setResult(Value y) { node.setOutput(0, b.cast(y, element)); }

  /// By the statistics that are given: x * a + c, with vectors a and c.
  void infer() {
    Value a = factor(widened(4)), c = b.sub(widened(2), b.mul(widened(3), a));
    setResult(b.add(b.mul(widened(0), perChannel(b, a, shape)), perChannel(b, c, shape)));
    // Older exporters name the training outputs of an inference node.
    for (size_t i = 1; i < 5; ++i)
      node.setOutput(i, node.input(i % 2 ? 3 : 4));
  }

  /// By the statistics of the batch, from which the running ones follow; an evaluation takes those.
  void train() {
    auto [mean, variance] = channelStatistics(b, widened(0));
    Value middle = node.unlessEvaluated(mean, widened(3)),
          spread = node.unlessEvaluated(variance, widened(4));
    Value centered = b.sub(widened(0), perChannel(b, middle, shape));
    setResult(b.add(b.mul(centered, perChannel(b, factor(spread), shape)),
                    perChannel(b, widened(2), shape)));
    double momentum = node.floating("momentum", 0.9);
    for (auto [input, current] : {std::pair<size_t, Value>(3, mean), {4, variance}}) {
      Value running = b.cast(node.state(input), wide);
      Value next = b.add(b.binary(BinaryKind::Mul, running, momentum),
                         b.binary(BinaryKind::Mul, current, 1 - momentum));
      Type element = node.inputType(input).getElementType();
      next = b.cast(next, element);
      node.setOutput(input - 2, next);
      node.setOutput(input, b.cast(current, element)); // of operator sets below 14
      node.updateState(input, next);
    }
  }
};
} // namespace

/// Operator sets below 14 tell training by its outputs. From 7 on they are taken at their word
/// where the model is trained: older exporters name these outputs for inference too.
static bool wasExportedForTraining(Node &node) {
  if (node.version >= 14)
    return node.integer("training_mode", 0) != 0;
  return node.outputCount() > 1 &&
         (node.version < 7 ? !node.integer("is_test", 0) : node.isOfTraining());
}

static LogicalResult importBatchNormalization(Node &node) {
  RankedTensorType input = node.inputType(0);
  if (input.getRank() < 2)
    return node.inputError(0, "must have at least 2 dimensions");
  if (node.integer("spatial", 1) == 0)
    return node.error("attribute 'spatial' = 0 is not supported");
  for (size_t i = 1; i < 5; ++i)
    if (node.inputType(i).getShape() != ArrayRef<int64_t>{input.getDimSize(1)})
      return node.inputError(i, "must hold one number per channel (" + Twine(input.getDimSize(1)) +
                                    ")");
  BatchNormalization norm{node};
  if (node.trains(wasExportedForTraining(node)))
    norm.train();
  else
    norm.infer();
  return success();
}

static LogicalResult importLpNormalization(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.inputType(0).getRank());
  int64_t p = node.integer("p", 2);
  if (failed(axis) || (p != 1 && p != 2))
    return failed(axis) ? failure() : node.error("attribute 'p' must be 1 or 2");
  Value x = node.input(0);
  Value terms = p == 1 ? b.unary(UnaryKind::Abs, x) : b.mul(x, x);
  Value norm = b.reduce(ReduceKind::Sum, terms, {*axis}, /*keepDims=*/true);
  norm = p == 1 ? norm : b.unary(UnaryKind::Sqrt, norm);
  // Rows of zeros stay zero.
  Value isZero =
      b.compare(ComparePredicate::Eq, norm, b.scalar(TensorBuilder::elementOf(norm), 0.0));
  return node.result(b.div(x, b.select(isZero, b.splatLike(norm, 1), norm)));
}

static LogicalResult importMeanVarianceNormalization(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  if (!isa<FloatType>(input.getElementType()))
    return node.inputError(0, "must be of floats");
  SmallVector<int64_t> given{0, 2, 3};
  if (auto axes = node.integers("axes"))
    given = *axes;
  FailureOr<SmallVector<int64_t>> dims = node.axes(given, input.getRank());
  if (failed(dims))
    return failure();
  double count = 1;
  for (int64_t dim : *dims)
    count *= static_cast<double>(input.getDimSize(dim));
  auto meanOf = [&](Value x) {
    return b.binary(BinaryKind::Div, b.reduce(ReduceKind::Sum, x, *dims, /*keepDims=*/true), count);
  };
  Value centered = b.sub(node.input(0), meanOf(node.input(0)));
  Value deviation = b.unary(UnaryKind::Sqrt, meanOf(b.mul(centered, centered)));
  return node.result(b.div(centered, b.binary(BinaryKind::Add, deviation, 1e-9)));
}

/// x / (bias + alpha / size * sum of squares over neighbouring channels) ^ beta.
static LogicalResult importLocalResponseNormalization(Node &node) {
  TensorBuilder &b = node.b;
  RankedTensorType input = node.inputType(0);
  int64_t size = node.integer("size", 0), rank = input.getRank();
  if (rank < 2 || size < 1 || size > (1 << 20))
    return node.error("needs a positive size and an input of at least 2 dimensions");
  Window window{Shape(rank, 1), Shape(rank, 1), Shape(rank, 0), Shape(rank, 0), Shape(rank, 1)};
  window.size[1] = size;
  window.padBegin[1] = (size - 1) / 2;
  window.padEnd[1] = size / 2;
  Value sum = b.pool(ReduceKind::Sum, b.mul(node.input(0), node.input(0)), window);
  double alpha = node.floating("alpha", 1e-4) / static_cast<double>(size);
  Value base =
      b.binary(BinaryKind::Add, b.binary(BinaryKind::Mul, sum, alpha), node.floating("bias", 1));
  return node.result(
      b.div(node.input(0), b.binary(BinaryKind::Pow, base, node.floating("beta", 0.75))));
}

void mlir::autopar::addNormalizationOperators(OperatorTable &table) {
  // onnxruntime's optimizers write it below version 17, too.
  table.add("LayerNormalization", {1}, {2, 3}, "axis epsilon stash_type", importLayerNormalization);
  table.add("RMSNormalization", {23}, {2, 2}, "axis epsilon stash_type", importRmsNormalization);
  table.add("InstanceNormalization", {1}, {3, 3}, "epsilon consumed_inputs",
            importInstanceNormalization);
  table.add("GroupNormalization", {18}, {3, 3}, "epsilon num_groups stash_type",
            importGroupNormalization);
  table.add("BatchNormalization", {1}, {5, 5},
            "consumed_inputs epsilon is_test momentum spatial training_mode",
            importBatchNormalization);
  table.add("LpNormalization", {1}, {1, 1}, "axis p", importLpNormalization);
  table.add("MeanVarianceNormalization", {9}, {1, 1}, "axes", importMeanVarianceNormalization);
  // onnxruntime's own, although its optimizers write it without a domain.
  for (StringRef domain : {"", "com.microsoft"}) {
    table.inDomain(domain);
    table.add("SimplifiedLayerNormalization", {1}, {2, 2}, "axis epsilon stash_type",
              importRmsNormalization);
  }
  table.inDomain("");
  table.add("LRN", {1}, {1, 1}, "alpha beta bias size", importLocalResponseNormalization);
}
