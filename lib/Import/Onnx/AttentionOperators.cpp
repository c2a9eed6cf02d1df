// SPDX-License-Identifier: Apache-2.0
// Operators of transformers that newer operator sets have whole: attention, rotary embedding, gated
// units, key-value caches, recurrent attention. Batch and heads stay dimensions of their own.
#include "Activations.h"
#include "Attentions.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

FailureOr<Value> mlir::autopar::splitHeads(Node &node, Value x, int64_t heads) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  if (heads < 1 || shape.size() != 3 || shape[2] % heads)
    return node.error(Twine(heads) + " heads do not divide " + printShape(shape));
  return node.b.transpose(node.b.reshape(x, {shape[0], shape[1], heads, shape[2] / heads}),
                          {0, 2, 1, 3});
}

Value mlir::autopar::mergeHeads(TensorBuilder &b, Value x) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  Shape merged{shape[0], shape[2], shape[1] * shape[3]};
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), merged);
}

Value mlir::autopar::repeatHeads(TensorBuilder &b, Value x, int64_t times) {
  if (times == 1)
    return x;
  Shape wide(TensorBuilder::shapeOf(x)), merged(wide);
  wide.insert(wide.begin() + 2, times);
  merged[1] *= times;
  SmallVector<int64_t> dims;
  for (int64_t i = 0; i < static_cast<int64_t>(merged.size()); ++i)
    dims.push_back(i < 2 ? i : i + 1);
  return b.reshape(b.broadcast(x, wide, dims), merged);
}

namespace {
struct AttentionInputs {
  Value query, key, value; ///< [b, heads, s, d]
  int64_t pastLength = 0;
  bool packed = false; ///< inputs came as [b, s, heads * d]
};
} // namespace

static FailureOr<AttentionInputs> readAttention(Node &node) {
  TensorBuilder &b = node.b;
  AttentionInputs in{node.input(0), node.input(1), node.input(2)};
  in.packed = TensorBuilder::rankOf(in.query) == 3;
  if (in.packed) {
    FailureOr<Value> query = splitHeads(node, in.query, node.integer("q_num_heads", 0));
    if (failed(query))
      return failure();
    FailureOr<Value> key = splitHeads(node, in.key, node.integer("kv_num_heads", 0)), value;
    if (failed(key) || failed(value = splitHeads(node, in.value, node.integer("kv_num_heads", 0))))
      return failure();
    in.query = *query, in.key = *key, in.value = *value;
  }
  for (Value part : {in.query, in.key, in.value})
    if (TensorBuilder::rankOf(part) != 4 || !TensorBuilder::isFloat(part))
      return node.error("query, key and value must be floats of 3 or 4 dimensions");
  if (node.hasInput(4) != node.hasInput(5))
    return node.error("past key and value must be given together");
  if (node.hasInput(4)) {
    if (node.inputType(4).getRank() != 4)
      return node.inputError(4, "must have 4 dimensions");
    in.pastLength = node.inputType(4).getDimSize(2);
    in.key = b.concat({node.input(4), in.key}, 2);
    in.value = b.concat({node.input(5), in.value}, 2);
  }
  ArrayRef<int64_t> q = TensorBuilder::shapeOf(in.query), k = TensorBuilder::shapeOf(in.key),
                    v = TensorBuilder::shapeOf(in.value);
  if (k[1] < 1 || q[1] % k[1] || k[1] != v[1] || q[3] != k[3] || k[2] != v[2] || q[0] != k[0] ||
      q[0] != v[0])
    return node.error("query " + printShape(q) + ", key " + printShape(k) + " and value " +
                      printShape(v) + " do not fit");
  return in;
}

