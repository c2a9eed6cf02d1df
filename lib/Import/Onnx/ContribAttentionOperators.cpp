// SPDX-License-Identifier: Apache-2.0
// Attention as onnxruntime's optimizers and model builder write it (its contrib operators): with
// projections, masks and caches in several forms. What is emitted is what ONNX's own operators are.
#include "ContribAttentions.h"
#include "Quantization.h"

#include <cmath>

using namespace mlir;
using namespace mlir::autopar;

constexpr StringLiteral writtenInPlace =
    "a cache that is written in place takes GroupQueryAttention";

LogicalResult mlir::autopar::refuseInputs(Node &node, ArrayRef<size_t> inputs, StringRef why) {
  for (size_t i : inputs)
    if (node.hasInput(i))
      return node.inputError(i, "is not supported (" + why + ")");
  return success();
}

LogicalResult mlir::autopar::refuseAttribute(Node &node, StringRef name, int64_t only) {
  int64_t value = node.integer(name, only);
  if (value == only)
    return success();
  return node.error("attribute '" + name + "' = " + Twine(value) + " is not supported, expected " +
                    Twine(only));
}

double mlir::autopar::scaleOf(Node &node, Value query) {
  double scale = node.floating("scale", 0);
  return scale != 0 ? scale : 1 / std::sqrt(static_cast<double>(TensorBuilder::shapeOf(query)[3]));
}

LogicalResult mlir::autopar::checkProjections(Node &node, const Projections &in) {
  ArrayRef<int64_t> q = TensorBuilder::shapeOf(in.query), k = TensorBuilder::shapeOf(in.key),
                    v = TensorBuilder::shapeOf(in.value);
  for (Value part : {in.query, in.key, in.value})
    if (!TensorBuilder::isFloat(part) ||
        TensorBuilder::elementOf(part) != TensorBuilder::elementOf(in.query))
      return node.error("query, key and value must be floats of one type");
  if (q.size() != 4 || k.size() != 4 || v.size() != 4 || k[1] < 1 || q[1] % k[1] || k[1] != v[1] ||
      q[3] != k[3] || k[2] != v[2] || q[0] != k[0] || q[0] != v[0])
    return node.error("query " + printShape(q) + ", key " + printShape(k) + " and value " +
                      printShape(v) + " do not fit");
  return success();
}

//===-- masks --------------------------------------------------------------------------------===//

namespace {
struct ScoreShape {
  int64_t batch, queries, keys, past;
};
} // namespace

static ScoreShape scoreShape(const Projections &in, int64_t past) {
  return {TensorBuilder::shapeOf(in.query)[0], TensorBuilder::shapeOf(in.query)[2],
          TensorBuilder::shapeOf(in.key)[2], past};
}

/// Where mask input `i` lets keys be attended: by their number, by their end and start, or position
/// by position. Null if everywhere.
static FailureOr<Value> keptKeys(Node &node, size_t i, const ScoreShape &at) {
  TensorBuilder &b = node.b;
  Value mask = b.cast(node.input(i), b.opBuilder().getI64Type());
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(mask);
  auto isShape = [&](ArrayRef<int64_t> expected) { return shape == expected; };
  auto perSample = [&](int64_t first) {
    return b.reshape(b.sliceDim(mask, 0, first, at.batch), {at.batch, 1, 1, 1});
  };
  if (shape.size() == 1 &&
      llvm::is_contained({at.batch, 2 * at.batch, 3 * at.batch + 2}, shape[0])) {
    Value column = b.iota({1, 1, 1, at.keys}, b.opBuilder().getI64Type(), 3);
    Value kept = b.compare(ComparePredicate::Lt, column, perSample(0));
    if (shape[0] != 2 * at.batch)
      return kept;
    return b.binary(BinaryKind::And, kept,
                    b.compare(ComparePredicate::Ge, column, perSample(at.batch)));
  }
  if (isShape({at.batch, at.keys})) {
    mask = b.unsqueeze(mask, {1, 2});
  } else if (isShape({at.batch, 1}) || isShape({1, 1})) {
    return Value();
  } else if (isShape({at.batch, at.queries, at.keys})) {
    mask = b.unsqueeze(mask, {1});
  } else if (shape.size() == 4 && shape[0] == at.batch && shape[1] == 1 && shape[2] >= at.keys &&
             shape[3] == shape[2]) {
    mask = b.sliceDim(b.sliceDim(mask, 2, at.past, at.queries), 3, 0, at.keys);
  } else {
    return node.inputError(i, "must be a mask of [" + Twine(at.batch) + ", " + Twine(at.keys) +
                                  "] or [" + Twine(at.batch) + ", " + Twine(at.queries) + ", " +
                                  Twine(at.keys) + "], or numbers of keys [" + Twine(at.batch) +
                                  "], got " + printShape(shape));
  }
  return b.compare(ComparePredicate::Gt, mask, b.scalar(b.opBuilder().getI64Type(), int64_t(0)));
}

