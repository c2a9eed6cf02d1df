// SPDX-License-Identifier: Apache-2.0
// onnxruntime's GroupQueryAttention: heads of queries that share keys, rotary embedding, and caches
// that grow or are written in place. What is emitted is what ONNX's own operators are.
#include "ContribAttentions.h"
#include "Normalizations.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// Where the tokens of a step lie: behind `start` [b] others in caches of `room` rows. `start` is
/// null for the first ones, which see nothing but each other.
struct Step {
  int64_t batch, tokens, past, room;
  Value start;
};

class GroupQuery {
public:
  explicit GroupQuery(Node &node) : node(node), b(node.b) {}

  LogicalResult import() {
    for (size_t i : {5, 6})
      if (!node.hasInput(i))
        return node.inputError(i, "is missing");
    if (failed(refuseForms()) || failed(readInputs()) || failed(readStep()))
      return failure();
    if (node.hasInput(14) != node.hasInput(15))
      return node.error("norms of queries and keys must be given together");
    if (node.hasInput(14)) {
      in.query = normalized(in.query, 14, "q_norm_epsilon");
      in.key = normalized(in.key, 15, "k_norm_epsilon");
    }
    if (node.integer("do_rotary", 0) && failed(rotateBoth()))
      return failure();
    Value key = cached(3, in.key), value = cached(4, in.value);
    node.setOutput(1, key);
    node.setOutput(2, value);
    if (step.start)
      in.key = key, in.value = value;
    return finish();
  }

private:
  LogicalResult refuseForms() {
    if (failed(refuseAttribute(node, "qk_output", 0)) ||
        failed(refuseAttribute(node, "kv_cache_bit_width", 0)))
      return failure();
    for (StringRef name : {"k_quant_type", "v_quant_type"})
      if (node.string(name, "NONE") != "NONE")
        return node.error("attribute '" + name +
                          "' must be NONE: caches of integers are not "
                          "supported");
    if (failed(refuseInputs(node, {12, 13}, "caches are of floats")))
      return failure();
    return refuseInputs(node, {16}, "seqlens_k alone tells what fills up a step");
  }

  LogicalResult readInputs() {
    int64_t heads = node.integer("num_heads", 0), few = node.integer("kv_num_heads", 0);
    Value query = node.input(0), key, value;
    ArrayRef<int64_t> shape = TensorBuilder::shapeOf(query);
    if (heads < 1 || few < 1 || heads % few || shape.size() != 3)
      return node.error("kv_num_heads must divide num_heads, and the query have 3 dimensions");
    if (node.hasInput(1) != node.hasInput(2))
      return node.error("key and value must be given together");
    if (node.hasInput(1)) {
      key = node.input(1), value = node.input(2);
    } else {
      int64_t all = heads + 2 * few, size = shape[2] / all;
      if (shape[2] % all)
        return node.error(Twine(all) + " heads do not divide " + printShape(shape));
      key = b.sliceDim(query, 2, heads * size, few * size);
      value = b.sliceDim(query, 2, (heads + few) * size, few * size);
      query = b.sliceDim(query, 2, 0, heads * size);
    }
    FailureOr<Value> q = splitHeads(node, query, heads), k, v;
    if (failed(q) || failed(k = splitHeads(node, key, few)) ||
        failed(v = splitHeads(node, value, few)))
      return failure();
    in = {*q, *k, *v};
    if (TensorBuilder::shapeOf(*k)[2] != TensorBuilder::shapeOf(*q)[2])
      return node.error("there must be as many keys as queries, got " +
                        Twine(TensorBuilder::shapeOf(*k)[2]) + " and " +
                        Twine(TensorBuilder::shapeOf(*q)[2]));
    return checkProjections(node, in);
  }

