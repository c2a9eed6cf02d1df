// SPDX-License-Identifier: Apache-2.0
// Gradient of domain ai.onnx.preview.training: the part of the graph between some tensors and y is
// built again on the values given, and differentiated.
#include "Node.h"
#include "autopar/Dialect/AutoPar/Gradients/Differentiate.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
/// The graph between the tensors named `xs`, `zs` and the one named `y`.
class Gradient {
public:
  explicit Gradient(Node &node)
      : node(node), builder(node.b.opBuilder()), loc(node.b.getLoc()),
        xs(node.strings("xs").value_or(SmallVector<std::string>())), names(xs) {
    llvm::append_range(names, node.strings("zs").value_or(SmallVector<std::string>()));
  }

  LogicalResult import() {
    if (xs.empty() || names.size() != node.inputCount())
      return node.error("needs one input for each of the " + Twine(names.size()) +
                        " tensors named in attributes xs and zs, and at least one in xs");
    FailureOr<Value> y = tensorCalled(node.string("y", ""));
    if (failed(y))
      return failure();
    if (!TensorBuilder::isFloat(*y))
      return node.error("y must hold floats");
    for (auto [i, name] : llvm::enumerate(names))
      if (failed(cutAt(i, name)))
        return failure();
    build(*y);
    LogicalResult result = differentiateBy(cuts.lookupOrDefault(*y));
    for (Operation *op : fences) {
      op->getResult(0).replaceAllUsesWith(op->getOperand(0));
      op->erase();
    }
    return result;
  }

private:
  FailureOr<Value> tensorCalled(StringRef name) {
    FailureOr<ImportedValue> value = node.named(name);
    if (failed(value))
      return failure();
    if (value->kind != ImportedValue::Tensor)
      return node.error("'" + name + "' is no tensor");
    return value->tensor;
  }

  /// Input `i` takes the place of the tensor called `name`, behind a fence that no derivative
  /// passes: what the input itself depends on is another matter.
  LogicalResult cutAt(size_t i, StringRef name) {
    FailureOr<Value> tensor = tensorCalled(name);
    if (failed(tensor))
      return failure();
    if (tensor->getType() != node.input(i).getType())
      return node.inputError(i, "must be of the type of '" + name + "'");
    if (tensor->getDefiningOp<ConstantOp>())
      return node.error("'" + name +
                        "' is a constant: store it as raw_data (onnx.numpy_helper.from_array)");
    if (cuts.contains(*tensor))
      return node.error("'" + name + "' is the same tensor as another one in xs and zs");
    auto fence = CastOp::create(builder, loc, tensor->getType(), node.input(i));
    fences.push_back(fence);
    cuts.map(*tensor, fence.getResult());
    if (i < xs.size())
      values.push_back(fence);
    return success();
  }

  /// Builds what `y` needs of what depends on the cuts.
  void build(Value y) {
    DenseSet<Value> needed{y};
    SmallVector<Operation *> chosen;
    for (Operation &op : llvm::reverse(*builder.getInsertionBlock())) {
      if (llvm::none_of(op.getResults(), [&](Value value) { return needed.contains(value); }))
        continue;
      needed.insert(op.operand_begin(), op.operand_end());
      chosen.push_back(&op);
    }
    for (Operation *op : llvm::reverse(chosen)) {
      bool isCut = llvm::any_of(op->getResults(), [&](Value v) { return cuts.contains(v); });
      if (isCut || llvm::none_of(op->getOperands(), [&](Value v) { return cuts.contains(v); }))
        continue;
      Operation *copy = builder.clone(*op, cuts);
      setOpId(copy, (node.id() + "/" + getOpId(op)).str());
    }
  }

  LogicalResult differentiateBy(Value y) {
    Attribute one = builder.getFloatAttr(TensorBuilder::elementOf(y), 1);
    Value ones =
        ConstantOp::create(builder, loc, DenseElementsAttr::get(TensorBuilder::typeOf(y), one));
    FailureOr<SmallVector<Value>> gradients = differentiate(builder, y, values, {{y, ones}});
    if (failed(gradients))
      return node.error("cannot be differentiated");
    for (auto [i, gradient] : llvm::enumerate(*gradients))
      node.setOutput(i, gradient ? gradient : node.b.splatLike(values[i], 0));
    return success();
  }

  Node &node;
  OpBuilder &builder;
  Location loc;
  SmallVector<std::string> xs, names;
  IRMapping cuts;
  SmallVector<Operation *> fences;
  SmallVector<Value> values;
};
} // namespace

static LogicalResult importGradient(Node &node) { return Gradient(node).import(); }

void mlir::autopar::addDifferentiationOperators(OperatorTable &table) {
  table.inDomain("ai.onnx.preview.training");
  table.add("Gradient", {1}, {1, -1}, "xs y zs", importGradient);
  table.inDomain("");
}
