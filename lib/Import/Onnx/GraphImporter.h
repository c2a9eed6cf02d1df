// SPDX-License-Identifier: Apache-2.0
// Turns graphs, subgraphs and functions of a model into operations of one function.
#pragma once

#include "ExportRecords.h"
#include "JoinedTensors.h"
#include "ModelFile.h"
#include "Node.h"
#include "RepeatedWeights.h"
#include "autopar/Import/Onnx/OnnxImporter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

#include <map>
#include <set>

namespace autopar_onnx {
class FunctionProto;
class GraphProto;
class TrainingInfoProto;
class ValueInfoProto;
} // namespace autopar_onnx

namespace google::protobuf {
template <typename Element>
class RepeatedPtrField;
} // namespace google::protobuf

namespace mlir::autopar {

/// Names that are visible in a graph or function.
struct Scope {
  Scope *parent = nullptr;
  /// Put before the ids of nodes: empty, or ends in '/'.
  std::string prefix;
  llvm::StringMap<ImportedValue> values;
  llvm::StringMap<const autopar_onnx::TensorProto *> initializers;
  /// Version of each operator domain.
  const llvm::StringMap<int64_t> *versions = nullptr;
  /// Attributes of the call, by name, where this is the body of a function.
  const llvm::StringMap<const autopar_onnx::AttributeProto *> *attributes = nullptr;

  const autopar_onnx::AttributeProto *functionAttribute(StringRef name) const;
};

class GraphImporter {
public:
  GraphImporter(ModelFile &file, const ImportOptions &options, ModuleOp module,
                func::FuncOp function);

  /// Fills the function; errors have been reported where it fails.
  LogicalResult importModel();

  TensorBuilder &getBuilder() { return builder; }
  /// A scalar i1: whether the trained model is being evaluated.
  Value isEvaluation();
  int64_t nextRandomStream() { return randomStreams++; }
  const ImportOptions &getOptions() const { return options; }
  /// The next values of parameters that the model itself updates.
  llvm::MapVector<Value, Value> stateUpdates;
  /// How many nodes of which operators are read in another mode (training or inference) than they
  /// were exported in, and how many in training mode because they were exported so.
  std::map<std::string, int> switchedMode, exportedTraining;
  bool isParameter(Value value) const { return parameterTensors.count(value); }
  /// The file that should hold the values of a parameter and does not exist; empty for all others.
  StringRef absentFileOf(Value value) const;
  /// `what` names the use in an error, as in "input 1".
  FailureOr<ImportedValue> lookUp(StringRef name, Scope &scope, const Twine &what);
  /// A tensor stored in the model, as a constant or a parameter called `name`.
  FailureOr<Value> importTensor(const autopar_onnx::TensorProto &tensor, StringRef name,
                                bool isInitializer);
  FailureOr<SmallVector<ImportedValue>> importSubgraph(const autopar_onnx::GraphProto &graph,
                                                       Scope &outer,
                                                       ArrayRef<ImportedValue> arguments,
                                                       const Twine &prefix);

private:
  using Versions = llvm::StringMap<int64_t>;
  using NodeProtos = google::protobuf::RepeatedPtrField<autopar_onnx::NodeProto>;
  using NodeList = llvm::ArrayRef<const autopar_onnx::NodeProto *>;

  // GraphInputs.cpp
  LogicalResult importInputs(const autopar_onnx::GraphProto &graph, Scope &scope);
  FailureOr<RankedTensorType> inputType(const autopar_onnx::ValueInfoProto &input);
  LogicalResult reportUnbound();
  LogicalResult checkBindings();

  // FixedInputs.cpp
  /// The constant that stands for an input; null where the caller has fixed none.
  FailureOr<Value> fixedInput(const autopar_onnx::ValueInfoProto &input, RankedTensorType type);
  LogicalResult checkFixedInputs();

  // TrainingInfo.cpp
  void findDifferentiated();
  LogicalResult findState();
  Value stepNumber();
  FailureOr<Value> importState(const autopar_onnx::TensorProto &tensor, StringRef name,
                               RankedTensorType type, const TensorPlace &place);
  FailureOr<Value> importInitialValue(const autopar_onnx::TrainingInfoProto &info,
                                      StringRef output);
  LogicalResult importTrainingStep(Scope &scope);

  // ExportSigns.cpp
  void warnOfInferenceExport();
  void tellLeftOut();
  void tellModes();
  void warnOfAbsentValues();