/// What may be attended, as booleans that broadcast to [b, heads, q, k]; null if everything may.
static Value allowedPositions(Node &node, const AttentionInputs &in) {
  TensorBuilder &b = node.b;
  Type i64 = b.opBuilder().getI64Type();
  int64_t queries = TensorBuilder::shapeOf(in.query)[2], keys = TensorBuilder::shapeOf(in.key)[2];
  Value row = b.iota({queries, keys}, i64, 0), column = b.iota({queries, keys}, i64, 1), allowed,
        valid;
  auto both = [&](Value condition) {
    allowed = allowed ? b.binary(BinaryKind::And, allowed, condition) : condition;
  };
  if (node.hasInput(6)) {
    valid = b.reshape(b.cast(node.input(6), i64), {node.inputType(6).getNumElements(), 1, 1, 1});
    both(b.compare(ComparePredicate::Lt, b.iota({1, 1, 1, keys}, i64, 3), valid));
  }
  // The position of a query among the keys.
  Value position = valid && !in.pastLength
                       ? b.add(row, b.binary(BinaryKind::Sub, valid, static_cast<double>(queries)))
                       : b.add(row, b.scalar(i64, in.pastLength));
  int64_t left = node.integer("left_window_size", -1),
          right = node.integer("right_window_size", -1);
  if (node.integer("is_causal", 0))
    both(b.compare(ComparePredicate::Le, column, position));
  if (left >= 0)
    both(b.compare(ComparePredicate::Ge, column, b.sub(position, b.scalar(i64, left))));
  if (right >= 0)
    both(b.compare(ComparePredicate::Le, column, b.add(position, b.scalar(i64, right))));
  return allowed;
}

/// A mask shorter than the keys forbids the rest.
static Value widenMask(TensorBuilder &b, Value mask, int64_t keys, Value fill) {
  Shape shape(TensorBuilder::shapeOf(mask));
  if (shape.empty() || shape.back() >= keys || shape.back() == 1)
    return mask;
  shape.back() = keys;
  return b.pad(mask, fill, Shape(shape.size(), 0), shape);
}

/// Softmax over the keys and one more score a row, whose weight is dropped.
static Value softmaxWithSink(TensorBuilder &b, Value scores, Value sink) {
  Shape column(TensorBuilder::shapeOf(scores));
  int64_t keys = column[3];
  column[3] = 1;
  Value widened = b.concat({scores, b.broadcast(sink, column, {1})}, 3);
  return b.sliceDim(b.softmax(widened, 3, /*log=*/false), 3, 0, keys);
}

Attended mlir::autopar::attend(TensorBuilder &b, Value query, Value key, Value value,
                               const ScoreTerms &terms) {
  Attended made;
  int64_t groups = TensorBuilder::shapeOf(query)[1] / TensorBuilder::shapeOf(key)[1];
  Type element = TensorBuilder::elementOf(query);
  Type precision = terms.precision ? terms.precision : element;
  double infinity = std::numeric_limits<double>::infinity();
  // Queries alone are scaled: keys may be a cache, which would be read and written once more.
  query = b.binary(BinaryKind::Mul, query, terms.scale);
  made.products = b.dot(query, repeatHeads(b, key, groups), {0, 1}, {0, 1}, {3}, {3});
  Value scores = made.products;
  if (terms.softcap > 0)
    scores = b.binary(BinaryKind::Mul,
                      b.unary(UnaryKind::Tanh, b.binary(BinaryKind::Div, scores, terms.softcap)),
                      terms.softcap);
  made.capped = scores;
  if (terms.bias)
    scores = b.add(scores, b.cast(terms.bias, element));
  if (terms.allowed)
    scores = b.select(terms.allowed, scores, b.scalar(element, -infinity));
  made.masked = scores;
  Value wide = b.cast(scores, precision);
  Value weights = terms.sink ? softmaxWithSink(b, wide, b.cast(terms.sink, precision))
                             : b.softmax(wide, 3, /*log=*/false);
  weights = b.cast(weights, element);
  if (terms.clearsHiddenRows && (terms.allowed || terms.bias)) {
    Value largest = b.reduce(ReduceKind::Max, scores, {3}, /*keepDims=*/true);
    weights = b.select(b.compare(ComparePredicate::Eq, largest, b.scalar(element, -infinity)),
                       b.splatLike(weights, 0), weights);
  }
  made.weights = weights;
  made.output = b.dot(weights, repeatHeads(b, value, groups), {0, 1}, {0, 1}, {3}, {2});
  return made;
}

