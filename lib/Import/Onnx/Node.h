// SPDX-License-Identifier: Apache-2.0
// One ONNX node as its importer sees it: inputs, attributes, outputs, and the builder for its
// operations.
#pragma once

#include "OperatorTable.h"
#include "TensorBuilder.h"

#include <memory>

namespace autopar_onnx {
class AttributeProto;
class NodeProto;
} // namespace autopar_onnx

namespace mlir::autopar {

class GraphImporter;
struct Scope;

/// What an ONNX name stands for. Sequences and optionals exist only during import, as lists.
struct ImportedValue {
  enum Kind { None, Tensor, Sequence, Optional } kind = None;
  Value tensor;
  std::shared_ptr<std::vector<ImportedValue>> items;

  ImportedValue() = default;
  ImportedValue(Value value) : kind(Tensor), tensor(value) {}
  static ImportedValue list(Kind kind, std::vector<ImportedValue> items);
};

/// What a node is called in ids: its name, or its operator and place in its graph.
std::string givenId(const autopar_onnx::NodeProto &node, size_t index);

class Node {
public:
  Node(GraphImporter &importer, Scope &scope, const autopar_onnx::NodeProto &proto, std::string id,
       int64_t version);

  /// Builds this node's operations.
  TensorBuilder &b;
  const int64_t version;

  StringRef opType() const;
  /// As it stands in the model.
  const autopar_onnx::NodeProto &source() const { return proto; }
  /// Unique name of the node in the module.
  StringRef id() const { return name; }
  /// Reports `message` with node and operator, which are the builder's subject; fails.
  LogicalResult error(const Twine &message);
  /// As `error`, naming input `i` too.
  LogicalResult inputError(size_t i, const Twine &message);
  /// Input `i` "must be known at compile time" and what `why` adds; says it where its values lie in
  /// a file that does not exist.
  LogicalResult unknownInput(size_t i, const Twine &why);

  // Inputs. Those below the entry's least arity are present, others may be missing.
  size_t inputCount() const { return inputs.size(); }
  bool hasInput(size_t i) const {
    return i < inputs.size() && inputs[i].kind != ImportedValue::None;
  }
  Value input(size_t i) const { return inputs[i].tensor; }
  const ImportedValue &anyInput(size_t i) const { return inputs[i]; }
  ArrayRef<ImportedValue> anyInputs() const { return inputs; }
  RankedTensorType inputType(size_t i) const { return TensorBuilder::typeOf(input(i)); }
  /// The integers of an input that must be known at compile time.
  FailureOr<SmallVector<int64_t>> constantIntegers(size_t i);
  FailureOr<SmallVector<double>> constantFloats(size_t i);
  /// A known integer vector from input `i`, or from attribute `attribute` in older versions;
  /// nothing if neither is given.
  FailureOr<std::optional<SmallVector<int64_t>>> integersFrom(size_t i, StringRef attribute);
  /// An axis counted from the end if negative, checked against `rank`.
  FailureOr<int64_t> axis(int64_t value, int64_t rank);
  /// Axes checked, made positive and sorted; a repeated one is an error.
  FailureOr<SmallVector<int64_t>> axes(ArrayRef<int64_t> values, int64_t rank);

  // Attributes; one of the wrong type is an error that also fails the builder.
  bool hasAttribute(StringRef name) const;
  int64_t integer(StringRef name, int64_t otherwise);
  double floating(StringRef name, double otherwise);
  std::string string(StringRef name, StringRef otherwise);
  std::optional<SmallVector<int64_t>> integers(StringRef name);
  std::optional<SmallVector<double>> floats(StringRef name);
  std::optional<SmallVector<std::string>> strings(StringRef name);
  /// The element type that an attribute names by ONNX number; `otherwise` where it is missing.
  FailureOr<Type> elementType(StringRef name, Type otherwise);
  /// The tensor in an attribute, as a constant or (if large) a parameter.
  FailureOr<Value> tensor(StringRef name);

  /// The value of a name that is visible to the node.
  FailureOr<ImportedValue> named(StringRef name);

  // Subgraphs.
  size_t subgraphInputCount(StringRef attribute);
  size_t subgraphOutputCount(StringRef attribute);
  /// Imports the graph in an attribute with values for its inputs; its nodes are named
  /// `<id>/<suffix>/...`.
  FailureOr<SmallVector<ImportedValue>>
  subgraph(StringRef attribute, ArrayRef<ImportedValue> arguments, const Twine &suffix);

  // Outputs.
  size_t outputCount() const;
  bool wants(size_t i) const; ///< is output `i` named
  void setOutput(size_t i, ImportedValue value);
  LogicalResult result(Value value) {
    setOutput(0, value);
    return success();
  }
  ArrayRef<ImportedValue> results() const { return outputs; }
  /// A number for each node that draws random numbers.
  int64_t randomStream();
  /// Whether the model is going to be trained.
  bool isOfTraining() const;
  /// Whether the node is in training mode: as its attributes say, or because the options do.
  bool trains(bool asExported);
  /// `trained`, or `evaluated` (of the same type, or a scalar for both) while the trained model is
  /// evaluated.
  Value unlessEvaluated(Value trained, Value evaluated);
  /// The value of input `i` after the nodes so far: an earlier one may have updated it.
  Value state(size_t i) const;
  /// Input `i`, if it is a parameter, is kept from step to step, and this is its next value.
  void updateState(size_t i, Value next);

  /// Attribute as given, references to those of an enclosing function resolved; null if missing.
  const autopar_onnx::AttributeProto *attribute(StringRef name) const;

private:
  void wrongType(StringRef name, StringRef expected);
  friend class GraphImporter;

  GraphImporter &importer;
  Scope &scope;
  const autopar_onnx::NodeProto &proto;
  std::string name;
  SmallVector<ImportedValue> inputs, outputs;
};

} // namespace mlir::autopar
