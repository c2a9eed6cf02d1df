// SPDX-License-Identifier: Apache-2.0
// ModelProto.training_info: the model brings its own training step. Initializers that it binds
// become state; what an initialization computes holds in the first step.
#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

/// What a Gradient node cuts the graph at must not be folded away.
void GraphImporter::findDifferentiated() {
  auto look = [&](const onnx::GraphProto &graph) {
    for (const onnx::NodeProto &node : graph.node())
      for (const onnx::AttributeProto &attribute : node.attribute())
        if (node.op_type() == "Gradient" && (attribute.name() == "xs" || attribute.name() == "zs"))
          for (const std::string &name : attribute.strings())
            differentiated.insert(name);
  };
  look(file.model().graph());
  for (const onnx::TrainingInfoProto &info : file.model().training_info())
    look(info.algorithm());
}

LogicalResult GraphImporter::findState() {
  for (const onnx::TrainingInfoProto &info : file.model().training_info()) {
    for (const auto &binding : info.initialization_binding())
      if (!initialValues.insert({binding.key(), {&info, binding.value()}}).second)
        return builder.fail("training_info initializes '" + StringRef(binding.key()) + "' twice");
    for (const auto &binding : info.update_binding())
      if (!updates.insert({binding.key(), binding.value()}).second)
        return builder.fail("training_info updates '" + StringRef(binding.key()) + "' twice");
  }
  for (const auto &[name, initial] : initialValues)
    if (!updates.count(name))
      return builder.fail("training_info initializes '" + name + "', but never updates it");
  return success();
}

/// The argument that says the number of the step.
Value GraphImporter::stepNumber() {
  if (!step) {
    step = block->addArgument(RankedTensorType::get({}, builder.opBuilder().getI64Type()),
                              module.getLoc());
    arguments.push_back({"control.step", {}});
  }
  return step;
}

FailureOr<Value> GraphImporter::importState(const onnx::TensorProto &tensor, StringRef name,
                                            RankedTensorType type, const TensorPlace &place) {
  Value state, initial;
  if (place.kind == TensorPlace::Message) {
    std::string error;
    FailureOr<DenseElementsAttr> values =
        tensorValues(tensor, file, module.getContext(), INT64_MAX, error);
    if (failed(values))
      return builder.fail("initializer '" + name + "': " + error);
    initial = builder.constant(*values);
    state = block->addArgument(type, module.getLoc());
    arguments.push_back({name.str(), {}});
  } else {
    state = addParameter(type, name, place, tensor);
  }
  states[name] = state;
  if (auto found = initialValues.find(name.str()); found != initialValues.end()) {
    FailureOr<Value> computed = importInitialValue(*found->second.first, found->second.second);
    if (failed(computed))
      return failure();
    if (computed->getType() != type)
      return builder.fail("training_info initializes '" + name + "' with a value of another type");
    initial = *computed;
  }
  if (!initial)
    return state;
  Value isFirst = builder.compare(ComparePredicate::Eq, stepNumber(),
                                  builder.scalar(builder.opBuilder().getI64Type(), int64_t{0}));
  return builder.select(isFirst, initial, state);
}

FailureOr<Value> GraphImporter::importInitialValue(const onnx::TrainingInfoProto &info,
                                                   StringRef output) {
  std::unique_ptr<Scope> &scope = initializationScopes[&info];
  std::string subject = builder.getSubject();
  Location location = builder.getLoc();
  std::vector<Operation *> pending = builder.takeCreated();
  if (!scope) {
    scope = std::make_unique<Scope>();
    scope->versions = &modelVersions;
    scope->prefix = "initialization/";
    std::vector<const onnx::NodeProto *> nodes;
    for (const onnx::TensorProto &tensor : info.initialization().initializer())
      scope->initializers[tensor.name()] = &tensor;
    for (const onnx::NodeProto &node : info.initialization().node())
      nodes.push_back(&node);
    if (failed(importNodes(nodes, *scope)))
      return failure();
  }
  FailureOr<ImportedValue> value = lookUp(output, *scope, "output of the initialization");
  if (failed(value))
    return failure();
  builder.setSubject(subject);
  builder.setLoc(location);
  builder.requeue(pending);
  if (value->kind != ImportedValue::Tensor)
    return builder.fail("training_info: the initial value '" + output + "' is no tensor");
  return value->tensor;
}

LogicalResult GraphImporter::importTrainingStep(Scope &scope) {
  for (const onnx::TrainingInfoProto &info : file.model().training_info()) {
    for (const onnx::TensorProto &tensor : info.algorithm().initializer())
      scope.initializers[tensor.name()] = &tensor;
    if (failed(importInputs(info.algorithm(), scope)))
      return failure();
  }
  for (const onnx::TrainingInfoProto &info : file.model().training_info()) {
    std::vector<const onnx::NodeProto *> nodes;
    for (const onnx::NodeProto &node : info.algorithm().node())
      nodes.push_back(&node);
    if (failed(importNodes(nodes, scope)))
      return failure();
  }
  for (const auto &[name, output] : updates) {
    FailureOr<ImportedValue> next = lookUp(output, scope, "next value");
    if (failed(next) || failed(lookUp(name, scope, "updated initializer")))
      return failure();
    Value state = states.lookup(name);
    if (!state)
      return builder.fail("training_info updates '" + StringRef(name) +
                          "', which is no initializer");
    if (next->kind != ImportedValue::Tensor || next->tensor.getType() != state.getType())
      return builder.fail("training_info updates '" + StringRef(name) + "' with '" + output +
                          "', which is of another type");
    stateUpdates[state] = next->tensor;
    boundOutputs.insert(output);
  }
  return success();
}