/// Sets what is added to scores: input `bias`, and the number that masked keys get.
static LogicalResult addBiases(Node &node, size_t bias, size_t mask, const ScoreShape &at,
                               Type element, ScoreTerms &terms) {
  TensorBuilder &b = node.b;
  if (node.hasInput(bias)) {
    terms.bias = node.input(bias);
    ArrayRef<int64_t> shape = TensorBuilder::shapeOf(terms.bias);
    if (shape.size() != 4 || shape[3] != at.keys)
      return node.inputError(bias, "must have 4 dimensions, the last of " + Twine(at.keys) +
                                       " keys, got " + printShape(shape));
  }
  if (!node.hasInput(mask))
    return success();
  FailureOr<Value> kept = keptKeys(node, mask, at);
  if (failed(kept))
    return failure();
  if (!*kept)
    return success();
  // A number and no infinity, as onnxruntime has it: where all is masked, nothing is.
  Value added = b.select(*kept, b.scalar(element, 0.0),
                         b.scalar(element, node.floating("mask_filter_value", -10000)));
  terms.bias = terms.bias ? b.add(terms.bias, added) : added;
  return success();
}

//===-- positions ----------------------------------------------------------------------------===//

Value Positions::column() const { return b.iota({queries, keys}, b.opBuilder().getI64Type(), 1); }

Value Positions::row() const {
  Type i64 = b.opBuilder().getI64Type();
  Value row = b.iota({queries, keys}, i64, 0);
  if (!start)
    return b.add(row, b.scalar(i64, offset));
  return b.add(row, b.reshape(start, {TensorBuilder::shapeOf(start)[0], 1, 1, 1}));
}

Value Positions::causal() const { return b.compare(ComparePredicate::Le, column(), row()); }

Value Positions::within(int64_t window) const {
  return b.compare(ComparePredicate::Gt, column(),
                   b.sub(row(), b.scalar(b.opBuilder().getI64Type(), window)));
}

//===-- attention with as many heads of keys as of queries -----------------------------------===//

/// Appends what input `past` holds of keys or values.
static FailureOr<Value> appended(Node &node, Value past, Value fresh) {
  Shape expected(TensorBuilder::shapeOf(fresh));
  if (TensorBuilder::rankOf(past) == 4)
    expected[2] = TensorBuilder::shapeOf(past)[2];
  if (TensorBuilder::shapeOf(past) != ArrayRef<int64_t>(expected))
    return node.error("past " + printShape(TensorBuilder::shapeOf(past)) + " does not fit " +
                      printShape(TensorBuilder::shapeOf(fresh)));
  return node.b.concat({past, fresh}, 2);
}

/// Writes output 0, for keys of which `past` come from earlier steps.
static LogicalResult attendMasked(Node &node, const Projections &in, int64_t past, size_t bias,
                                  size_t mask) {
  TensorBuilder &b = node.b;
  if (failed(checkProjections(node, in)))
    return failure();
  ScoreShape at = scoreShape(in, past);
  ScoreTerms terms;
  terms.scale = scaleOf(node, in.query);
  if (failed(addBiases(node, bias, mask, at, TensorBuilder::elementOf(in.query), terms)))
    return failure();
  bool causal = node.integer("unidirectional", 0) != 0;
  // onnxruntime's kernels do not agree on what such queries see.
  if (causal && at.keys != past + at.queries)
    return node.error("attribute 'unidirectional' needs as many keys as queries, got " +
                      Twine(at.keys - past) + " and " + Twine(at.queries));
  if (causal)
    terms.allowed = Positions{b, at.queries, at.keys, past, Value()}.causal();
  node.setOutput(0, mergeHeads(b, attend(b, in.query, in.key, in.value, terms).output));
  return success();
}

