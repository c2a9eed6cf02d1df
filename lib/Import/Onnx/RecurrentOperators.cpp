// SPDX-License-Identifier: Apache-2.0
// RNN, GRU and LSTM, unrolled over the sequence; the products with the inputs are one for all
// steps.
#include "Activations.h"
#include "Quantization.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// Weights [out, in] of floats, or of whole numbers that a scale makes floats of, one number or one
/// per row.
struct Weights {
  Value matrix, scale = {};
};

/// What the three operators have in common.
struct Recurrent {
  Node &node;
  int64_t gates;           ///< rows of W and R per hidden unit
  int64_t activationCount; ///< per direction
  int64_t steps = 0, batch = 0, hidden = 0, directions = 1;
  bool batchFirst = false, reverseOnly = false;
  Value input = {};   ///< [steps, batch, in]
  Value lengths = {}; ///< [batch, 1] i64, or null
  SmallVector<std::string> activations = {};
  std::optional<SmallVector<double>> alphas = std::nullopt, betas = std::nullopt;
  double clip = 0;
  /// Weights of inputs 1 and 2 are whole numbers, [directions, in, out], each with a scale and a
  /// zero point per direction, or per direction and row, in inputs 8 to 11.
  bool isQuantized = false;

  LogicalResult read(StringRef firstActivation);
  Value activate(int64_t direction, int64_t which, Value x, bool clips = true);
  Value clipped(Value x);
  /// Entry `direction` of an input stacked by direction.
  Value ofDirection(size_t i, int64_t direction) {
    return node.b.squeeze(node.b.sliceDim(node.input(i), 0, direction, 1), {0});
  }
  /// Initial state from input `i`, or zeros: [batch, hidden].
  Value initialState(size_t i, int64_t direction);
  /// Rows [gate * hidden, (gate + 1) * hidden) of a weight, or of a vector.
  Value gateOf(Value stacked, int64_t gate) {
    return node.b.sliceDim(stacked, 0, gate * hidden, hidden);
  }
  /// Columns of one gate in [batch, gates * hidden].
  Value gateColumns(Value x, int64_t gate) { return node.b.sliceDim(x, 1, gate * hidden, hidden); }
  /// x [.., in] times the transpose of weights [out, in].
  Value project(Value x, Value weights) {
    return node.b.dot(x, weights, {}, {}, {TensorBuilder::rankOf(x) - 1}, {1});
  }
  Weights weightsOf(size_t i, int64_t direction);
  Value project(Value x, const Weights &weights);
  LogicalResult finish(ArrayRef<SmallVector<Value>> outputs, ArrayRef<Value> lastHidden,
                       ArrayRef<Value> lastCell);
};

/// State of one step: hidden and, for LSTM, cell.
struct State {
  Value hidden, cell;
};
} // namespace

LogicalResult Recurrent::read(StringRef firstActivation) {
  TensorBuilder &b = node.b;
  constexpr int64_t mostSteps = 8192;
  if (node.inputType(0).getRank() != 3 || node.inputType(1).getRank() != 3 ||
      node.inputType(2).getRank() != 3)
    return node.error("X, W and R must have 3 dimensions");
  std::string direction = node.string("direction", "forward");
  if (direction != "forward" && direction != "reverse" && direction != "bidirectional")
    return node.error("attribute 'direction' must be forward, reverse or bidirectional, not '" +
                      Twine(direction) + "'");
  directions = direction == "bidirectional" ? 2 : 1;
  reverseOnly = direction == "reverse";
  batchFirst = node.integer("layout", 0) != 0;
  input = batchFirst ? b.transpose(node.input(0), {1, 0, 2}) : node.input(0);
  steps = TensorBuilder::shapeOf(input)[0], batch = TensorBuilder::shapeOf(input)[1];
  hidden = node.inputType(2).getDimSize(isQuantized ? 1 : 2);
  int64_t in = TensorBuilder::shapeOf(input)[2];
  auto isOf = [&](size_t i, int64_t columns) {
    Shape expected{directions, gates * hidden, columns};
    if (isQuantized)
      std::swap(expected[1], expected[2]);
    return node.inputType(i).getShape() == ArrayRef<int64_t>(expected);
  };
  if (node.integer("hidden_size", hidden) != hidden || hidden > (int64_t(1) << 40) ||
      !isOf(1, in) || !isOf(2, hidden))
    return node.error("W " + printShape(node.inputType(1).getShape()) + " and R " +
                      printShape(node.inputType(2).getShape()) + " do not fit input " +
                      printShape(node.inputType(0).getShape()));
  if (node.hasInput(3) &&
      node.inputType(3).getShape() != ArrayRef<int64_t>{directions, 2 * gates * hidden})
    return node.inputError(3, "must be of shape " + printShape({directions, 2 * gates * hidden}));
  if (steps < 1 || steps > mostSteps)
    return node.error("sequence of " + Twine(steps) + " steps cannot be unrolled (1 to " +
                      Twine(mostSteps) + ")");
  if (node.hasInput(4)) {
    if (node.inputType(4).getShape() != ArrayRef<int64_t>{batch})
      return node.inputError(4, "must hold one length per batch entry");
    lengths = b.unsqueeze(b.cast(node.input(4), b.opBuilder().getI64Type()), {1});
  }
  clip = node.floating("clip", 0);
  alphas = node.floats("activation_alpha"), betas = node.floats("activation_beta");
  for (int64_t i = 0; i < directions; ++i) {
    activations.push_back(firstActivation.str());
    activations.append(activationCount - 1, "Tanh");
  }
  if (auto given = node.strings("activations"))
    activations = *given;
  if (static_cast<int64_t>(activations.size()) != directions * activationCount)
    return node.error("attribute 'activations' must have " + Twine(directions * activationCount) +
                      " entries");
  return success();
}

