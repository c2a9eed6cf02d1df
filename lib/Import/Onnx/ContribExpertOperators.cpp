// SPDX-License-Identifier: Apache-2.0
// onnxruntime's mixtures of experts: MoE, and QMoE with quantized weights. A token is multiplied by
// the matrices of the experts that it chooses: so shapes are static, and no token is dropped.
#include "Activations.h"
#include "ExpertWeights.h"

#include "llvm/ADT/StringSwitch.h"

#include <array>

using namespace mlir;
using namespace mlir::autopar;

namespace {

/// What a mixture of experts calls its linear layers.
enum Layer { First, Second, Third };

/// Which inputs of an operator are what.
struct ExpertOperator {
  std::array<ExpertInputs, 3> layers;
  /// Whether weights are quantized; then only those scores that are chosen make probabilities.
  bool isQuantized;
  /// What chosen experts count, instead of their scores; MoE has no such input.
  std::optional<size_t> mixing;
};

class Experts {
public:
  Experts(Node &node, const ExpertOperator &op) : node(node), b(node.b), op(op) {}

  LogicalResult import() {
    if (failed(readShapes()))
      return failure();
    FailureOr<Value> counts = route();
    if (failed(counts))
      return failure();
    Value rows =
        b.broadcast(b.reshape(node.input(0), {tokens, hidden}), {tokens, chosen, hidden}, {0, 2});
    FailureOr<Value> inner = between(rows);
    if (failed(inner))
      return failure();
    FailureOr<Value> outer = linear(*inner, Second);
    if (failed(outer))
      return failure();
    Value y = b.mul(*outer, b.unsqueeze(*counts, {2}));
    return node.result(b.reshape(b.reduce(ReduceKind::Sum, y, {1}), node.inputType(0).getShape()));
  }

private:
  LogicalResult readShapes() {
    size_t second = op.layers[Second].weight, third = op.layers[Third].weight;
    if (!node.hasInput(second))
      return node.inputError(second, "is missing");
    ArrayRef<int64_t> x = node.inputType(0).getShape(), scores = node.inputType(1).getShape();
    if (x.size() < 2 || x.size() > 3)
      return node.inputError(0, "must have 2 or 3 dimensions");
    hidden = x.back();
    tokens = ShapedType::getNumElements(x.drop_back());
    if (scores.size() != 2 || scores[0] != tokens)
      return node.inputError(1, "must be of shape [" + Twine(tokens) + ", experts]");
    experts = scores[1];
    ExpertPacking packing;
    if (op.isQuantized) {
      FailureOr<ExpertPacking> packed = readExpertPacking(node);
      if (failed(packed))
        return failure();
      packing = *packed;
    }
    ArrayRef<int64_t> out = node.inputType(second).getShape();
    if (out.size() != 3 || out[0] != experts || out[1] != hidden)
      return node.inputError(second, "must be of shape [" + Twine(experts) + ", " + Twine(hidden) +
                                         ", " + (op.isQuantized ? "bytes]" : "channels]"));
    channels = out[2] * packing.perByte();
    isSwiGlu = node.string("activation_type", "relu") == "swiglu";
    fusion = node.integer("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2 || (fusion != 0 && !isSwiGlu))
      return node.error("attribute 'swiglu_fusion' must be 0, or with swiglu 1 or 2, not " +
                        Twine(fusion));
    if (node.integer("swiglu_limit_after_activation", 0))
      return node.error("attribute 'swiglu_limit_after_activation' is not supported: onnxruntime's "
                        "CPU refuses it");
    if (node.hasInput(third) != (isSwiGlu && fusion == 0))
      return node.inputError(third, "belongs to swiglu with swiglu_fusion=0");
    for (Layer layer : {First, Second, Third}) {
      const ExpertInputs &inputs = op.layers[layer];
      if (!node.hasInput(inputs.weight))
        continue;
      Shape shape{experts, layer == First && fusion ? 2 * channels : channels, hidden};
      if (layer == Second)
        shape = {experts, hidden, channels};
      FailureOr<ExpertWeights> read = ExpertWeights::read(node, inputs, shape, packing);
      if (failed(read))
        return failure();
      layers[layer] = *read;
      if (node.hasInput(inputs.bias) &&
          node.inputType(inputs.bias).getShape() != ArrayRef<int64_t>(shape).drop_back())
        return node.inputError(inputs.bias, "must hold one number for each row of input " +
                                                Twine(inputs.weight));
    }
    return success();
  }

  /// Finds the experts of each token and tells what these count in its result, [tokens, chosen].
  FailureOr<Value> route() {
    chosen = node.integer("k", 1);
    if (node.integer("use_sparse_mixer", 0))
      return node.error(
          "attribute 'use_sparse_mixer' is not supported: onnxruntime's CPU ignores it");
    if (chosen < 1 || chosen > experts)
      return node.error("attribute 'k' must be 1 to " + Twine(experts) + ", not " + Twine(chosen));
    Value scores = b.cast(node.input(1), b.opBuilder().getF32Type());
    if (!op.isQuantized)
      scores = b.softmax(scores, 1, /*log=*/false);
    auto [largest, best] = b.topK(scores, chosen, 1, /*smallest=*/false);
    places = best;
    FailureOr<Value> counts = mixed(largest);
    if (failed(counts))
      return failure();
    return b.cast(*counts, node.inputType(0).getElementType());
  }

  /// What the chosen experts count, [tokens, chosen]: of MoE their probabilities among all experts.
  /// Of QMoE, as onnxruntime's CPU has it, those among the chosen ones, whatever
  /// normalize_routing_weights is, or what an input says of them as far as it is positive.
  FailureOr<Value> mixed(Value largest) {
    bool normalizes = node.integer("normalize_routing_weights", 0) != 0;
    bool isGiven = op.mixing && node.hasInput(*op.mixing);
    if (op.isQuantized && !isGiven)
      return b.softmax(largest, 1, /*log=*/false);
    if (isGiven) {
      if (node.inputType(*op.mixing).getShape() != ArrayRef<int64_t>{tokens, experts})
        return node.inputError(*op.mixing, "must be of shape " + printShape({tokens, experts}));
      largest = b.cast(b.gatherElements(node.input(*op.mixing), places, 1),
                       TensorBuilder::elementOf(largest));
    }
    if (normalizes) {
      Value sum = b.reduce(ReduceKind::Sum, largest, {1}, /*keepDims=*/true);
      Value shares = b.div(largest, sum);
      if (isGiven) // of nothing everything is nothing
        shares = b.select(b.compare(ComparePredicate::Eq, sum, b.splatLike(sum, 0)),
                          b.splatLike(shares, 0), shares);
      largest = shares;
    }
    if (!isGiven)
      return largest;
    constexpr double least = 1e-8; // as onnxruntime's CPU has it
    return b.select(b.compare(ComparePredicate::Gt, largest, b.splatLike(largest, least)), largest,
                    b.splatLike(largest, 0));
  }

  /// x [tokens, chosen, channels] by its experts' weights of a layer and, if given, their biases.
  FailureOr<Value> linear(Value x, Layer layer) {
    Type element = TensorBuilder::elementOf(x);
    FailureOr<Value> weights = layers[layer].matrices(node, element);
    if (failed(weights))
      return failure();
    Value y = b.groupedDot(x, *weights, places, /*transposed=*/true);
    size_t bias = op.layers[layer].bias;
    if (!node.hasInput(bias))
      return y;
    Value own = b.gather(b.cast(node.input(bias), element), b.unsqueeze(places, {2}), {0}, 0);
    return b.add(y, own);
  }

  /// What lies between an expert's two products.
  FailureOr<Value> between(Value rows) {
    FailureOr<Value> first = linear(rows, First);
    if (failed(first))
      return failure();
    Value x = *first;
    if (isSwiGlu && fusion == 0) {
      FailureOr<Value> third = linear(rows, Third);
      if (failed(third))
        return failure();
      return swiGlu({x, *third});
    }
    if (isSwiGlu)
      return swiGlu(halves(x));
    std::string name = node.string("activation_type", "relu");
    if (name == "identity")
      return x;
    auto kind = llvm::StringSwitch<std::optional<UnaryKind>>(name)
                    .Case("relu", UnaryKind::Relu)
                    .Case("silu", UnaryKind::Silu)
                    .Case("gelu", UnaryKind::GeluTanh) // as onnxruntime's CPU has it
                    .Default(std::nullopt);
    if (!kind)
      return node.error("attribute 'activation_type' must be relu, gelu, silu, swiglu or identity, "
                        "not '" +
                        name + "'");
    return b.unary(*kind, x);
  }

  /// Gates and values of one product: next to each other, or one behind the other.
  std::pair<Value, Value> halves(Value x) {
    Shape shape{tokens, chosen, channels};
    int64_t dim = fusion == 1 ? 3 : 2;
    shape.insert(shape.begin() + dim, 2);
    x = b.reshape(x, shape);
    return {b.squeeze(b.sliceDim(x, dim, 0, 1), {dim}), b.squeeze(b.sliceDim(x, dim, 1, 1), {dim})};
  }

  Value swiGlu(std::pair<Value, Value> parts) {
    auto [gate, value] = parts;
    if (node.hasAttribute("swiglu_limit")) {
      double limit = node.floating("swiglu_limit", 0);
      gate = b.binary(BinaryKind::Min, gate, limit);
      value = b.binary(BinaryKind::Max, b.binary(BinaryKind::Min, value, limit), -limit);
    }
    if (double beta = node.floating("activation_beta", 0); beta != 0)
      value = b.binary(BinaryKind::Add, value, beta);
    return b.mul(swish(b, gate, node.floating("activation_alpha", 1)), value);
  }

  Node &node;
  TensorBuilder &b;
  const ExpertOperator &op;
  std::array<ExpertWeights, 3> layers;
  Value places; ///< which experts a token has, [tokens, chosen]
  int64_t tokens = 0, hidden = 0, experts = 0, channels = 0, chosen = 0, fusion = 0;
  bool isSwiGlu = false;
};

} // namespace

static LogicalResult importMoe(Node &node) {
  static constexpr ExpertOperator op{{{{2, 3}, {4, 5}, {6, 7}}}, /*isQuantized=*/false, {}};
  return Experts(node, op).import();
}

static LogicalResult importQMoe(Node &node) {
  static constexpr ExpertOperator op{
      {{{2, 4, 3, 11}, {5, 7, 6, 12}, {8, 10, 9, 13}}}, /*isQuantized=*/true, /*mixing=*/14};
  return Experts(node, op).import();
}

void mlir::autopar::addContribExpertOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("MoE", {1}, {3, 8},
            "activation_alpha activation_beta activation_type k normalize_routing_weights "
            "swiglu_fusion swiglu_limit swiglu_limit_after_activation use_sparse_mixer",
            importMoe);
  table.add("QMoE", {1}, {3, 21},
            "accuracy_level activation_alpha activation_beta activation_type block_size "
            "expert_weight_bits fc1_expert_weight_bits fc2_expert_weight_bits "
            "fc3_expert_weight_bits k normalize_routing_weights quant_type swiglu_fusion "
            "swiglu_limit swiglu_limit_after_activation use_sparse_mixer weights_prepacked",
            importQMoe);
  table.inDomain("");
}