/// [b, s, heads, parts, d] as `parts` tensors [b, heads, s, d], with what belongs to each of a bias
/// [parts * heads * d] added.
static SmallVector<Value> unpacked(TensorBuilder &b, Value x, Value bias) {
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(x);
  if (bias)
    x = b.add(x, b.transpose(b.reshape(bias, {shape[3], shape[2], shape[4]}), {1, 0, 2}));
  SmallVector<Value> parts;
  for (int64_t i = 0; i < shape[3]; ++i)
    parts.push_back(b.transpose(b.squeeze(b.sliceDim(x, 3, i, 1), {3}), {0, 2, 1, 3}));
  return parts;
}

/// Query, key and value of MultiHeadAttention, which may lie in one tensor or two.
static FailureOr<Projections> readProjections(Node &node) {
  TensorBuilder &b = node.b;
  int64_t heads = node.integer("num_heads", 0), start = 0;
  Value bias = node.hasInput(3) ? node.input(3) : Value();
  auto isPacked = [&](size_t i, int64_t parts) {
    ArrayRef<int64_t> shape = node.inputType(i).getShape();
    return shape.size() == 5 && shape[2] == heads && shape[3] == parts;
  };
  auto isBias = [&](int64_t size) {
    return !bias || TensorBuilder::shapeOf(bias) == ArrayRef<int64_t>(size);
  };
  if (!node.hasInput(1)) {
    if (node.hasInput(2) || !isPacked(0, 3) || !isBias(3 * heads * node.inputType(0).getDimSize(4)))
      return node.error("without a key, input 0 must be of shape [batch, tokens, " + Twine(heads) +
                        ", 3, size], with a bias of as many channels or none");
    SmallVector<Value> parts = unpacked(b, node.input(0), bias);
    return Projections{parts[0], parts[1], parts[2]};
  }
  bool packed = !node.hasInput(2), cached = node.inputType(1).getRank() == 4;
  if (packed && (!isPacked(1, 2) || bias))
    return node.error("without a value, input 1 must be of shape [batch, keys, " + Twine(heads) +
                      ", 2, size], and there must be no bias");
  int64_t sum = 0;
  for (size_t i : {0, 1, 2})
    if (!packed && !(cached && i > 0) && node.inputType(i).getRank() == 3)
      sum += node.inputType(i).getDimSize(2);
  if (!packed && !cached && !isBias(sum))
    return node.inputError(3, "must have " + Twine(sum) + " numbers");
  auto split = [&](size_t i) -> FailureOr<Value> {
    Value x = node.input(i);
    if (TensorBuilder::rankOf(x) == 4)
      return x;
    if (bias && TensorBuilder::rankOf(x) == 3) {
      int64_t size = TensorBuilder::shapeOf(x)[2];
      if (start + size > TensorBuilder::typeOf(bias).getNumElements())
        return node.inputError(3, "is too short");
      x = b.add(x, b.sliceDim(bias, 0, start, size));
      start += size;
    }
    return splitHeads(node, x, heads);
  };
  FailureOr<Value> query = split(0), key, value;
  if (failed(query))
    return failure();
  if (packed) {
    SmallVector<Value> parts = unpacked(b, node.input(1), Value());
    return Projections{*query, parts[0], parts[1]};
  }
  if (failed(key = split(1)) || failed(value = split(2)))
    return failure();
  return Projections{*query, *key, *value};
}