  // SupportCheck.cpp
  LogicalResult checkSupport();
  LogicalResult checkVersions(const NodeProtos &nodes, const Versions &versions);
  void collectDomains(const NodeProtos &nodes, std::set<std::string> &domains) const;

  // Parameters.cpp
  Value addParameter(RankedTensorType type, StringRef name, const TensorPlace &place,
                     const autopar_onnx::TensorProto &tensor);
  void demoteLargeConstants();
  void removeUnusedParameters();

  // PackedParameters.cpp
  FailureOr<Value> importPacked(const autopar_onnx::TensorProto &tensor, RankedTensorType type,
                                StringRef name, const TensorPlace &place);

  // NarrowIntegers.cpp
  void holdInBytes();

  // RepeatedWeights.cpp
  FailureOr<Value> importRepeated(const autopar_onnx::TensorProto &tensor, StringRef name,
                                  RankedTensorType type, const TensorPlace &place);
  void tellRepeated();

  // JoinedTensors.cpp
  FailureOr<ImportedValue> readInput(Node &node, StringRef name);
  void tellJoined();

  // GraphOutputs.cpp
  struct Results;
  LogicalResult importOutputs(const autopar_onnx::GraphProto &graph, Scope &scope);
  LogicalResult addOutput(const autopar_onnx::ValueInfoProto &output, bool mayBeMetric,
                          Scope &scope, Results &results);
  void dropUnused();
  void describeArguments();

  // GraphImporter.cpp
  LogicalResult importNodes(NodeList nodes, Scope &scope);
  LogicalResult importNode(const autopar_onnx::NodeProto &proto, size_t index, Scope &scope);
  LogicalResult callFunction(Node &node, const autopar_onnx::FunctionProto &function);
  LogicalResult readInputs(Node &node, bool anyValue);
  LogicalResult checkNode(Node &node, const OperatorEntry &entry);
  void nameOperations(Node &node);
  const autopar_onnx::FunctionProto *findFunction(const autopar_onnx::NodeProto &node) const;
  Versions versionsOf(const autopar_onnx::FunctionProto &function) const;
  static int64_t versionOf(const Scope &scope, StringRef domain);
  std::string uniqueId(const Twine &id);
  std::string uniqueSymbol(StringRef name);

  ModelFile &file;
  const ImportOptions &options;
  ModuleOp module;
  func::FuncOp function;
  Block *block;
  TensorBuilder builder;
  Versions modelVersions;
  llvm::StringSet<> ids, symbols;
  llvm::StringMap<unsigned> idCounts, symbolCounts;
  ExportRecords records;
  /// Initializers that are another one, transposed or as it is: their names.
  std::vector<std::pair<std::string, std::string>> repeated;
  RepeatedWeights repeatedWeights;
  /// Tensors of the source that are stored as another initializer, by its name and their own.
  std::map<std::pair<std::string, std::string>, std::shared_ptr<autopar_onnx::TensorProto>> joined;
  JoinedTensors joinedTensors;
  /// Names of arguments in order, with the origin symbol of parameters and what their exporter
  /// says of them.
  struct Argument {
    std::string name, symbol;
    SourceRecord record = {};
  };
  Value evaluationWord;
  std::vector<Argument> arguments;
  DenseMap<const autopar_onnx::TensorProto *, Value> tensors;
  DenseMap<Value, const autopar_onnx::TensorProto *> parameterTensors;
  /// Files that do not exist, by the symbol of a parameter that has its values there.
  llvm::StringMap<std::string> absentFiles;
  /// Constants that become parameters if they are still used at the end.
  llvm::MapVector<Operation *, std::pair<const autopar_onnx::TensorProto *, std::string>>
      largeConstants;
  /// What training_info binds: initializer -> graph and output that computes its first value, and
  /// the output that is its next value.
  std::map<std::string, std::pair<const autopar_onnx::TrainingInfoProto *, std::string>>
      initialValues;
  std::map<std::string, std::string> updates;
  llvm::StringMap<Value> states;
  llvm::StringSet<> boundOutputs, differentiated;
  DenseMap<const autopar_onnx::TrainingInfoProto *, std::unique_ptr<Scope>> initializationScopes;
  Value step;                                 ///< argument, null if nothing asks for it
  std::map<std::string, std::string> unbound; ///< dimension -> where it stands
  std::set<std::string> openDims;             ///< names by which dimensions can be bound
  std::set<std::string> fixed;                ///< inputs that are constants
  int64_t randomStreams = 0;
  int depth = 0;
};

} // namespace mlir::autopar
