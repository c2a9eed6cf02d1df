// SPDX-License-Identifier: Apache-2.0
// onnxruntime's mixture of experts, one of its contrib operators. Every expert computes every
// token, and what was not chosen counts nothing: so shapes are static, no token is dropped, and
// experts are a dimension that a plan may split.
#include "Activations.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {

class Experts {
public:
  explicit Experts(Node &node) : node(node), b(node.b) {}

  LogicalResult import() {
    if (failed(readShapes()))
      return failure();
    FailureOr<Value> weights = route();
    if (failed(weights))
      return failure();
    Value rows =
        b.broadcast(b.reshape(node.input(0), {tokens, hidden}), {experts, tokens, hidden}, {1, 2});
    FailureOr<Value> inner = between(rows);
    if (failed(inner))
      return failure();
    Value y = b.mul(linear(*inner, 4), b.unsqueeze(b.transpose(*weights, {1, 0}), {2}));
    return node.result(b.reshape(b.reduce(ReduceKind::Sum, y, {0}), node.inputType(0).getShape()));
  }

private:
  LogicalResult readShapes() {
    if (!node.hasInput(4))
      return node.inputError(4, "is missing");
    ArrayRef<int64_t> x = node.inputType(0).getShape(), scores = node.inputType(1).getShape();
    if (x.size() < 2 || x.size() > 3)
      return node.inputError(0, "must have 2 or 3 dimensions");
    hidden = x.back();
    tokens = ShapedType::getNumElements(x.drop_back());
    if (scores.size() != 2 || scores[0] != tokens)
      return node.inputError(1, "must be of shape [" + Twine(tokens) + ", experts]");
    experts = scores[1];
    ArrayRef<int64_t> second = node.inputType(4).getShape();
    if (second.size() != 3 || second[0] != experts || second[1] != hidden)
      return node.inputError(4, "must be of shape [" + Twine(experts) + ", " + Twine(hidden) +
                                    ", channels]");
    channels = second[2];
    isSwiGlu = node.string("activation_type", "relu") == "swiglu";
    fusion = node.integer("swiglu_fusion", 0);
    if (fusion < 0 || fusion > 2 || (fusion != 0 && !isSwiGlu))
      return node.error("attribute 'swiglu_fusion' must be 0, or with swiglu 1 or 2, not " +
                        Twine(fusion));
    if (node.hasInput(6) != (isSwiGlu && fusion == 0))
      return node.inputError(6, "belongs to swiglu with swiglu_fusion=0");
    for (size_t i : {2, 6})
      if (node.hasInput(i) &&
          node.inputType(i).getShape() !=
              ArrayRef<int64_t>{experts, fusion ? 2 * channels : channels, hidden})
        return node.inputError(i, "must be of shape [" + Twine(experts) + ", " +
                                      Twine(fusion ? 2 * channels : channels) + ", " +
                                      Twine(hidden) + "]");
    for (size_t i : {2, 4, 6})
      if (node.hasInput(i + 1) &&
          node.inputType(i + 1).getShape() != node.inputType(i).getShape().drop_back())
        return node.inputError(i + 1, "must hold one number for each row of input " + Twine(i));
    return success();
  }

  /// What each token makes of each expert, [tokens, experts]: of those with the largest scores
  /// their probability, else 0.
  FailureOr<Value> route() {
    int64_t chosen = node.integer("k", 1);
    if (node.integer("use_sparse_mixer", 0))
      return node.error(
          "attribute 'use_sparse_mixer' is not supported: onnxruntime's CPU ignores it");
    if (chosen < 1 || chosen > experts)
      return node.error("attribute 'k' must be 1 to " + Twine(experts) + ", not " + Twine(chosen));
    auto [largest, places] = b.topK(b.softmax(node.input(1), 1, /*log=*/false), chosen, 1,
                                    /*smallest=*/false);
    if (node.integer("normalize_routing_weights", 0))
      largest = b.div(largest, b.reduce(ReduceKind::Sum, largest, {1}, /*keepDims=*/true));
    Shape all{tokens, chosen, experts};
    Value isChosen = b.compare(ComparePredicate::Eq, b.unsqueeze(places, {2}),
                               b.iota(all, b.opBuilder().getI64Type(), 2));
    Value spread =
        b.mul(b.unsqueeze(largest, {2}), b.cast(isChosen, TensorBuilder::elementOf(largest)));
    return b.cast(b.reduce(ReduceKind::Sum, spread, {1}), node.inputType(0).getElementType());
  }

  /// x [experts, tokens, channels] by the weights of input `i` and, if given, the bias behind it.
  Value linear(Value x, size_t i) {
    Value y = b.dot(x, node.input(i), {0}, {0}, {2}, {2});
    return node.hasInput(i + 1) ? b.add(y, b.unsqueeze(node.input(i + 1), {1})) : y;
  }

  /// What lies between an expert's two products.
  FailureOr<Value> between(Value rows) {
    Value x = linear(rows, 2);
    if (isSwiGlu)
      return swiGlu(fusion == 0 ? std::pair(x, linear(rows, 6)) : halves(x));
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
    Shape shape{experts, tokens, channels};
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
  int64_t tokens = 0, hidden = 0, experts = 0, channels = 0, fusion = 0;
  bool isSwiGlu = false;
};

} // namespace

static LogicalResult importMoe(Node &node) { return Experts(node).import(); }

void mlir::autopar::addContribExpertOperators(OperatorTable &table) {
  table.inDomain("com.microsoft");
  table.add("MoE", {1}, {3, 8},
            "activation_alpha activation_beta activation_type k normalize_routing_weights "
            "swiglu_fusion swiglu_limit use_sparse_mixer",
            importMoe);
  table.inDomain("");
}
