// SPDX-License-Identifier: Apache-2.0
// If, Loop and Scan: decided and unrolled during import. Values are pure, so an If whose condition
// is known only at run time computes both branches and selects.
#include "Node.h"

#include "llvm/Support/SaveAndRestore.h"

#include <limits>
#include <set>

using namespace mlir;
using namespace mlir::autopar;

static constexpr int64_t mostIterations = 1 << 16;
using Values = SmallVector<ImportedValue>;

/// A known boolean scalar; nothing if it is known only at run time.
static std::optional<bool> knownCondition(TensorBuilder &b, const ImportedValue &value) {
  if (value.kind != ImportedValue::Tensor)
    return std::nullopt;
  std::optional<SmallVector<int64_t>> known = b.integersOf(value.tensor);
  return known && known->size() == 1 ? std::optional(known->front() != 0) : std::nullopt;
}

static LogicalResult importIf(Node &node) {
  TensorBuilder &b = node.b;
  if (node.anyInput(0).kind != ImportedValue::Tensor || node.inputType(0).getNumElements() != 1)
    return node.inputError(0, "must be one boolean");
  std::optional<bool> condition = knownCondition(b, node.anyInput(0));
  llvm::SaveAndRestore advice(b.advice);
  if (!condition)
    b.advice =
        "; a branch of the If here is chosen when the program runs, so both are compiled: if "
        "an input that always has one value chooses, say which with --fix-input NAME=NUMBER";
  FailureOr<Values> onTrue, onFalse;
  if (condition.value_or(true) && failed(onTrue = node.subgraph("then_branch", {}, "then")))
    return failure();
  if (!condition.value_or(false) && failed(onFalse = node.subgraph("else_branch", {}, "else")))
    return failure();
  size_t count = succeeded(onTrue) ? onTrue->size() : onFalse->size();
  for (size_t i = 0; i < count; ++i) {
    if (condition) {
      node.setOutput(i, *condition ? (*onTrue)[i] : (*onFalse)[i]);
      continue;
    }
    if (i >= onFalse->size() || (*onTrue)[i].kind != ImportedValue::Tensor ||
        (*onFalse)[i].kind != ImportedValue::Tensor ||
        (*onTrue)[i].tensor.getType() != (*onFalse)[i].tensor.getType())
      return node.unknownInput(0, ": the branches yield different shapes or types");
    node.setOutput(
        i, b.select(b.reshape(node.input(0), {}), (*onTrue)[i].tensor, (*onFalse)[i].tensor));
  }
  return success();
}

/// Stacks what the iterations yielded; the shapes of none come from `example`.
static FailureOr<Value> stack(Node &node, ArrayRef<Value> parts, Value example, int64_t axis) {
  TensorBuilder &b = node.b;
  if (parts.empty()) {
    Shape shape(TensorBuilder::shapeOf(example));
    shape.insert(shape.begin() + axis, 0);
    return b.splat(shape, TensorBuilder::elementOf(example), 0);
  }
  SmallVector<Value> rows;
  for (Value part : parts)
    rows.push_back(b.unsqueeze(part, {axis}));
  return b.concat(rows, axis);
}

namespace {

/// A loop, unrolled: values carried from one iteration to the next, and what every iteration yields
/// besides, collected row by row.
class UnrolledLoop {
public:
  explicit UnrolledLoop(Node &node) : node(node), b(node.b) {}

  LogicalResult import() {
    return success(succeeded(readHeader()) && succeeded(unroll()) && succeeded(setOutputs()));
  }

private:
  /// How often it runs at most, and what it starts with.
  LogicalResult readHeader() {
    if (node.hasInput(0)) {
      FailureOr<SmallVector<int64_t>> given = node.constantIntegers(0);
      if (failed(given) || given->size() != 1)
        return failed(given) ? failure() : node.inputError(0, "must be a scalar");
      trips = given->front();
    }
    if (node.inputCount() > 1 && node.hasInput(1)) {
      std::optional<bool> first = knownCondition(b, node.anyInput(1));
      if (!first)
        return node.unknownInput(1, ": loops are unrolled");
      goesOn = *first;
    }
    carried = Values(node.anyInputs().drop_front(std::min<size_t>(2, node.inputCount())));
    if (node.subgraphInputCount("body") != carried.size() + 2 ||
        node.subgraphOutputCount("body") < carried.size() + 1)
      return node.error("body does not fit " + Twine(carried.size()) + " loop-carried values");
    collected.resize(node.subgraphOutputCount("body") - 1 - carried.size());
    return success();
  }

