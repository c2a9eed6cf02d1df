// SPDX-License-Identifier: Apache-2.0
// onnxruntime's operators for layers that carry a state of fixed size from token to token instead
// of a cache of all of them: linear attention by several rules, its gates, and the convolution in
// front of it. Sequences are unrolled.
#include "ContribAttentions.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// S <- decay * S + k (x) d, and o = scale * q S, for each head with a state [key, value] channels.
/// What is added is d = v, or by the delta rule beta * (v - k S), what differs from what the state
/// holds already (Yang et al. 2024, "Gated Delta Networks", equation 10).
class LinearAttention {
public:
  explicit LinearAttention(Node &node) : node(node), b(node.b), f32(b.opBuilder().getF32Type()) {}

  LogicalResult import() {
    if (failed(readRule()) || failed(readShapes()))
      return failure();
    Shape held{batch, heads, keySize, valueSize};
    if (node.hasInput(3) && node.inputType(3).getShape() != ArrayRef<int64_t>(held))
      return node.inputError(3, "must be of shape " + printShape(held));
    Value state = node.hasInput(3) ? b.cast(node.input(3), f32) : b.splat(held, f32, 0);
    Value key = ofEachHead(1, keySize), value = ofEachHead(2, valueSize), decay, beta;
    if (decays)
      decay = b.unary(UnaryKind::Exp, split(4, heads));
    if (isDelta)
      beta = split(5, TensorBuilder::shapeOf(node.input(5))[2]);
    Value query = queries <= heads ? ofEachHead(0, keySize) : split(0, queries);
    int64_t readers = queries <= heads ? 1 : queries / heads;
    query = b.reshape(query, {batch, steps, heads, readers, keySize});
    double scale = node.floating("scale", 0);
    scale = scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(keySize));

    SmallVector<Value> outputs;
    for (int64_t step = 0; step < steps; ++step) {
      auto now = [&](Value x) { return b.squeeze(b.sliceDim(x, 1, step, 1), {1}); };
      Value k = b.unsqueeze(now(key), {3}), added = now(value);
      if (decays)
        state = b.mul(state, b.unsqueeze(now(decay), {3}));
      if (isDelta) {
        Value recalled = b.reduce(ReduceKind::Sum, b.mul(state, k), {2});
        added = b.mul(b.sub(added, recalled), now(beta));
      }
      state = b.add(state, b.mul(k, b.unsqueeze(added, {2})));
      Value read = b.mul(b.unsqueeze(state, {2}), b.unsqueeze(now(query), {4}));
      read = b.binary(BinaryKind::Mul, b.reduce(ReduceKind::Sum, read, {3}), scale);
      outputs.push_back(b.reshape(read, {batch, 1, heads * readers * valueSize}));
    }
    Type element = node.inputType(0).getElementType();
    node.setOutput(1,
                   b.cast(state, node.hasInput(3) ? node.inputType(3).getElementType() : element));
    return node.result(b.cast(steps == 1 ? outputs[0] : b.concat(outputs, 1), element));
  }

private:
  LogicalResult readRule() {
    if (failed(refuseAttribute(node, "state_window", 0)))
      return failure();
    std::string rule = node.string("update_rule", "gated_delta");
    if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
      return node.error("attribute 'update_rule' must be linear, gated, delta or gated_delta, "
                        "not '" +
                        rule + "'");
    decays = rule == "gated" || rule == "gated_delta";
    isDelta = rule == "delta" || rule == "gated_delta";
    for (auto [i, isNeeded] : {std::pair<size_t, bool>{4, decays}, {5, isDelta}})
      if (isNeeded && !node.hasInput(i))
        return node.inputError(i, "is missing, which update rule '" + Twine(rule) + "' needs");
    return success();
  }

  LogicalResult readShapes() {
    constexpr int64_t mostSteps = 8192;
    queries = node.integer("q_num_heads", 0), heads = node.integer("kv_num_heads", 0);
    if (queries < 1 || heads < 1 || (queries % heads && heads % queries))
      return node.error("q_num_heads " + Twine(queries) + " and kv_num_heads " + Twine(heads) +
                        " must be positive, and one divide the other");
    ArrayRef<int64_t> query = node.inputType(0).getShape();
    if (query.size() != 3 || query[2] % queries)
      return node.inputError(0, "must be of shape [batch, tokens, " + Twine(queries) +
                                    " heads of channels]");
    batch = query[0], steps = query[1], keySize = query[2] / queries;
    if (steps < 1 || steps > mostSteps)
      return node.error("sequence of " + Twine(steps) + " steps cannot be unrolled (1 to " +
                        Twine(mostSteps) + ")");
    auto isSequence = [&](size_t i) {
      ArrayRef<int64_t> shape = node.inputType(i).getShape();
      return shape.size() == 3 && shape[0] == batch && shape[1] == steps;
    };
    auto channels = [&](size_t i) { return node.inputType(i).getDimSize(2); };
    if (!isSequence(1) || keySize < 1 || channels(1) < 1 || channels(1) % keySize ||
        heads % (channels(1) / keySize))
      return node.inputError(1, "must be of shape [" + Twine(batch) + ", " + Twine(steps) +
                                    ", heads of " + Twine(keySize) + " channels that divide " +
                                    Twine(heads) + "]");
    if (!isSequence(2) || channels(2) % heads)
      return node.inputError(2, "must be of shape [" + Twine(batch) + ", " + Twine(steps) + ", " +
                                    Twine(heads) + " heads of channels]");
    valueSize = channels(2) / heads;
    if (decays && (!isSequence(4) || (channels(4) != heads && channels(4) != heads * keySize)))
      return node.inputError(4, "must hold one number per head or per channel of its keys");
    if (isDelta && (!isSequence(5) || (channels(5) != heads && channels(5) != 1)))
      return node.inputError(5, "must hold one number per head, or one for all");
    return success();
  }

  /// Input `i`, [batch, steps, channels], as f32 [batch, steps, parts, channels / parts].
  Value split(size_t i, int64_t parts) {
    int64_t channels = node.inputType(i).getDimSize(2);
    return b.reshape(b.cast(node.input(i), f32), {batch, steps, parts, channels / parts});
  }

  /// Input `i` in heads of `size` channels, neighbouring states sharing one.
  Value ofEachHead(size_t i, int64_t size) {
    int64_t own = node.inputType(i).getDimSize(2) / size;
    Value x = split(i, own);
    if (own == heads)
      return x;
    Shape each{batch, steps, own, heads / own, size};
    return b.reshape(b.broadcast(x, each, {0, 1, 2, 4}), {batch, steps, heads, size});
  }

  Node &node;
  TensorBuilder &b;
  Type f32;
  bool decays = false, isDelta = false;
  int64_t batch = 0, steps = 0, queries = 0, heads = 0, keySize = 0, valueSize = 0;
};

} // namespace