Value Recurrent::initialState(size_t i, int64_t direction) {
  TensorBuilder &b = node.b;
  if (!node.hasInput(i))
    return b.splat({batch, hidden}, TensorBuilder::elementOf(input), 0);
  Shape expected = batchFirst ? Shape{batch, directions, hidden} : Shape{directions, batch, hidden};
  if (node.inputType(i).getShape() != ArrayRef<int64_t>(expected)) {
    (void)node.inputError(i, "must be of shape " + printShape(expected));
    return b.splat({batch, hidden}, TensorBuilder::elementOf(input), 0);
  }
  int64_t along = batchFirst ? 1 : 0;
  return b.squeeze(b.sliceDim(node.input(i), along, direction, 1), {along});
}

Value Recurrent::clipped(Value x) {
  if (clip <= 0)
    return x;
  return node.b.binary(BinaryKind::Min, node.b.binary(BinaryKind::Max, x, -clip), clip);
}

Value Recurrent::activate(int64_t direction, int64_t which, Value x, bool clips) {
  size_t at = direction * activationCount + which;
  auto parameter = [&](const std::optional<SmallVector<double>> &list) {
    return list && at < list->size() ? std::optional((*list)[at]) : std::nullopt;
  };
  std::optional<Value> y = activation(node.b, activations[at], clips ? clipped(x) : x,
                                      parameter(alphas), parameter(betas));
  if (!y)
    (void)node.error("activation '" + Twine(activations[at]) + "' is unknown");
  return y.value_or(x);
}

Weights Recurrent::weightsOf(size_t i, int64_t direction) {
  TensorBuilder &b = node.b;
  if (!isQuantized)
    return {ofDirection(i, direction)};
  Value matrix = b.transpose(ofDirection(i, direction), {1, 0});
  size_t scaleInput = 6 + 2 * i;
  auto perRow = [&](size_t input) {
    ArrayRef<int64_t> shape = node.inputType(input).getShape();
    if (shape.size() < 1 || shape.size() > 2 || shape[0] != directions ||
        (shape.size() == 2 && shape[1] != gates * hidden)) {
      (void)node.inputError(input, "must be of shape " + printShape({directions}) + " or " +
                                       printShape({directions, gates * hidden}));
      return b.splat({}, TensorBuilder::elementOf(node.input(input)), 0);
    }
    return ofDirection(input, direction);
  };
  Type i32 = b.opBuilder().getI32Type();
  Value zero = b.cast(perRow(scaleInput + 1), i32);
  if (TensorBuilder::rankOf(zero) == 1)
    zero = b.broadcast(zero, TensorBuilder::shapeOf(matrix), {0});
  return {b.sub(b.cast(matrix, i32), zero), perRow(scaleInput)};
}

/// x [.., in] times the transpose of the weights. Where these are whole numbers, x is quantized by
/// the range of its values.
Value Recurrent::project(Value x, const Weights &weights) {
  if (!weights.scale)
    return project(x, weights.matrix);
  TensorBuilder &b = node.b;
  auto [numbers, scale, zeroPoint] = quantizeDynamically(b, x);
  Type i32 = b.opBuilder().getI32Type();
  Value product = project(b.sub(b.cast(numbers, i32), b.cast(zeroPoint, i32)), weights.matrix);
  return b.mul(b.cast(product, b.opBuilder().getF32Type()), b.mul(weights.scale, scale));
}