  LogicalResult unroll() {
    for (; goesOn && iteration < trips; ++iteration) {
      if (iteration >= mostIterations)
        return node.error("runs more than " + Twine(mostIterations) +
                          " iterations, too many to unroll");
      FailureOr<Values> results = runBody();
      if (failed(results))
        return failure();
      std::optional<bool> next = knownCondition(b, results->front());
      if (!next)
        return node.error("its condition depends on run-time values: loops are unrolled");
      goesOn = *next;
      if (failed(collect(*results)))
        return failure();
      carried = Values(ArrayRef(*results).slice(1, carried.size()));
    }
    return success();
  }

  FailureOr<Values> runBody() {
    OpBuilder &types = b.opBuilder();
    Values arguments{ImportedValue(b.scalar(types.getI64Type(), iteration)),
                     ImportedValue(b.scalar(types.getI1Type(), int64_t{1}))};
    llvm::append_range(arguments, carried);
    return node.subgraph("body", arguments, Twine(iteration));
  }

  LogicalResult collect(ArrayRef<ImportedValue> results) {
    for (auto [rows, row] : llvm::zip_equal(collected, results.drop_front(1 + carried.size()))) {
      if (row.kind != ImportedValue::Tensor)
        return node.error("collects values that are no tensors");
      rows.push_back(row.tensor);
    }
    return success();
  }

  LogicalResult setOutputs() {
    bool isEmpty = iteration == 0 && !collected.empty();
    if (isEmpty) { // only for the shapes of its results; the operations are dead
      FailureOr<Values> results = runBody();
      if (failed(results) || failed(collect(*results)))
        return failure();
    }
    for (auto [k, value] : llvm::enumerate(carried))
      node.setOutput(k, value);
    for (auto [k, rows] : llvm::enumerate(collected)) {
      FailureOr<Value> stacked =
          isEmpty ? stack(node, {}, rows.front(), 0) : stack(node, rows, {}, 0);
      if (failed(stacked))
        return failure();
      node.setOutput(carried.size() + k, *stacked);
    }
    return success();
  }

  Node &node;
  TensorBuilder &b;
  int64_t trips = std::numeric_limits<int64_t>::max(), iteration = 0;
  bool goesOn = true;
  Values carried;
  std::vector<SmallVector<Value>> collected; ///< by output
};

} // namespace

static LogicalResult importLoop(Node &node) { return UnrolledLoop(node).import(); }

//===-- scan ---------------------------------------------------------------------------------===//

namespace {
struct ScanLayout {
  size_t states, inputs, outputs;
  SmallVector<int64_t> inputAxes, inputReversed, outputAxes, outputReversed;
};
} // namespace

static FailureOr<ScanLayout> scanLayout(Node &node, size_t operands) {
  ScanLayout layout;
  int64_t inputs = node.integer("num_scan_inputs", 0);
  if (inputs < 1 || inputs > static_cast<int64_t>(operands))
    return node.error("attribute 'num_scan_inputs' must be from 1 to " + Twine(operands));
  layout.inputs = inputs, layout.states = operands - inputs;
  if (node.subgraphInputCount("body") != operands ||
      node.subgraphOutputCount("body") < layout.states)
    return node.error("body does not fit " + Twine(operands) + " inputs");
  layout.outputs = node.subgraphOutputCount("body") - layout.states;
  auto list = [&](StringRef name, size_t count) {
    SmallVector<int64_t> values = node.integers(name).value_or(SmallVector<int64_t>(count, 0));
    if (values.size() != count)
      (void)node.error("attribute '" + name + "' must have " + Twine(count) + " entries");
    values.resize(count);
    return values;
  };
  layout.inputAxes = list("scan_input_axes", layout.inputs);
  layout.inputReversed =
      list(node.hasAttribute("directions") ? "directions" : "scan_input_directions", layout.inputs);
  layout.outputAxes = list("scan_output_axes", layout.outputs);
  layout.outputReversed = list("scan_output_directions", layout.outputs);
  return node.b.failed() ? FailureOr<ScanLayout>(failure()) : layout;
}