static LogicalResult importAttention(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<AttentionInputs> in = readAttention(node);
  if (failed(in))
    return failure();
  int64_t keys = TensorBuilder::shapeOf(in->key)[2], size = TensorBuilder::shapeOf(in->query)[3];
  Type element = TensorBuilder::elementOf(in->query), i1 = b.opBuilder().getI1Type();
  FailureOr<Type> precision = node.elementType("softmax_precision", element);
  if (failed(precision) || !isa<FloatType>(*precision))
    return failed(precision) ? failure()
                             : node.error("attribute 'softmax_precision' must name a float type");
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return node.error("attribute 'qk_matmul_output_mode' must be 0 to 3, not " + Twine(mode));
  ScoreTerms terms;
  terms.scale = node.floating("scale", 1 / std::sqrt(static_cast<double>(size)));
  terms.softcap = node.floating("softcap", 0);
  terms.precision = *precision;
  terms.clearsHiddenRows = true;
  terms.allowed = allowedPositions(node, *in);
  if (node.hasInput(3) && node.inputType(3).getElementType() == i1) {
    Value mask = widenMask(b, node.input(3), keys, b.scalar(i1, int64_t(0)));
    terms.allowed = terms.allowed ? b.binary(BinaryKind::And, terms.allowed, mask) : mask;
  } else if (node.hasInput(3)) {
    terms.bias = widenMask(
        b, node.input(3), keys,
        b.scalar(node.inputType(3).getElementType(), -std::numeric_limits<double>::infinity()));
  }
  Attended made = attend(b, in->query, in->key, in->value, terms);
  node.setOutput(0, in->packed ? mergeHeads(b, made.output) : made.output);
  node.setOutput(1, in->key);
  node.setOutput(2, in->value);
  Value observed[] = {made.products, made.capped, made.masked, made.weights};
  node.setOutput(3, observed[mode]);
  return success();
}

/// What the graph of attribute `name`, if there is one, makes of scores or probabilities.
static FailureOr<Value> modified(Node &node, StringRef name, Value x) {
  if (!node.hasAttribute(name))
    return x;
  FailureOr<SmallVector<ImportedValue>> results = node.subgraph(name, {ImportedValue(x)}, name);
  if (failed(results))
    return failure();
  if (results->size() != 1 || results->front().kind != ImportedValue::Tensor ||
      results->front().tensor.getType() != x.getType())
    return node.error("graph '" + name + "' must yield one tensor of the type of its input");
  return results->front().tensor;
}

static LogicalResult importFlexAttention(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<AttentionInputs> in = readAttention(node);
  if (failed(in))
    return failure();
  if (in->packed)
    return node.error("query, key and value must have 4 dimensions");
  Type element = TensorBuilder::elementOf(in->query);
  FailureOr<Type> precision =
      node.elementType("softmax_precision", element.isF64() ? element : b.opBuilder().getF32Type());
  if (failed(precision) || !isa<FloatType>(*precision))
    return failed(precision) ? failure()
                             : node.error("attribute 'softmax_precision' must name a float type");
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(in->query);
  int64_t groups = shape[1] / TensorBuilder::shapeOf(in->key)[1];
  double scale = node.floating("scale", 1 / std::sqrt(static_cast<double>(shape[3])));
  Value scores = b.dot(b.binary(BinaryKind::Mul, in->query, scale), repeatHeads(b, in->key, groups),
                       {0, 1}, {0, 1}, {3}, {3});
  FailureOr<Value> x = modified(node, "score_mod", b.cast(scores, *precision));
  if (failed(x) || failed(x = modified(node, "prob_mod", b.softmax(*x, 3, /*log=*/false))))
    return failure();
  Value value = b.cast(repeatHeads(b, in->value, groups), *precision);
  return node.result(b.cast(b.dot(*x, value, {0, 1}, {0, 1}, {3}, {2}), element));
}

//===-- rotary embedding ---------------------------------------------------------------------===//

