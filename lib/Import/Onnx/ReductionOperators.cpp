// SPDX-License-Identifier: Apache-2.0
// Reductions, positions of extremes, running sums, softmax and top-k.
#include "Node.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
struct Reduction {
  Value input;
  SmallVector<int64_t> dims;
  bool keepDims;
  bool nothing = false; ///< no axes given and none meant
};
} // namespace

static FailureOr<Reduction> readReduction(Node &node) {
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "axes");
  if (failed(given))
    return failure();
  int64_t rank = node.inputType(0).getRank();
  Reduction reduction{node.input(0), {}, node.integer("keepdims", 1) != 0};
  if (*given && !(*given)->empty()) {
    FailureOr<SmallVector<int64_t>> dims = node.axes(**given, rank);
    if (failed(dims))
      return failure();
    reduction.dims = *dims;
  } else if (node.integer("noop_with_empty_axes", 0)) {
    reduction.nothing = true;
  } else {
    reduction.dims = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  }
  return reduction;
}

static Value reduce(Node &node, ReduceKind kind, Value input, const Reduction &reduction) {
  return reduction.nothing ? input : node.b.reduce(kind, input, reduction.dims, reduction.keepDims);
}

template <ReduceKind kind>
static LogicalResult importReduce(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  bool logical = TensorBuilder::elementOf(reduction->input).isInteger(1);
  ReduceKind used = !logical                  ? kind
                    : kind == ReduceKind::Max ? ReduceKind::Or
                    : kind == ReduceKind::Min ? ReduceKind::And
                                              : kind;
  return node.result(reduce(node, used, reduction->input, *reduction));
}

static LogicalResult importReduceMean(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  int64_t count = 1;
  for (int64_t dim : reduction->dims)
    count *= node.inputType(0).getDimSize(dim);
  Value sum = reduce(node, ReduceKind::Sum, reduction->input, *reduction);
  if (reduction->nothing || count == 1)
    return node.result(sum);
  return node.result(node.b.binary(BinaryKind::Div, sum, static_cast<double>(count)));
}

static LogicalResult importReduceL1(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  return failed(reduction)
             ? failure()
             : node.result(reduce(node, ReduceKind::Sum,
                                  node.b.unary(UnaryKind::Abs, reduction->input), *reduction));
}

static LogicalResult importReduceSumSquare(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  return failed(reduction)
             ? failure()
             : node.result(reduce(node, ReduceKind::Sum,
                                  node.b.mul(reduction->input, reduction->input), *reduction));
}

/// `function` of floats, by way of f64 for integers.
static Value throughFloat(TensorBuilder &b, UnaryKind function, Value x) {
  Type element = TensorBuilder::elementOf(x);
  if (isa<FloatType>(element))
    return b.unary(function, x);
  return b.cast(b.unary(function, b.cast(x, b.opBuilder().getF64Type())), element);
}

static LogicalResult importReduceL2(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Value squares =
      reduce(node, ReduceKind::Sum, node.b.mul(reduction->input, reduction->input), *reduction);
  return node.result(throughFloat(node.b, UnaryKind::Sqrt, squares));
}

static LogicalResult importReduceLogSum(Node &node) {
  FailureOr<Reduction> reduction = readReduction(node);
  return failed(reduction) ? failure()
                           : node.result(throughFloat(
                                 node.b, UnaryKind::Log,
                                 reduce(node, ReduceKind::Sum, reduction->input, *reduction)));
}

/// log(sum(exp(x))), with the largest element taken out of the sum.
static LogicalResult importReduceLogSumExp(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  Value x = reduction->input;
  Type element = TensorBuilder::elementOf(x);
  if (!isa<FloatType>(element))
    x = b.cast(x, b.opBuilder().getF64Type());
  if (reduction->nothing)
    return node.result(b.cast(x, element));
  Value largest = b.reduce(ReduceKind::Max, x, reduction->dims, /*keepDims=*/true);
  // An infinite maximum must not make inf - inf.
  double limit = std::numeric_limits<double>::infinity();
  Value isFinite = b.compare(ComparePredicate::Lt, b.unary(UnaryKind::Abs, largest),
                             b.scalar(TensorBuilder::elementOf(x), limit));
  largest = b.select(isFinite, largest, b.splatLike(largest, 0));
  Value sum = b.reduce(ReduceKind::Sum, b.unary(UnaryKind::Exp, b.sub(x, largest)), reduction->dims,
                       /*keepDims=*/true);
  Value result = b.add(b.unary(UnaryKind::Log, sum), largest);
  return node.result(
      b.cast(reduction->keepDims ? result : b.squeeze(result, reduction->dims), element));
}

template <ReduceKind kind>
static LogicalResult importArg(Node &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", 0), node.inputType(0).getRank());
  if (failed(axis))
    return failure();
  Value position =
      node.b.argReduce(kind, node.input(0), *axis, node.integer("select_last_index", 0) != 0);
  return node.result(node.integer("keepdims", 1) ? node.b.unsqueeze(position, {*axis}) : position);
}

