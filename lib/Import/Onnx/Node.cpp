// SPDX-License-Identifier: Apache-2.0
// Access to a node's inputs, attributes and subgraphs.
#include "Node.h"

#include "GraphImporter.h"
#include "Proto.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

ImportedValue ImportedValue::list(Kind kind, std::vector<ImportedValue> items) {
  ImportedValue value;
  value.kind = kind;
  value.items = std::make_shared<std::vector<ImportedValue>>(std::move(items));
  return value;
}

std::string mlir::autopar::givenId(const onnx::NodeProto &node, size_t index) {
  return node.name().empty() ? node.op_type() + "_" + std::to_string(index) : node.name();
}

Node::Node(GraphImporter &importer, Scope &scope, const onnx::NodeProto &proto, std::string id,
           int64_t version)
    : b(importer.getBuilder()), version(version), importer(importer), scope(scope), proto(proto),
      name(std::move(id)), outputs(proto.output_size()) {}

StringRef Node::opType() const { return proto.op_type(); }

LogicalResult Node::error(const Twine &message) { return b.fail(message); }

LogicalResult Node::inputError(size_t i, const Twine &message) {
  StringRef given =
      i < static_cast<size_t>(proto.input_size()) ? StringRef(proto.input(i)) : StringRef();
  return error("input " + Twine(i) + " '" + given + "' " + message);
}

LogicalResult Node::unknownInput(size_t i, const Twine &why) {
  StringRef absent = importer.absentFileOf(input(i));
  return inputError(i, "must be known at compile time" + why +
                           (absent.empty()
                                ? Twine()
                                : "; its values lie in '" + absent + "', which does not exist"));
}

//===-- inputs -------------------------------------------------------------------------------===//

FailureOr<SmallVector<int64_t>> Node::constantIntegers(size_t i) {
  if (!input(i)) // a sequence or optional
    return inputError(i, "must be a tensor");
  if (std::optional<SmallVector<int64_t>> values = b.integersOf(input(i)))
    return *values;
  return unknownInput(i, " and of integers: shapes are static");
}

FailureOr<SmallVector<double>> Node::constantFloats(size_t i) {
  if (!input(i)) // a sequence or optional
    return inputError(i, "must be a tensor");
  if (std::optional<SmallVector<double>> values = b.floatsOf(input(i)))
    return *values;
  return unknownInput(i, " and of floats: shapes are static");
}

FailureOr<std::optional<SmallVector<int64_t>>> Node::integersFrom(size_t i, StringRef attribute) {
  if (!hasInput(i))
    return integers(attribute);
  FailureOr<SmallVector<int64_t>> values = constantIntegers(i);
  if (failed(values))
    return failure();
  return std::optional(*values);
}

FailureOr<int64_t> Node::axis(int64_t value, int64_t rank) {
  if (value < -rank || value >= rank)
    return error("axis " + Twine(value) + " is out of range for rank " + Twine(rank));
  return value < 0 ? value + rank : value;
}

FailureOr<SmallVector<int64_t>> Node::axes(ArrayRef<int64_t> values, int64_t rank) {
  SmallVector<int64_t> sorted;
  for (int64_t value : values) {
    FailureOr<int64_t> dim = axis(value, rank);
    if (failed(dim))
      return failure();
    sorted.push_back(*dim);
  }
  llvm::sort(sorted);
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end())
    return error("an axis is repeated");
  return sorted;
}

//===-- attributes ---------------------------------------------------------------------------===//

const onnx::AttributeProto *Node::attribute(StringRef attributeName) const {
  for (const onnx::AttributeProto &attribute : proto.attribute()) {
    if (StringRef(attribute.name()) != attributeName)
      continue;
    if (attribute.ref_attr_name().empty())
      return &attribute;
    return scope.functionAttribute(attribute.ref_attr_name());
  }
  return nullptr;
}

bool Node::hasAttribute(StringRef attributeName) const {
  return attribute(attributeName) != nullptr;
}

void Node::wrongType(StringRef attributeName, StringRef expected) {
  (void)error("attribute '" + attributeName + "' must be " + expected);
}

/// Attributes of very old files have no type; their one field counts.
static bool isOf(const onnx::AttributeProto &attribute, onnx::AttributeProto::AttributeType type) {
  return attribute.type() == type || attribute.type() == onnx::AttributeProto::UNDEFINED;
}

int64_t Node::integer(StringRef attributeName, int64_t otherwise) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return otherwise;
  if (!isOf(*found, onnx::AttributeProto::INT))
    wrongType(attributeName, "an integer");
  return found->i();
}