Value mlir::autopar::rotate(TensorBuilder &b, Value x, Value cosine, Value sine, bool interleaved) {
  int64_t size = TensorBuilder::shapeOf(x)[3], half = TensorBuilder::shapeOf(cosine)[2];
  cosine = b.unsqueeze(cosine, {1}), sine = b.unsqueeze(sine, {1});
  Value turning = b.sliceDim(x, 3, 0, 2 * half);
  Value first = interleaved ? b.sliceDim(turning, 3, 0, half, 2) : b.sliceDim(turning, 3, 0, half);
  Value second =
      interleaved ? b.sliceDim(turning, 3, 1, half, 2) : b.sliceDim(turning, 3, half, half);
  Value re = b.sub(b.mul(first, cosine), b.mul(second, sine)),
        im = b.add(b.mul(first, sine), b.mul(second, cosine));
  Value y = interleaved ? b.reshape(b.concat({b.unsqueeze(re, {4}), b.unsqueeze(im, {4})}, 4),
                                    TensorBuilder::shapeOf(turning))
                        : b.concat({re, im}, 3);
  return 2 * half < size ? b.concat({y, b.sliceDim(x, 3, 2 * half, size - 2 * half)}, 3) : y;
}

Value mlir::autopar::rowsAt(TensorBuilder &b, Value table, Value positions) {
  positions = b.cast(positions, b.opBuilder().getI64Type());
  return b.gather(table, b.unsqueeze(positions, {TensorBuilder::rankOf(positions)}), {0}, 0);
}

static LogicalResult importRotaryEmbedding(Node &node) {
  TensorBuilder &b = node.b;
  Value x = node.input(0); // to [b, s, heads, d]
  bool packed = TensorBuilder::rankOf(x) == 3;
  FailureOr<Value> split =
      packed ? splitHeads(node, x, node.integer("num_heads", 0)) : FailureOr<Value>(x);
  if (failed(split) || TensorBuilder::rankOf(*split) != 4)
    return failed(split) ? failure() : node.inputError(0, "must have 3 or 4 dimensions");
  x = *split; // [b, heads, s, d]
  int64_t size = TensorBuilder::shapeOf(x)[3], rotated = node.integer("rotary_embedding_dim", 0);
  rotated = rotated == 0 ? size : rotated;
  if (rotated < 2 || rotated > size || rotated % 2)
    return node.error("rotary_embedding_dim " + Twine(rotated) + " does not fit head size " +
                      Twine(size));
  auto angle = [&](size_t i) {
    return node.hasInput(3) ? rowsAt(b, node.input(i), node.input(3)) : node.input(i);
  };
  Value cosine = angle(1), sine = angle(2);
  int64_t samples = TensorBuilder::shapeOf(x)[0], steps = TensorBuilder::shapeOf(x)[2];
  Shape expected{samples, steps, rotated / 2};
  Shape shared{1, steps, rotated / 2}; // one table may serve all samples
  for (Value table : {cosine, sine})
    if (TensorBuilder::shapeOf(table) != ArrayRef<int64_t>(expected) &&
        TensorBuilder::shapeOf(table) != ArrayRef<int64_t>(shared))
      return node.error("cosines and sines must be of shape " + printShape(expected) +
                        (samples == 1 ? "" : " or " + printShape(shared)) + ", got " +
                        printShape(TensorBuilder::shapeOf(table)));
  Value y = rotate(b, x, cosine, sine, node.integer("interleaved", 0) != 0);
  return node.result(packed ? mergeHeads(b, y) : y);
}

static LogicalResult importSwiGlu(Node &node) {
  Value gate = swish(node.b, node.input(0), node.floating("alpha", 1));
  return node.result(node.b.mul(gate, node.input(1)));
}

//===-- caches -------------------------------------------------------------------------------===//

Value mlir::autopar::writeRows(TensorBuilder &b, Value cache, Value update, Value start,
                               int64_t axis, bool circular) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(update);
  Value position =
      b.add(b.iota(shape, b.opBuilder().getI64Type(), axis), b.broadcast(start, shape, {0}));
  if (circular)
    position = b.binary(BinaryKind::Modulo, position,
                        static_cast<double>(TensorBuilder::shapeOf(cache)[axis]));
  return b.scatterElements(ScatterKind::Assign, cache, position, update, axis);
}