static LogicalResult importMultiHeadAttention(Node &node) {
  if (failed(refuseInputs(node, {8, 9}, writtenInPlace)))
    return failure();
  FailureOr<Projections> in = readProjections(node);
  if (failed(in) || failed(checkProjections(node, *in)))
    return failure();
  if (node.hasInput(6) != node.hasInput(7))
    return node.error("past key and value must be given together");
  int64_t past = 0;
  if (node.hasInput(6)) {
    FailureOr<Value> key = appended(node, node.input(6), in->key), value;
    if (failed(key) || failed(value = appended(node, node.input(7), in->value)))
      return failure();
    past = node.inputType(6).getDimSize(2);
    in->key = *key, in->value = *value;
  }
  node.setOutput(1, in->key);
  node.setOutput(2, in->value);
  return attendMasked(node, *in, past, /*bias=*/5, /*mask=*/4);
}

/// Of x [batch, tokens, channels], by weights for queries, keys and values side by side.
static FailureOr<SmallVector<int64_t>> projectionSizes(Node &node) {
  ArrayRef<int64_t> x = node.inputType(0).getShape(), weights = node.inputType(1).getShape();
  if (x.size() != 3 || weights.size() != 2 || x[2] != weights[0])
    return node.error("cannot project " + printShape(x) + " by " + printShape(weights));
  SmallVector<int64_t> sizes(3, weights[1] / 3);
  if (auto given = node.integers("qkv_hidden_sizes"))
    sizes = *given;
  if (sizes.size() != 3 || llvm::any_of(sizes, [](int64_t size) { return size < 1; }) ||
      sizes[0] + sizes[1] + sizes[2] != weights[1])
    return node.error("weights " + printShape(weights) +
                      " do not split into queries, keys and values");
  return sizes;
}

/// Writes the outputs for projections that lie side by side in `joined`; behind what input `past`
/// holds of keys and values.
static LogicalResult attendJoined(Node &node, Value joined, ArrayRef<int64_t> sizes, size_t past,
                                  size_t bias, size_t mask) {
  TensorBuilder &b = node.b;
  int64_t heads = node.integer("num_heads", 0);
  Value parts[3];
  int64_t start = 0;
  for (int i = 0; i < 3; ++i) {
    FailureOr<Value> part = splitHeads(node, b.sliceDim(joined, 2, start, sizes[i]), heads);
    if (failed(part))
      return failure();
    parts[i] = *part;
    start += sizes[i];
  }
  int64_t before = 0;
  if (node.hasInput(past)) {
    ArrayRef<int64_t> shape = node.inputType(past).getShape();
    if (shape.size() != 5 || shape[0] != 2)
      return node.inputError(past, "must be of shape [2, batch, heads, tokens, size]");
    before = shape[3];
    for (int i : {1, 2}) {
      Value kept = b.squeeze(b.sliceDim(node.input(past), 0, i - 1, 1), {0});
      FailureOr<Value> whole = appended(node, kept, parts[i]);
      if (failed(whole))
        return failure();
      parts[i] = *whole;
    }
  }
  if (node.wants(1))
    node.setOutput(1, b.concat({b.unsqueeze(parts[1], {0}), b.unsqueeze(parts[2], {0})}, 0));
  return attendMasked(node, {parts[0], parts[1], parts[2]}, before, bias, mask);
}

/// With the projections of queries, keys and values as one product.
static LogicalResult importAttention(Node &node) {
  TensorBuilder &b = node.b;
  if (failed(refuseAttribute(node, "do_rotary", 0)) ||
      failed(refuseAttribute(node, "past_present_share_buffer", 0)) ||
      failed(refuseInputs(node, {6}, writtenInPlace)))
    return failure();
  FailureOr<SmallVector<int64_t>> sizes = projectionSizes(node);
  if (failed(sizes))
    return failure();
  Value joined = b.dot(node.input(0), node.input(1), {}, {}, {2}, {0});
  if (node.hasInput(2))
    joined = b.add(joined, node.input(2));
  return attendJoined(node, joined, *sizes, /*past=*/4, /*bias=*/5, /*mask=*/3);
}