template <ReduceKind kind>
static LogicalResult importCumulative(Node &node) {
  FailureOr<SmallVector<int64_t>> given = node.constantIntegers(1);
  if (failed(given) || given->size() != 1)
    return failed(given) ? failure() : node.inputError(1, "must be a scalar");
  FailureOr<int64_t> axis = node.axis(given->front(), node.inputType(0).getRank());
  if (failed(axis))
    return failure();
  return node.result(node.b.cumulative(kind, node.input(0), *axis,
                                       node.integer("exclusive", 0) != 0,
                                       node.integer("reverse", 0) != 0));
}

//===-- softmax ------------------------------------------------------------------------------===//

/// Calls `along` with an axis of size of all that the operator normalizes over: before version 13
/// these are all dimensions from the axis on.
static LogicalResult overRows(Node &node, llvm::function_ref<Value(Value, int64_t)> along) {
  RankedTensorType input = node.inputType(0);
  bool flattens = node.version < 13;
  int64_t given = node.integer("axis", flattens ? 1 : -1);
  if (input.getRank() == 0)
    return node.result(node.b.reshape(along(node.b.reshape(node.input(0), {1}), 0), {}));
  if (flattens && given == input.getRank()) // rows of one element
    return node.result(
        node.b.reshape(along(node.b.unsqueeze(node.input(0), {given}), given), input.getShape()));
  FailureOr<int64_t> axis = node.axis(given, input.getRank());
  if (failed(axis))
    return failure();
  if (!flattens || *axis == input.getRank() - 1)
    return node.result(along(node.input(0), *axis));
  Shape rows(input.getShape().take_front(*axis));
  rows.push_back(llvm::product_of(input.getShape().drop_front(*axis)));
  return node.result(
      node.b.reshape(along(node.b.reshape(node.input(0), rows), *axis), input.getShape()));
}

template <bool log>
static LogicalResult importSoftmax(Node &node) {
  return overRows(node, [&](Value rows, int64_t axis) { return node.b.softmax(rows, axis, log); });
}

/// One at the first largest element, zero elsewhere.
static LogicalResult importHardmax(Node &node) {
  return overRows(node, [&](Value rows, int64_t axis) {
    TensorBuilder &b = node.b;
    Value first = b.unsqueeze(b.argReduce(ReduceKind::Max, rows, axis, false), {axis});
    Value hit =
        b.compare(ComparePredicate::Eq,
                  b.iota(TensorBuilder::shapeOf(rows), b.opBuilder().getI64Type(), axis), first);
    return b.cast(hit, TensorBuilder::elementOf(rows));
  });
}

static LogicalResult importTopK(Node &node) {
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -1), node.inputType(0).getRank());
  FailureOr<std::optional<SmallVector<int64_t>>> given = node.integersFrom(1, "");
  if (failed(axis) || failed(given))
    return failure();
  int64_t k = *given ? ((*given)->size() == 1 ? (**given)[0] : -1) : node.integer("k", -1);
  if (k < 0 || k > node.inputType(0).getDimSize(*axis))
    return node.error("k must be one number from 0 to " +
                      Twine(node.inputType(0).getDimSize(*axis)));
  auto [values, indices] = node.b.topK(node.input(0), k, *axis, node.integer("largest", 1) == 0);
  node.setOutput(0, values);
  node.setOutput(1, indices);
  return success();
}

void mlir::autopar::addReductionOperators(OperatorTable &table) {
  // Axes became an input in version 18, in 13 for ReduceSum.
  auto reduction = [&](StringRef name, ImportFunction import, int64_t inputSince = 18) {
    table.add(name, {1, inputSince - 1}, {1, 1}, "axes keepdims", import);
    table.add(name, {inputSince}, {1, 2}, "keepdims noop_with_empty_axes", import);
  };
  reduction("ReduceSum", importReduce<ReduceKind::Sum>, 13);
  reduction("ReduceProd", importReduce<ReduceKind::Prod>);
  reduction("ReduceMax", importReduce<ReduceKind::Max>);
  reduction("ReduceMin", importReduce<ReduceKind::Min>);
  reduction("ReduceMean", importReduceMean);
  reduction("ReduceL1", importReduceL1);
  reduction("ReduceL2", importReduceL2);
  reduction("ReduceSumSquare", importReduceSumSquare);
  reduction("ReduceLogSum", importReduceLogSum);
  reduction("ReduceLogSumExp", importReduceLogSumExp);
  table.add("ArgMax", {1}, {1, 1}, "axis keepdims select_last_index", importArg<ReduceKind::Max>);
  table.add("ArgMin", {1}, {1, 1}, "axis keepdims select_last_index", importArg<ReduceKind::Min>);
  table.add("CumSum", {11}, {2, 2}, "exclusive reverse", importCumulative<ReduceKind::Sum>);
  table.add("CumProd", {26}, {2, 2}, "exclusive reverse", importCumulative<ReduceKind::Prod>);
  table.add("Softmax", {1}, {1, 1}, "axis", importSoftmax<false>);
  table.add("LogSoftmax", {1}, {1, 1}, "axis", importSoftmax<true>);
  table.add("Hardmax", {1}, {1, 1}, "axis", importHardmax);
  table.add("TopK", {1, 9}, {1, 1}, "axis k", importTopK);
  table.add("TopK", {10}, {2, 2}, "axis largest sorted", importTopK);
}