double Node::floating(StringRef attributeName, double otherwise) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return otherwise;
  if (!isOf(*found, onnx::AttributeProto::FLOAT))
    wrongType(attributeName, "a float");
  return found->f();
}

std::string Node::string(StringRef attributeName, StringRef otherwise) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return otherwise.str();
  if (!isOf(*found, onnx::AttributeProto::STRING))
    wrongType(attributeName, "a string");
  return found->s();
}

std::optional<SmallVector<int64_t>> Node::integers(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return std::nullopt;
  if (!isOf(*found, onnx::AttributeProto::INTS))
    wrongType(attributeName, "a list of integers");
  return SmallVector<int64_t>(found->ints().begin(), found->ints().end());
}

std::optional<SmallVector<double>> Node::floats(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return std::nullopt;
  if (!isOf(*found, onnx::AttributeProto::FLOATS))
    wrongType(attributeName, "a list of floats");
  return SmallVector<double>(found->floats().begin(), found->floats().end());
}

std::optional<SmallVector<std::string>> Node::strings(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found)
    return std::nullopt;
  if (!isOf(*found, onnx::AttributeProto::STRINGS))
    wrongType(attributeName, "a list of strings");
  return SmallVector<std::string>(found->strings().begin(), found->strings().end());
}

FailureOr<Type> Node::elementType(StringRef attributeName, Type otherwise) {
  if (!hasAttribute(attributeName))
    return otherwise;
  int64_t number = integer(attributeName, 0);
  int dataType = number >= 0 && number < 1000 ? static_cast<int>(number) : 0;
  Type type = elementTypeOf(dataType, b.getContext());
  if (!type)
    return error("element type " + dataTypeName(dataType) + " is not supported");
  return type;
}

FailureOr<Value> Node::tensor(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found || !found->has_t())
    return error("attribute '" + attributeName + "' must be a tensor");
  return importer.importTensor(found->t(), name, /*isInitializer=*/false);
}

//===-- subgraphs ----------------------------------------------------------------------------===//

size_t Node::subgraphInputCount(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  return found ? found->g().input_size() : 0;
}

size_t Node::subgraphOutputCount(StringRef attributeName) {
  const onnx::AttributeProto *found = attribute(attributeName);
  return found ? found->g().output_size() : 0;
}

FailureOr<SmallVector<ImportedValue>>
Node::subgraph(StringRef attributeName, ArrayRef<ImportedValue> arguments, const Twine &suffix) {
  const onnx::AttributeProto *found = attribute(attributeName);
  if (!found || !found->has_g())
    return error("attribute '" + attributeName + "' must be a graph");
  if (static_cast<size_t>(found->g().input_size()) != arguments.size())
    return error("graph '" + attributeName + "' takes " + Twine(found->g().input_size()) +
                 " inputs, " + Twine(arguments.size()) + " are given");
  return importer.importSubgraph(found->g(), scope, arguments, (name + "/" + suffix).str());
}

//===-- outputs ------------------------------------------------------------------------------===//

size_t Node::outputCount() const { return proto.output_size(); }

bool Node::wants(size_t i) const {
  return i < static_cast<size_t>(proto.output_size()) && !proto.output(i).empty();
}

void Node::setOutput(size_t i, ImportedValue value) {
  if (i < outputs.size())
    outputs[i] = std::move(value);
}

int64_t Node::randomStream() { return importer.nextRandomStream(); }

FailureOr<ImportedValue> Node::named(StringRef name) {
  return importer.lookUp(name, scope, "tensor");
}

bool Node::isOfTraining() const { return importer.getOptions().trainingMode; }

bool Node::trains(bool asExported) {
  bool trains = !importer.getOptions().inferenceMode && (asExported || isOfTraining());
  if (trains != asExported)
    ++importer.switchedMode[opType().str()];
  else if (trains)
    ++importer.exportedTraining[opType().str()];
  return trains;
}

Value Node::unlessEvaluated(Value trained, Value evaluated) {
  if (!isOfTraining())
    return trained;
  Value flag = importer.isEvaluation();
  ArrayRef<int64_t> shape = TensorBuilder::shapeOf(trained);
  return b.select(shape.empty() ? flag : b.broadcast(flag, shape, {}), evaluated, trained);
}

Value Node::state(size_t i) const {
  Value next = importer.stateUpdates.lookup(input(i));
  return next ? next : input(i);
}

void Node::updateState(size_t i, Value next) {
  if (isOfTraining() && importer.isParameter(input(i)))
    importer.stateUpdates[input(i)] = next;
}