  /// Where new rows go, and how many the caches have then. Shapes are static, so that the total
  /// length, if it is no constant, can only be that of the caches.
  LogicalResult readStep() {
    ArrayRef<int64_t> key = TensorBuilder::shapeOf(in.key);
    step = {key[0], key[2], 0, 0, Value()};
    if (node.hasInput(3) != node.hasInput(4))
      return node.error("past key and value must be given together");
    for (size_t i : {3, 4}) {
      if (!node.hasInput(i))
        continue;
      Shape expected(TensorBuilder::shapeOf(i == 3 ? in.key : in.value));
      ArrayRef<int64_t> shape = node.inputType(i).getShape();
      if (shape.size() == 4)
        step.past = expected[2] = shape[2];
      if (shape != ArrayRef<int64_t>(expected) ||
          node.inputType(i).getElementType() != TensorBuilder::elementOf(in.key))
        return node.inputError(i, "must be of shape " + printShape(expected) +
                                      " and of the type of the key");
    }
    if (node.inputType(5).getNumElements() != step.batch)
      return node.inputError(5, "must hold one number per batch entry");
    std::optional<SmallVector<int64_t>> total = b.integersOf(node.input(6));
    if (total && total->size() != 1)
      return node.inputError(6, "must be a scalar");
    int64_t length = total ? total->front() : step.past ? step.past : step.tokens;
    if (length < step.tokens || (length > step.past && length != step.past + step.tokens))
      return node.inputError(
          6, "is " + Twine(length) + ", expected what a past of " + Twine(step.past) + " and " +
                 Twine(step.tokens) +
                 " tokens make together, or, for caches that do not grow, at "
                 "least the tokens and at most the past (for which it is taken where its value is "
                 "not known at compile time)");
    // With room for all, nothing slides.
    if (node.integer("sliding_window_cache", 0) && length > step.past)
      return node.error("attribute 'sliding_window_cache' needs caches that are as long as all "
                        "tokens together, " +
                        Twine(length) + ", got " + Twine(step.past) +
                        ": none is dropped from them");
    step.room = std::max(length, step.past);
    // A step that is as long as the total is the first one.
    if (step.past == 0 || length == step.tokens)
      return success();
    Type i64 = b.opBuilder().getI64Type();
    Value last = b.reshape(b.cast(node.input(5), i64), {step.batch});
    step.start = b.maximum(b.sub(last, b.scalar(i64, step.tokens - 1)), b.scalar(i64, int64_t(0)));
    return success();
  }

  Value normalized(Value x, size_t weight, StringRef epsilon) {
    return normalizeRows(b, x, {3}, node.floating(epsilon, node.floating("qk_norm_epsilon", 1e-6)),
                         /*rms=*/true, node.input(weight), Value());
  }

  LogicalResult rotateBoth() {
    if (!node.hasInput(7) || !node.hasInput(8))
      return node.error("do_rotary needs tables of cosines and sines");
    ArrayRef<int64_t> table = node.inputType(7).getShape();
    int64_t size = TensorBuilder::shapeOf(in.query)[3];
    if (table.size() != 2 || table != node.inputType(8).getShape() || 2 * table[1] > size ||
        table[1] < 1 || table[0] < step.tokens)
      return node.error("cosines and sines must be of one shape [positions, at most " +
                        Twine(size / 2) + "], with a position for each of " + Twine(step.tokens) +
                        " tokens, got " + printShape(table));
    Value positions = tokenPositions();
    auto angles = [&](size_t i) {
      return positions ? rowsAt(b, node.input(i), positions)
                       : b.unsqueeze(b.sliceDim(node.input(i), 0, 0, step.tokens), {0});
    };
    bool interleaved = node.integer("rotary_interleaved", 0) != 0;
    Value cosine = angles(7), sine = angles(8);
    in.query = rotate(b, in.query, cosine, sine, interleaved);
    in.key = rotate(b, in.key, cosine, sine, interleaved);
    return success();
  }