/// With the projections as a product of whole numbers.
static LogicalResult importQAttention(Node &node) {
  TensorBuilder &b = node.b;
  if (failed(refuseAttribute(node, "do_rotary", 0)) ||
      failed(refuseAttribute(node, "past_present_share_buffer", 0)))
    return failure();
  FailureOr<SmallVector<int64_t>> sizes = projectionSizes(node);
  if (failed(sizes))
    return failure();
  if (node.inputType(3).getNumElements() != 1)
    return node.inputError(3, "must be one number");
  Type element = node.inputType(2).getElementType(), f32 = b.opBuilder().getF32Type();
  Value product = b.dot(centered(node, 0, 6, -1), centered(node, 1, 7, 1), {}, {}, {2}, {0});
  Value scale = b.mul(b.cast(node.input(4), f32), b.reshape(b.cast(node.input(3), f32), {}));
  if (TensorBuilder::typeOf(scale).getNumElements() == 1)
    scale = b.reshape(scale, {});
  Value joined = b.mul(b.cast(product, f32), scale);
  joined = b.cast(b.add(joined, b.cast(node.input(2), f32)), element);
  constexpr size_t none = 9; // there is no input for a bias of scores
  return attendJoined(node, joined, *sizes, /*past=*/8, none, /*mask=*/5);
}

//===-- rotary embedding ---------------------------------------------------------------------===//

/// Input 0 as [batch, heads, tokens, channels], of which tables in inputs 2 and 3 turn some.
/// Without a part that is turned it is all of a head, and heads need not be counted unless
/// `areCounted`.
static FailureOr<Value> turnedHeads(Node &node, bool areCounted) {
  if (failed(refuseAttribute(node, "is_packed_batching", 0)))
    return failure();
  if (node.floating("scale", 1) != 1)
    return node.error("attribute 'scale' is not supported: onnxruntime's CPU ignores it");
  Value x = node.input(0);
  int64_t rank = TensorBuilder::rankOf(x), heads = node.integer("num_heads", 0);
  ArrayRef<int64_t> table = node.inputType(2).getShape();
  if (rank < 3 || rank > 4)
    return node.inputError(0, "must have 3 or 4 dimensions");
  if (table.size() != 2 || table != node.inputType(3).getShape() || table[1] < 1)
    return node.error("cosines and sines must be tables of one shape");
  if (rank == 3) {
    areCounted |= node.integer("rotary_embedding_dim", 0) > 0;
    FailureOr<Value> split =
        splitHeads(node, x, areCounted ? heads : TensorBuilder::shapeOf(x)[2] / (2 * table[1]));
    if (failed(split))
      return failure();
    x = *split;
  }
  int64_t size = TensorBuilder::shapeOf(x)[3], rotated = node.integer("rotary_embedding_dim", 0);
  rotated = rotated ? rotated : size;
  if (rotated != 2 * table[1] || rotated > size)
    return node.error("tables of " + Twine(table[1]) + " angles do not turn " + Twine(rotated) +
                      " of " + Twine(size) + " channels");
  return x;
}

/// `x` turned by these cosines and sines, in the form of input 0.
static LogicalResult turn(Node &node, Value x, Value cosine, Value sine) {
  Value y = rotate(node.b, x, cosine, sine, node.integer("interleaved", 0) != 0);
  return node.result(node.inputType(0).getRank() == 3 ? mergeHeads(node.b, y) : y);
}

static LogicalResult importRotaryEmbedding(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> x = turnedHeads(node, /*areCounted=*/false);
  if (failed(x))
    return failure();
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(*x);
  Type i64 = b.opBuilder().getI64Type();
  Value positions = b.cast(node.input(1), i64);
  Shape one{1, shape[2]}, each{shape[0], shape[2]};
  if (node.inputType(1).getNumElements() == 1 && node.inputType(1).getRank() < 2)
    positions = b.add(b.iota(one, i64, 1), b.reshape(positions, {1, 1}));
  else if (node.inputType(1).getShape() != ArrayRef<int64_t>(each))
    return node.inputError(1, "must be of shape [1] or " + printShape(each));
  return turn(node, *x, rowsAt(b, node.input(2), positions), rowsAt(b, node.input(3), positions));
}