/// Runs the body along the scan axes; the result has the final states, then the stacked outputs.
static FailureOr<Values> runScan(Node &node, const ScanLayout &layout, ArrayRef<Value> operands,
                                 const Twine &suffix) {
  TensorBuilder &b = node.b;
  Values states;
  for (size_t i = 0; i < layout.states; ++i)
    states.push_back(operands[i]);
  SmallVector<int64_t> axes;
  int64_t length = -1;
  for (size_t i = 0; i < layout.inputs; ++i) {
    Value input = operands[layout.states + i];
    FailureOr<int64_t> axis = node.axis(layout.inputAxes[i], TensorBuilder::rankOf(input));
    if (failed(axis))
      return failure();
    axes.push_back(*axis);
    int64_t extent = TensorBuilder::shapeOf(input)[*axis];
    if ((length >= 0 && extent != length) || extent > mostIterations || extent == 0)
      return node.error("scanned extents differ, are empty or too many to unroll");
    length = extent;
  }
  std::vector<SmallVector<Value>> collected(layout.outputs);
  std::string prefix = suffix.str();
  for (int64_t step = 0; step < length; ++step) {
    Values arguments(states);
    for (size_t i = 0; i < layout.inputs; ++i) {
      int64_t at = layout.inputReversed[i] ? length - 1 - step : step;
      arguments.push_back(
          b.squeeze(b.sliceDim(operands[layout.states + i], axes[i], at, 1), {axes[i]}));
    }
    FailureOr<Values> results = node.subgraph("body", arguments, prefix + Twine(step));
    if (failed(results))
      return failure();
    states.assign(results->begin(), results->begin() + static_cast<ptrdiff_t>(layout.states));
    for (size_t k = 0; k < layout.outputs; ++k) {
      const ImportedValue &row = (*results)[layout.states + k];
      if (row.kind != ImportedValue::Tensor)
        return node.error("collects values that are no tensors");
      auto &rows = collected[k];
      rows.insert(layout.outputReversed[k] ? rows.begin() : rows.end(), row.tensor);
    }
  }
  for (size_t k = 0; k < layout.outputs; ++k) {
    FailureOr<int64_t> axis =
        node.axis(layout.outputAxes[k], TensorBuilder::rankOf(collected[k].front()) + 1);
    if (failed(axis))
      return failure();
    FailureOr<Value> rows = stack(node, collected[k], Value(), *axis);
    if (failed(rows))
      return failure();
    states.push_back(*rows);
  }
  return states;
}

static LogicalResult importScan(Node &node) {
  SmallVector<Value> operands;
  for (size_t i = 0; i < node.inputCount(); ++i)
    operands.push_back(node.input(i));
  if (llvm::is_contained(operands, Value()))
    return node.error("an input is missing");
  FailureOr<ScanLayout> layout = scanLayout(node, operands.size());
  if (failed(layout))
    return failure();
  FailureOr<Values> results = runScan(node, *layout, operands, "");
  if (failed(results))
    return failure();
  for (auto [i, value] : llvm::enumerate(*results))
    node.setOutput(i, value);
  return success();
}

/// Version 8 had a batch dimension in front of everything, and a length per batch entry.
static LogicalResult importBatchedScan(Node &node) {
  TensorBuilder &b = node.b;
  if (node.hasInput(0))
    return node.inputError(0,
                           "is not supported: sequences of different lengths have no static shape");
  SmallVector<Value> operands;
  for (size_t i = 1; i < node.inputCount(); ++i)
    operands.push_back(node.input(i));
  if (operands.empty() || llvm::is_contained(operands, Value()) ||
      llvm::any_of(operands, [](Value v) { return TensorBuilder::rankOf(v) == 0; }))
    return node.error("an input is missing or has no batch dimension");
  FailureOr<ScanLayout> layout = scanLayout(node, operands.size());
  if (failed(layout))
    return failure();
  int64_t batch = TensorBuilder::shapeOf(operands.front())[0];
  if (batch < 1 || batch > mostIterations ||
      llvm::any_of(operands, [&](Value v) { return TensorBuilder::shapeOf(v)[0] != batch; }))
    return node.error("batch extents differ or are too many to unroll");
  std::vector<SmallVector<Value>> results(layout->states + layout->outputs);
  for (int64_t entry = 0; entry < batch; ++entry) {
    SmallVector<Value> slices;
    for (Value operand : operands)
      slices.push_back(b.squeeze(b.sliceDim(operand, 0, entry, 1), {0}));
    FailureOr<Values> values = runScan(node, *layout, slices, Twine(entry) + "/");
    if (failed(values))
      return failure();
    for (size_t i = 0; i < results.size(); ++i)
      results[i].push_back(b.unsqueeze((*values)[i].tensor, {0}));
  }
  for (auto [i, rows] : llvm::enumerate(results))
    node.setOutput(i, b.concat(rows, 0));
  return success();
}

void mlir::autopar::addControlFlowOperators(OperatorTable &table) {
  table.addAnyValue("If", {1}, {1, 1}, "then_branch else_branch", importIf);
  table.addAnyValue("Loop", {1}, {0, -1}, "body", importLoop);
  table.add("Scan", {8, 8}, {0, -1}, "body directions num_scan_inputs", importBatchedScan);
  table.add("Scan", {9}, {1, -1},
            "body num_scan_inputs scan_input_axes scan_input_directions scan_output_axes "
            "scan_output_directions",
            importScan);
}