LogicalResult Recurrent::finish(ArrayRef<SmallVector<Value>> outputs, ArrayRef<Value> lastHidden,
                                ArrayRef<Value> lastCell) {
  TensorBuilder &b = node.b;
  // [steps, directions, batch, hidden], or [batch, steps, directions, hidden].
  SmallVector<Value> perDirection;
  for (ArrayRef<Value> rows : outputs) {
    SmallVector<Value> stacked;
    for (Value row : rows)
      stacked.push_back(b.unsqueeze(row, {0, 1}));
    perDirection.push_back(b.concat(stacked, 0));
  }
  Value all = b.concat(perDirection, 1);
  node.setOutput(0, batchFirst ? b.transpose(all, {2, 0, 1, 3}) : all);
  auto last = [&](ArrayRef<Value> states) {
    SmallVector<Value> stacked;
    int64_t along = batchFirst ? 1 : 0;
    for (Value state : states)
      stacked.push_back(b.unsqueeze(state, {along}));
    return b.concat(stacked, along);
  };
  node.setOutput(1, last(lastHidden));
  if (!lastCell.empty())
    node.setOutput(2, last(lastCell));
  return success();
}

/// Unrolls: `prepare` makes the step function of a direction.
template <typename Prepare>
static LogicalResult unroll(Recurrent &net, bool hasCell, size_t cellInput, Prepare prepare) {
  TensorBuilder &b = net.node.b;
  std::vector<SmallVector<Value>> outputs(net.directions);
  SmallVector<Value> lastHidden, lastCell;
  Type i64 = b.opBuilder().getI64Type();
  for (int64_t direction = 0; direction < net.directions; ++direction) {
    auto step = prepare(direction);
    State state{net.initialState(5, direction),
                hasCell ? net.initialState(cellInput, direction) : Value()};
    outputs[direction].resize(net.steps);
    bool backward = net.reverseOnly || direction == 1;
    for (int64_t i = 0; i < net.steps && !b.failed(); ++i) {
      int64_t t = backward ? net.steps - 1 - i : i;
      State next = step(t, state);
      Value output = next.hidden;
      if (net.lengths) { // shorter sequences keep their state and yield zeros
        Value inside = b.broadcast(b.compare(ComparePredicate::Gt, net.lengths, b.scalar(i64, t)),
                                   {net.batch, net.hidden}, {0, 1});
        output = b.select(inside, next.hidden, b.splatLike(next.hidden, 0));
        next.hidden = b.select(inside, next.hidden, state.hidden);
        if (hasCell)
          next.cell = b.select(inside, next.cell, state.cell);
      }
      outputs[direction][t] = output;
      state = next;
    }
    if (b.failed())
      return failure();
    lastHidden.push_back(state.hidden);
    if (hasCell)
      lastCell.push_back(state.cell);
  }
  return net.finish(outputs, lastHidden, lastCell);
}

static LogicalResult importRnn(Node &node) {
  TensorBuilder &b = node.b;
  Recurrent net{node, /*gates=*/1, /*activationCount=*/1};
  if (failed(net.read("Tanh")))
    return failure();
  return unroll(net, /*hasCell=*/false, 0, [&](int64_t direction) {
    Value fromInput = net.project(net.input, net.ofDirection(1, direction)),
          recurrence = net.ofDirection(2, direction);
    if (node.hasInput(3)) {
      Value bias = net.ofDirection(3, direction);
      fromInput = b.add(fromInput, b.add(net.gateOf(bias, 0), net.gateOf(bias, 1)));
    }
    return [&net, &b, fromInput, recurrence, direction](int64_t t, State state) {
      Value x = b.squeeze(b.sliceDim(fromInput, 0, t, 1), {0});
      return State{net.activate(direction, 0, b.add(x, net.project(state.hidden, recurrence))), {}};
    };
  });
}