/// A token has a position in time, one in height and one in width; each turns a section of angles,
/// which lie one behind the other or by turns.
static LogicalResult importMRotaryEmbedding(Node &node) {
  TensorBuilder &b = node.b;
  FailureOr<Value> x = turnedHeads(node, /*areCounted=*/true);
  if (failed(x))
    return failure();
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(*x);
  Shape each{3, shape[0], shape[2]};
  if (node.inputType(1).getShape() != ArrayRef<int64_t>(each))
    return node.inputError(1, "must be of shape " + printShape(each));
  int64_t angles = node.inputType(2).getDimSize(1), layout = node.integer("mrope_layout", 0);
  SmallVector<int64_t> sections = node.integers("mrope_section").value_or(SmallVector<int64_t>());
  if (sections.size() != 3 ||
      llvm::any_of(sections, [&](int64_t n) { return n < 0 || n > angles; }) ||
      sections[0] + sections[1] + sections[2] != angles)
    return node.error("attribute 'mrope_section' must be three numbers that sum to " +
                      Twine(angles));
  if (layout != 0 && layout != 1)
    return node.error("attribute 'mrope_layout' must be 0 or 1, not " + Twine(layout));
  SmallVector<double> isOf(3 * angles, 0); // [3, angles]: 1 where a position turns an angle
  for (int64_t angle = 0; angle < angles; ++angle) {
    int64_t by = angle < sections[0] ? 0 : angle < sections[0] + sections[1] ? 1 : 2;
    if (layout == 1)
      by = angle < 3 * sections[angle % 3] ? angle % 3 : 0;
    isOf[by * angles + angle] = 1;
  }
  Value positions = b.cast(node.input(1), b.opBuilder().getI64Type());
  auto chosen = [&](size_t table) {
    Value rows = rowsAt(b, node.input(table), positions); // [3, batch, tokens, angles]
    Value mask = b.floats(isOf, {3, 1, 1, angles}, TensorBuilder::elementOf(rows));
    return b.reduce(ReduceKind::Sum, b.mul(rows, mask), {0});
  };
  return turn(node, *x, chosen(2), chosen(3));
}

/// Angles, queries and keys with their halves exchanged beside them.
static LogicalResult importGemmaRotaryEmbedding(Node &node) {
  TensorBuilder &b = node.b;
  if (node.inputType(0).getRank() != 3)
    return node.inputError(0, "must have 3 dimensions");
  Type element = node.inputType(1).getElementType();
  auto angles = [&](UnaryKind kind) {
    return b.unsqueeze(b.cast(b.unary(kind, node.input(0)), element), {1});
  };
  Value cosine = angles(UnaryKind::Cos), sine = angles(UnaryKind::Sin);
  for (size_t i : {0, 1})
    node.setOutput(i,
                   b.add(b.mul(node.input(1 + 2 * i), cosine), b.mul(node.input(2 + 2 * i), sine)));
  return success();
}

void mlir::autopar::addContribAttentionOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("MultiHeadAttention", {1}, {1, 10}, "mask_filter_value num_heads scale unidirectional",
            importMultiHeadAttention);
  table.add("QAttention", {1}, {5, 9},
            "do_rotary mask_filter_value num_heads past_present_share_buffer scale unidirectional",
            importQAttention);
  table.add("Attention", {1}, {2, 7},
            "do_rotary mask_filter_value num_heads past_present_share_buffer qkv_hidden_sizes "
            "rotary_embedding_dim scale unidirectional",
            importAttention);
  table.add("GroupQueryAttention", {1}, {1, 17},
            "causal do_rotary k_norm_epsilon k_quant_type kv_cache_bit_width kv_num_heads "
            "local_window_size num_heads q_norm_epsilon qk_norm_epsilon qk_output "
            "rotary_interleaved scale sliding_window_cache smooth_softmax softcap v_quant_type",
            importGroupQueryAttention);
  table.add("RotaryEmbedding", {1}, {4, 4},
            "interleaved is_packed_batching num_heads rotary_embedding_dim scale",
            importRotaryEmbedding);
  table.add("MRotaryEmbedding", {1}, {4, 4},
            "interleaved is_packed_batching mrope_layout mrope_section num_heads "
            "rotary_embedding_dim scale",
            importMRotaryEmbedding);
  table.add("GemmaRotaryEmbedding", {1}, {5, 5}, "", importGemmaRotaryEmbedding);
  table.inDomain("");
}