static LogicalResult importLinearAttention(Node &node) { return LinearAttention(node).import(); }

/// Logarithms of decays, scale * softplus(a + bias), and rates, sigmoid(b).
static LogicalResult importLinearAttentionGate(Node &node) {
  TensorBuilder &b = node.b;
  Type f32 = b.opBuilder().getF32Type(), element = node.inputType(0).getElementType();
  ArrayRef<int64_t> shape = node.inputType(0).getShape();
  for (size_t i : {1, 2})
    if (shape.empty() || node.inputType(i).getShape() != shape.take_back())
      return node.inputError(i, "must hold one number per head of input 0");
  Value decay = b.unary(UnaryKind::Softplus, b.add(b.cast(node.input(0), f32), node.input(1)));
  decay = b.mul(decay, node.input(2));
  if (node.wants(1) && !node.hasInput(3))
    return node.inputError(3, "is missing, of which output 1 is made");
  if (node.hasInput(3))
    node.setOutput(1, b.cast(b.unary(UnaryKind::Sigmoid, b.cast(node.input(3), f32)), element));
  return node.result(b.cast(decay, element));
}

/// Every channel by its own filter over the tokens up to each. The state is the tokens that the
/// next ones still see.
static LogicalResult importCausalConvWithState(Node &node) {
  TensorBuilder &b = node.b;
  if (failed(refuseAttribute(node, "state_window", 0)) || failed(refuseAttribute(node, "ndim", 1)))
    return failure();
  bool isLast = node.integer("channels_last", 0) != 0;
  ArrayRef<int64_t> given = node.inputType(0).getShape(), filter = node.inputType(1).getShape();
  if (isLast ? given.size() < 3 : given.size() != 3)
    return node.inputError(0, "must have 3 dimensions");
  // As [batch, channels, tokens].
  auto toEnd = [&](Value x) {
    ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
    if (!isLast)
      return x;
    int64_t channels = ShapedType::getNumElements(shape.drop_front(2));
    return b.transpose(b.reshape(x, {shape[0], shape[1], channels}), {0, 2, 1});
  };
  auto back = [&](Value x) {
    if (!isLast)
      return x;
    Shape shape(given);
    shape[1] = TensorBuilder::shapeOf(x)[2];
    return b.reshape(b.transpose(x, {0, 2, 1}), shape);
  };
  Value x = toEnd(node.input(0));
  Shape shape(TensorBuilder::shapeOf(x));
  int64_t channels = shape[1], dilation = node.integer("dilation", 1);
  if (filter.size() != 3 || filter[0] != channels || filter[1] != 1 || filter[2] < 2)
    return node.inputError(1, "must be of shape [" + Twine(channels) + ", 1, taps], 2 at least");
  if (dilation < 1 || dilation > (1 << 24))
    return node.error("attribute 'dilation' must be positive, not " + Twine(dilation));
  if (node.hasInput(2) && node.inputType(2).getShape() != ArrayRef<int64_t>{channels})
    return node.inputError(2, "must hold one number per channel");
  Shape held{shape[0], channels, (filter[2] - 1) * dilation};
  Value past = b.splat(held, TensorBuilder::elementOf(x), 0);
  if (node.hasInput(3)) {
    Shape expected = held;
    if (isLast) {
      expected = Shape(given);
      expected[1] = held[2];
    }
    if (node.inputType(3).getShape() != ArrayRef<int64_t>(expected))
      return node.inputError(3, "must be of shape " + printShape(expected));
    past = b.cast(toEnd(node.input(3)), TensorBuilder::elementOf(x));
  }
  Value all = b.concat({past, x}, 2);
  Value y = b.convolution(all, node.input(1), {1}, {0}, {0}, {1}, {dilation}, channels);
  if (node.hasInput(2))
    y = b.add(y, b.unsqueeze(node.input(2), {1}));
  std::string activation = node.string("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = b.unary(UnaryKind::Silu, y);
  else if (activation != "none")
    return node.error("attribute 'activation' must be silu, swish or none, not '" + activation +
                      "'");
  node.setOutput(1, back(b.sliceDim(all, 2, shape[2], held[2])));
  return node.result(back(y));
}

void mlir::autopar::addContribLinearAttentionOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("LinearAttention", {1}, {3, 6},
            "chunk_size kv_num_heads q_num_heads scale state_window update_rule",
            importLinearAttention);
  table.add("LinearAttentionGate", {1}, {3, 4}, "", importLinearAttentionGate);
  table.add("CausalConvWithState", {1}, {2, 4},
            "activation channels_last dilation ndim state_window", importCausalConvWithState);
  table.inDomain("");
}