/// Gates in the order update (z), reset (r), hidden (h).
static LogicalResult importGru(Node &node) {
  TensorBuilder &b = node.b;
  Recurrent net{node, /*gates=*/3, /*activationCount=*/2};
  if (failed(net.read("Sigmoid")))
    return failure();
  bool linearBeforeReset = node.integer("linear_before_reset", 0) != 0;
  return unroll(net, /*hasCell=*/false, 0, [&](int64_t direction) {
    Value fromInput = net.project(net.input, net.ofDirection(1, direction)),
          recurrence = net.ofDirection(2, direction);
    Value hiddenBias;
    if (node.hasInput(3)) {
      Value bias = net.ofDirection(3, direction);
      hiddenBias = net.gateOf(bias, 5);
      Value inputBias = b.sliceDim(bias, 0, 0, 3 * net.hidden);
      fromInput = b.add(fromInput, inputBias);
    }
    Value gateRecurrence = b.sliceDim(recurrence, 0, 0, 2 * net.hidden),
          hiddenRecurrence = net.gateOf(recurrence, 2);
    Value gateBias = node.hasInput(3) ? b.sliceDim(net.ofDirection(3, direction), 0, 3 * net.hidden,
                                                   2 * net.hidden)
                                      : Value();
    return [&net, &b, fromInput, gateRecurrence, hiddenRecurrence, gateBias, hiddenBias, direction,
            linearBeforeReset](int64_t t, State state) {
      Value x = b.squeeze(b.sliceDim(fromInput, 0, t, 1), {0});
      Value gates = net.project(state.hidden, gateRecurrence);
      if (gateBias)
        gates = b.add(gates, gateBias);
      gates = b.add(gates, b.sliceDim(x, 1, 0, 2 * net.hidden));
      Value update = net.activate(direction, 0, net.gateColumns(gates, 0)),
            reset = net.activate(direction, 0, net.gateColumns(gates, 1));
      Value inner = net.project(linearBeforeReset ? state.hidden : b.mul(reset, state.hidden),
                                hiddenRecurrence);
      if (hiddenBias)
        inner = b.add(inner, hiddenBias);
      if (linearBeforeReset)
        inner = b.mul(reset, inner);
      Value candidate = net.activate(direction, 1, b.add(net.gateColumns(x, 2), inner));
      // (1 - z) * candidate + z * state
      return State{b.add(candidate, b.mul(update, b.sub(state.hidden, candidate))), {}};
    };
  });
}

/// Gates in the order input (i), output (o), forget (f), cell (c).
template <bool isQuantized>
static LogicalResult importLstm(Node &node) {
  TensorBuilder &b = node.b;
  Recurrent net{node, /*gates=*/4, /*activationCount=*/3};
  net.isQuantized = isQuantized;
  for (size_t i = 8; isQuantized && i < 12; ++i)
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
  if (failed(net.read("Sigmoid")))
    return failure();
  if (node.hasInput(7) &&
      node.inputType(7).getShape() != ArrayRef<int64_t>{net.directions, 3 * net.hidden})
    return node.inputError(7, "must be of shape " + printShape({net.directions, 3 * net.hidden}));
  bool coupled = node.integer("input_forget", 0) != 0;
  return unroll(net, /*hasCell=*/true, 6, [&](int64_t direction) {
    Value fromInput = net.project(net.input, net.weightsOf(1, direction));
    Weights recurrence = net.weightsOf(2, direction);
    if (node.hasInput(3)) {
      Value bias = net.ofDirection(3, direction);
      fromInput = b.add(fromInput, b.add(b.sliceDim(bias, 0, 0, 4 * net.hidden),
                                         b.sliceDim(bias, 0, 4 * net.hidden, 4 * net.hidden)));
    }
    Value peepholes = node.hasInput(7) ? net.ofDirection(7, direction) : Value();
    return
        [&net, &b, fromInput, recurrence, peepholes, direction, coupled](int64_t t, State state) {
          Value gates = b.add(b.squeeze(b.sliceDim(fromInput, 0, t, 1), {0}),
                              net.project(state.hidden, recurrence));
          auto gate = [&](int64_t which, Value cell) {
            Value x = net.gateColumns(gates, which);
            return peepholes && which < 3 ? b.add(x, b.mul(net.gateOf(peepholes, which), cell)) : x;
          };
          Value in = net.activate(direction, 0, gate(0, state.cell));
          Value forget = coupled ? b.sub(b.splatLike(in, 1), in)
                                 : net.activate(direction, 0, gate(2, state.cell));
          Value candidate = net.activate(direction, 1, gate(3, state.cell));
          Value cell = b.add(b.mul(forget, state.cell), b.mul(in, candidate));
          Value out = net.activate(direction, 0, gate(1, cell));
          // ONNX clips what any activation takes, onnxruntime what the gates' take.
          return State{b.mul(out, net.activate(direction, 2, cell, !isQuantized)), cell};
        };
  });
}

void mlir::autopar::addRecurrentOperators(OperatorTable &table) {
  table.add("RNN", {7}, {3, 6},
            "activation_alpha activation_beta activations clip direction hidden_size layout",
            importRnn);
  table.add("GRU", {7}, {3, 6},
            "activation_alpha activation_beta activations clip direction hidden_size layout "
            "linear_before_reset",
            importGru);
  table.add(
      "LSTM", {7}, {3, 8},
      "activation_alpha activation_beta activations clip direction hidden_size input_forget layout",
      importLstm<false>);
  table.inDomain("com.microsoft");
  table.add("DynamicQuantizeLSTM", {1}, {3, 12},
            "activation_alpha activation_beta activations clip direction hidden_size input_forget",
            importLstm<true>);
  table.inDomain("");
}