  /// [b or 1, tokens]; null for those from 0 on. Of given positions the first step reads one.
  Value tokenPositions() {
    Type i64 = b.opBuilder().getI64Type();
    Value given = node.hasInput(9) ? b.cast(node.input(9), i64) : Value();
    if (given && step.start)
      return given;
    if (!given && !step.start)
      return {};
    int64_t rows = step.start ? step.batch : 1;
    Value first =
        given
            ? b.reshape(b.sliceDim(b.reshape(given, {node.inputType(9).getNumElements()}), 0, 0, 1),
                        {1})
            : step.start;
    Shape shape{rows, step.tokens};
    return b.add(b.iota(shape, i64, 1), b.broadcast(first, shape, {0}));
  }

  /// The cache with new rows written into it, in place where it was long enough before.
  Value cached(size_t past, Value fresh) {
    if (step.past == 0)
      return fresh;
    Shape shape(TensorBuilder::shapeOf(fresh));
    shape[2] = step.room;
    Value cache =
        b.pad(node.input(past), b.scalar(TensorBuilder::elementOf(fresh), 0.0), Shape(4, 0), shape);
    Value first = step.start ? step.start : b.splat({step.batch}, b.opBuilder().getI64Type(), 0);
    return writeRows(b, cache, fresh, first, 2);
  }

  LogicalResult finish() {
    int64_t keys = TensorBuilder::shapeOf(in.key)[2];
    Positions positions{b, step.tokens, keys, 0, step.start};
    ScoreTerms terms;
    terms.scale = scaleOf(node, in.query);
    terms.softcap = node.floating("softcap", 0);
    int64_t window = node.integer("local_window_size", -1);
    bool causal = node.integer("causal", 1) != 0;
    if (!causal && window > 0)
      return node.error("a window needs causal attention");
    // Of causal attention rows behind a sample's last token have no meaning, and see something.
    terms.allowed = causal ? positions.causal() : written(keys);
    if (window > 0)
      terms.allowed = b.binary(BinaryKind::And, terms.allowed, positions.within(window));
    if (node.hasInput(10) && failed(addBias(keys, terms)))
      return failure();
    Type element = TensorBuilder::elementOf(in.query);
    int64_t heads = TensorBuilder::shapeOf(in.query)[1];
    if (node.hasInput(11)) {
      terms.sink = node.input(11);
      if (TensorBuilder::shapeOf(terms.sink) != ArrayRef<int64_t>(heads))
        return node.inputError(11, "must hold one number per head");
    } else if (node.integer("smooth_softmax", 0) == 1) {
      terms.sink = b.splat({heads}, element, 0);
    }
    return node.result(mergeHeads(b, attend(b, in.query, in.key, in.value, terms).output));
  }

  /// The keys that each sample has.
  Value written(int64_t keys) {
    Type i64 = b.opBuilder().getI64Type();
    return b.compare(ComparePredicate::Le, b.iota({1, 1, 1, keys}, i64, 3),
                     b.reshape(b.cast(node.input(5), i64), {step.batch, 1, 1, 1}));
  }

  /// The bias is as long as the total length, which the keys need not be.
  LogicalResult addBias(int64_t keys, ScoreTerms &terms) {
    Value bias = node.input(10);
    if (TensorBuilder::rankOf(bias) != 4)
      return node.inputError(10, "must have 4 dimensions");
    Shape shape(TensorBuilder::shapeOf(bias));
    int64_t given = shape[3];
    shape[3] = keys;
    terms.bias = given > keys ? b.sliceDim(bias, 3, 0, keys)
                              : b.pad(bias, b.scalar(TensorBuilder::elementOf(bias), 0.0),
                                      Shape(4, 0), shape);
    return success();
  }

  Node &node;
  TensorBuilder &b;
  Projections in;
  Step step{};
};
} // namespace

LogicalResult mlir::autopar::importGroupQueryAttention(Node &node) {
  return GroupQuery(node).import();
}