static LogicalResult importTensorScatter(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> cache = node.inputType(0).getShape(), update = node.inputType(1).getShape();
  FailureOr<int64_t> axis = node.axis(node.integer("axis", -2), static_cast<int64_t>(cache.size()));
  std::string mode = node.string("mode", "linear");
  if (failed(axis) || *axis == 0 || update.size() != cache.size() || update[*axis] > cache[*axis] ||
      update[*axis] < 1 || (mode != "linear" && mode != "circular"))
    return failed(axis) ? failure()
                        : node.error("update " + printShape(update) + " does not fit cache " +
                                     printShape(cache) + ", or the mode is unknown");
  Type i64 = b.opBuilder().getI64Type();
  Value start = node.hasInput(2) ? b.cast(node.input(2), i64) : b.splat({cache[0]}, i64, 0);
  if (TensorBuilder::shapeOf(start) != cache.take_front(1))
    return node.inputError(2, "must hold one position per batch entry");
  return node.result(writeRows(b, node.input(0), node.input(1), start, *axis, mode == "circular"));
}

static LogicalResult importCausalConvWithState(Node &node) {
  TensorBuilder &b = node.b;
  ArrayRef<int64_t> shape = node.inputType(0).getShape(), weight = node.inputType(1).getShape();
  if (shape.size() != 3 || weight.size() != 3 || weight[0] != shape[1] || weight[1] != 1 ||
      weight[2] < 1)
    return node.error("weight " + printShape(weight) + " does not fit input " + printShape(shape));
  int64_t kept = weight[2] - 1;
  Type element = node.inputType(0).getElementType();
  Value past = node.hasInput(3) ? node.input(3) : b.splat({shape[0], shape[1], kept}, element, 0);
  Value padded = b.concat({past, node.input(0)}, 2);
  Value y = b.convolution(padded, node.input(1), {1}, {0}, {0}, {1}, {1}, shape[1]);
  if (node.hasInput(2))
    y = b.add(y, b.broadcast(node.input(2), TensorBuilder::shapeOf(y), {1}));
  std::string activation = node.string("activation", "none");
  if (activation == "silu" || activation == "swish")
    y = b.unary(UnaryKind::Silu, y);
  else if (activation != "none")
    return node.error("attribute 'activation' must be none, silu or swish, not '" +
                      Twine(activation) + "'");
  node.setOutput(0, y);
  node.setOutput(1, b.sliceDim(padded, 2, TensorBuilder::shapeOf(padded)[2] - kept, kept));
  return success();
}

//===-- linear attention ---------------------------------------------------------------------===//

namespace {
/// What a step of linear attention reads, in f32: [b, heads, steps, size]; no decay or beta where
/// the update rule has none.
struct LinearSteps {
  Value query, key, value, decay, beta;
};
} // namespace

/// One step on a state [b, heads, d, v]: decays, corrects, writes and reads it.
static Value linearStep(TensorBuilder &b, const LinearSteps &in, int64_t t, Value &state) {
  auto at = [&](Value x) { return b.squeeze(b.sliceDim(x, 2, t, 1), {2}); };
  Value key = at(in.key), value = at(in.value);
  if (in.decay)
    state = b.mul(state, b.unsqueeze(at(in.decay), {3}));
  if (in.beta)
    value = b.mul(b.sub(value, b.dot(state, key, {0, 1}, {0, 1}, {2}, {2})), at(in.beta));
  state = b.add(state, b.mul(b.unsqueeze(key, {3}), b.unsqueeze(value, {2})));
  int64_t groups = TensorBuilder::shapeOf(in.query)[1] / TensorBuilder::shapeOf(in.key)[1];
  return b.dot(at(in.query), repeatHeads(b, state, groups), {0, 1}, {0, 1}, {2}, {2});
}

/// Unrolled over the sequence.
static LogicalResult importLinearAttention(Node &node) {
  TensorBuilder &b = node.b;
  constexpr int64_t mostSteps = 8192;
  std::string rule = node.string("update_rule", "gated_delta");
  bool gated = rule == "gated" || rule == "gated_delta",
       corrects = rule == "delta" || rule == "gated_delta";
  if (!gated && !corrects && rule != "linear")
    return node.error("attribute 'update_rule' must be linear, gated, delta or gated_delta, not '" +
                      Twine(rule) + "'");
  if (gated != node.hasInput(4) || corrects != node.hasInput(5))
    return node.error("update_rule '" + Twine(rule) + "' does not fit the given decay and beta");
  int64_t heads = node.integer("q_num_heads", 0), kvHeads = node.integer("kv_num_heads", 0);
  FailureOr<Value> q = splitHeads(node, node.input(0), heads);
  if (failed(q))
    return failure();
  FailureOr<Value> k = splitHeads(node, node.input(1), kvHeads), v;
  if (failed(k) || failed(v = splitHeads(node, node.input(2), kvHeads)))
    return failure();
  Type element = TensorBuilder::elementOf(*q), f32 = b.opBuilder().getF32Type();
  int64_t batch = TensorBuilder::shapeOf(*q)[0], steps = TensorBuilder::shapeOf(*q)[2],
          keySize = TensorBuilder::shapeOf(*q)[3], valueSize = TensorBuilder::shapeOf(*v)[3];
  if (heads % kvHeads || steps > mostSteps || steps < 1)
    return node.error("kv_num_heads must divide q_num_heads, and the sequence have 1 to " +
                      Twine(mostSteps) + " steps");
  auto wide = [&](Value x) { return b.cast(x, f32); };
  LinearSteps in{wide(*q), wide(*k), wide(*v), {}, {}};
  if (gated) {
    FailureOr<Value> split = splitHeads(node, node.input(4), kvHeads);
    if (failed(split))
      return failure();
    in.decay = b.unary(UnaryKind::Exp, wide(*split));
  }
  if (corrects) {
    FailureOr<Value> split =
        splitHeads(node, node.input(5),
                   node.inputType(5).getShape().empty() ? 1 : node.inputType(5).getShape().back());
    if (failed(split))
      return failure();
    in.beta = wide(*split);
  }
  Type stateType = node.hasInput(3) ? node.inputType(3).getElementType() : element;
  Value state = node.hasInput(3) ? wide(node.input(3))
                                 : b.splat({batch, kvHeads, keySize, valueSize}, f32, 0);
  double scale = node.floating("scale", 0);
  scale = scale == 0 ? 1 / std::sqrt(static_cast<double>(keySize)) : scale;
  SmallVector<Value> outputs;
  for (int64_t t = 0; t < steps && !b.failed(); ++t) {
    Value read = linearStep(b, in, t, state);
    outputs.push_back(b.unsqueeze(b.binary(BinaryKind::Mul, read, scale), {2}));
  }
  if (b.failed())
    return failure();
  node.setOutput(0, b.cast(mergeHeads(b, b.concat(outputs, 2)), element));
  node.setOutput(1, b.cast(state, stateType));
  return success();
}

void mlir::autopar::addAttentionOperators(OperatorTable &table) {
  table.add("Attention", {23}, {3, 7},
            "is_causal kv_num_heads left_window_size q_num_heads qk_matmul_output_mode "
            "right_window_size scale softcap softmax_precision",
            importAttention);
  table.add("RotaryEmbedding", {23}, {3, 4}, "interleaved num_heads rotary_embedding_dim",
            importRotaryEmbedding);
  table.add("SwiGLU", {28}, {2, 2}, "alpha", importSwiGlu);
  table.add("TensorScatter", {24}, {2, 3}, "axis mode", importTensorScatter);
  table.add("CausalConvWithState", {27}, {2, 4}, "activation", importCausalConvWithState);
  table.add("LinearAttention", {27}, {3, 6},
            "chunk_size kv_num_heads q_num_heads scale update_rule", importLinearAttention);
  table.inDomain("ai.onnx.preview");
  table.add("FlexAttention", {1}, {3, 3}, "prob_mod scale score_mod softmax_precision",
            importFlexAttention);
  table.inDomain("");
}
