// SPDX-License-Identifier: Apache-2.0
// Walks the nodes of a model in order, inlining functions and subgraphs.
#include "GraphImporter.h"

#include "Proto.h"
#include "TensorData.h"

using namespace mlir;
using namespace mlir::autopar;

/// Bounds for hostile models: nesting of functions and subgraphs, operations of unrolled loops.
static constexpr int maximumDepth = 50;
static constexpr size_t maximumOperations = 500'000;

const onnx::AttributeProto *Scope::functionAttribute(StringRef name) const {
  for (const Scope *scope = this; scope; scope = scope->parent)
    if (scope->attributes) {
      auto found = scope->attributes->find(name);
      return found == scope->attributes->end() ? nullptr : found->second;
    }
  return nullptr;
}

GraphImporter::GraphImporter(ModelFile &file, const ImportOptions &options, ModuleOp module,
                             func::FuncOp function)
    : file(file), options(options), module(module), function(function),
      block(function.addEntryBlock()), builder(module.getLoc(), block), records(file.model()),
      repeatedWeights(file, records, module.getContext()),
      joinedTensors(file, records, module.getContext()) {
  symbols.insert("main");
  builder.lookUpValue = [this](Value value) -> std::optional<DenseElementsAttr> {
    const onnx::TensorProto *tensor = parameterTensors.lookup(value);
    std::string ignored;
    constexpr int64_t most = 1 << 22;
    if (!tensor)
      return std::nullopt;
    FailureOr<DenseElementsAttr> values =
        tensorValues(*tensor, this->file, this->module.getContext(), most, ignored);
    // A packed parameter is not of the type of its tensor, and nothing asks for its values.
    return failed(values) || values->getType() != value.getType() ? std::nullopt
                                                                  : std::optional(*values);
  };
}

/// Versions by domain.
template <typename Imports>
static llvm::StringMap<int64_t> versionsIn(const Imports &imports) {
  llvm::StringMap<int64_t> versions;
  for (const auto &opset : imports)
    versions[OperatorTable::domainOf(opset.domain())] = opset.version();
  return versions;
}

LogicalResult GraphImporter::importModel() {
  const onnx::ModelProto &model = file.model();
  builder.setLoc(module.getLoc());
  if (model.opset_import().empty() && model.ir_version() >= 3)
    return builder.fail("the model imports no operator set");
  modelVersions = versionsIn(model.opset_import());
  if (model.opset_import().empty())
    modelVersions[""] = 1;
  for (const auto &opset : model.opset_import())
    if (int64_t last = modelVersions.lookup(OperatorTable::domainOf(opset.domain()));
        last != opset.version())
      return builder.fail("the model imports the operator set of domain '" +
                          StringRef(opset.domain()) + "' twice, as version " +
                          Twine(opset.version()) + " and " + Twine(last));
  if (failed(checkSupport()))
    return failure();
  Scope scope;
  scope.versions = &modelVersions;
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    scope.initializers[tensor.name()] = &tensor;
  std::vector<const onnx::NodeProto *> nodes;
  for (const onnx::NodeProto &node : model.graph().node())
    nodes.push_back(&node);
  findDifferentiated();
  if (options.trainingMode)
    warnOfInferenceExport();
  if (options.ownTraining && failed(findState()))
    return failure();
  if (options.trainingMode && model.training_info_size())
    emitWarning(module.getLoc()) << "the model brings a training step of its own (training_info), "
                                    "which --train replaces";
  if (failed(importInputs(model.graph(), scope)) || failed(importNodes(nodes, scope)) ||
      (options.ownTraining && failed(importTrainingStep(scope))) || failed(checkBindings()))
    return failure();
  builder.setLoc(module.getLoc());
  tellModes();
  tellRepeated();
  if (options.trainingMode) {
    tellJoined();
    tellLeftOut();
  }
  if (failed(importOutputs(model.graph(), scope)))
    return failure();
  if (options.needsValues)
    warnOfAbsentValues();
  return success();
}

std::string GraphImporter::uniqueId(const Twine &id) {
  std::string name = id.str();
  while (!ids.insert(name).second)
    name = (id + "." + Twine(++idCounts[id.str()])).str();
  return name;
}

std::string GraphImporter::uniqueSymbol(StringRef name) {
  std::string symbol = name.empty() ? "parameter" : name.str();
  while (!symbols.insert(symbol).second)
    symbol = (name + "." + Twine(++symbolCounts[name])).str();
  return symbol;
}

GraphImporter::Versions GraphImporter::versionsOf(const onnx::FunctionProto &function) const {
  return function.opset_import().empty() ? modelVersions : versionsIn(function.opset_import());
}

int64_t GraphImporter::versionOf(const Scope &scope, StringRef domain) {
  for (const Scope *at = &scope; at; at = at->parent)
    if (at->versions) {
      auto found = at->versions->find(domain == "ai.onnx" ? StringRef() : domain);
      return found == at->versions->end() ? 1 : found->second;
    }
  return 1;
}

//===-- values -------------------------------------------------------------------------------===//

FailureOr<ImportedValue> GraphImporter::lookUp(StringRef name, Scope &scope, const Twine &what) {
  for (Scope *at = &scope; at; at = at->parent) {
    if (auto found = at->values.find(name); found != at->values.end())
      return found->second;
    if (auto found = at->initializers.find(name); found != at->initializers.end()) {
      FailureOr<Value> value =
          importTensor(*found->second, at->prefix + name.str(), /*isInitializer=*/true);
      if (failed(value))
        return failure();
      return at->values[name] = ImportedValue(*value);
    }
    if (at->attributes) // the body of a function sees nothing outside
      break;
  }
  return builder.fail(what + " '" + name +
                      "' is neither an input, an initializer nor the output of an earlier node");
}

StringRef GraphImporter::absentFileOf(Value value) const {
  auto argument = dyn_cast_or_null<BlockArgument>(value);
  if (!argument)
    return {};
  auto absent = absentFiles.find(arguments[argument.getArgNumber()].symbol);
  return absent == absentFiles.end() ? StringRef() : StringRef(absent->second);
}

Value GraphImporter::isEvaluation() {
  Type i64 = builder.opBuilder().getI64Type();
  if (!evaluationWord) {
    evaluationWord = block->addArgument(RankedTensorType::get({}, i64), module.getLoc());
    arguments.push_back({"control.evaluation", {}});
  }
  return builder.compare(ComparePredicate::Ne, evaluationWord, builder.scalar(i64, int64_t{0}));
}

//===-- nodes --------------------------------------------------------------------------------===//

LogicalResult GraphImporter::importNodes(NodeList nodes, Scope &scope) {
  if (depth >= maximumDepth)
    return builder.fail("functions and subgraphs are nested more than " + Twine(maximumDepth) +
                        " deep (or call themselves)");
  ++depth;
  std::string subject = builder.getSubject();
  for (auto [index, node] : llvm::enumerate(nodes))
    if (failed(importNode(*node, index, scope)))
      return failure();
  --depth;
  builder.setSubject(subject);
  return success();
}

LogicalResult GraphImporter::importNode(const onnx::NodeProto &proto, size_t index, Scope &scope) {
  Node node(*this, scope, proto, uniqueId(scope.prefix + givenId(proto, index)),
            versionOf(scope, proto.domain()));
  builder.setLoc(NameLoc::get(StringAttr::get(module.getContext(), node.id())));
  builder.setSubject(("node '" + node.id() + "' (" + proto.op_type() + "): ").str());
  if (ids.size() > maximumOperations)
    return node.error("the model unrolls to more than " + Twine(maximumOperations) + " operations");
  const OperatorEntry *entry =
      OperatorTable::get().find(proto.domain(), proto.op_type(), node.version);
  const onnx::FunctionProto *body = findFunction(proto);
  if (body) {
    if (failed(readInputs(node, /*anyValue=*/true)) || failed(callFunction(node, *body)))
      return failure();
  } else {
    if (!entry)
      return node.error("is not supported (domain '" + StringRef(proto.domain()) + "', version " +
                        Twine(node.version) + ")");
    if (!entry->import)
      return node.error("is refused: " + entry->refusal);
    if (failed(readInputs(node, entry->takesAnyValue)) || failed(checkNode(node, *entry)) ||
        failed(entry->import(node)) || builder.failed())
      return failure();
    nameOperations(node);
  }
  for (int i = 0; i < proto.output_size(); ++i) {
    if (proto.output(i).empty())
      continue;
    if (node.outputs[i].kind == ImportedValue::None)
      return node.error("output " + Twine(i) + " '" + proto.output(i) + "' is not supported");
    if (scope.initializers.count(proto.output(i)) ||
        !scope.values.try_emplace(proto.output(i), node.outputs[i]).second)
      return node.error("output " + Twine(i) + " '" + proto.output(i) + "' is defined twice");
  }
  return success();
}

LogicalResult GraphImporter::readInputs(Node &node, bool anyValue) {
  for (const std::string &name : node.proto.input()) {
    if (name.empty()) {
      node.inputs.emplace_back();
      continue;
    }
    FailureOr<ImportedValue> value = readInput(node, name);
    if (failed(value))
      return failure();
    node.inputs.push_back(*value);
    if (!anyValue && value->kind != ImportedValue::Tensor)
      return node.inputError(node.inputs.size() - 1, "is no tensor");
  }
  return success();
}

LogicalResult GraphImporter::checkNode(Node &node, const OperatorEntry &entry) {
  int given = node.proto.input_size();
  while (given > 0 && node.proto.input(given - 1).empty())
    --given;
  auto [least, most] = entry.arity;
  if (given < least || (most >= 0 && given > most))
    return node.error("has " + Twine(given) + (given == 1 ? " input" : " inputs") + ", expected " +
                      Twine(least) +
                      (most == least ? Twine()
                       : most < 0    ? Twine(" or more")
                                     : " to " + Twine(most)));
  for (int i = 0; i < entry.arity.least; ++i)
    if (!node.hasInput(i))
      return node.inputError(i, "is missing");
  if (node.outputs.empty())
    return node.error("has no outputs");
  SmallVector<StringRef> known;
  entry.attributes.split(known, ' ');
  llvm::StringSet<> seen;
  for (const onnx::AttributeProto &attribute : node.proto.attribute()) {
    if (!llvm::is_contained(known, attribute.name()) || attribute.name().empty())
      return node.error("attribute '" + StringRef(attribute.name()) + "' is unknown" +
                        (entry.attributes.empty() ? Twine(", it takes none")
                                                  : ", known are: " + Twine(entry.attributes)));
    if (!seen.insert(attribute.name()).second)
      return node.error("attribute '" + StringRef(attribute.name()) + "' is given twice");
  }
  return success();
}

/// How much an operation stands for its node: the product of a Gemm rather than its bias addition.
static int weightOf(Operation *op) {
  if (isa<DotGeneralOp, ConvolutionOp, ConvolutionInputGradOp>(op))
    return 3;
  if (isa<SoftmaxOp, NormalizeOp, PoolOp, ArgPoolOp, TopKOp, CumulativeOp, ScatterOp,
          ScatterElementsOp, GatherOp>(op))
    return 2;
  return isa<BroadcastOp, ReshapeOp, CastOp>(op) ? 0 : 1;
}

static StringRef kindOf(Operation *op) {
  if (auto unary = dyn_cast<UnaryOp>(op))
    return stringifyUnaryKind(unary.getKind());
  if (auto binary = dyn_cast<BinaryOp>(op))
    return stringifyBinaryKind(binary.getKind());
  return op->getName().stripDialect();
}

void GraphImporter::nameOperations(Node &node) {
  std::vector<Operation *> created;
  for (Operation *op : builder.takeCreated())
    if (getOpId(op).empty())
      created.push_back(op);
  Operation *main = nullptr;
  for (Operation *op : created) // of equal weight the last one, which usually yields the output
    if (!main || weightOf(op) >= weightOf(main))
      main = op;
  for (Operation *op : created)
    setOpId(op, op == main ? node.name : uniqueId(node.name + "/" + kindOf(op)));
}

//===-- functions and subgraphs --------------------------------------------------------------===//

/// A string field that older ONNX protos do not have.
static std::string overloadOf(const google::protobuf::Message &message) {
  const auto *field = message.GetDescriptor()->FindFieldByName("overload");
  return field ? message.GetReflection()->GetString(message, field) : std::string();
}

const onnx::FunctionProto *GraphImporter::findFunction(const onnx::NodeProto &node) const {
  for (const onnx::FunctionProto &function : file.model().functions())
    if (function.name() == node.op_type() && function.domain() == node.domain() &&
        overloadOf(function) == overloadOf(node))
      return &function;
  return nullptr;
}

LogicalResult GraphImporter::callFunction(Node &node, const onnx::FunctionProto &function) {
  llvm::StringMap<const onnx::AttributeProto *> attributes;
  llvm::StringSet<> known;
  for (const std::string &name : function.attribute())
    known.insert(name);
  const google::protobuf::Reflection *reflection = function.GetReflection();
  if (const auto *field = function.GetDescriptor()->FindFieldByName("attribute_proto"))
    for (int i = 0, count = reflection->FieldSize(function, field); i < count; ++i) {
      const auto &message = reflection->GetRepeatedMessage(function, field, i);
      const auto &byDefault = static_cast<const onnx::AttributeProto &>(message);
      attributes[byDefault.name()] = &byDefault;
      known.insert(byDefault.name());
    }
  for (const onnx::AttributeProto &attribute : node.proto.attribute()) {
    if (!known.contains(attribute.name()))
      return node.error("attribute '" + StringRef(attribute.name()) +
                        "' is unknown to the model's function");
    if (const onnx::AttributeProto *resolved = node.attribute(attribute.name()))
      attributes[attribute.name()] = resolved;
  }
  if (node.inputs.size() > static_cast<size_t>(function.input_size()) ||
      node.outputs.size() > static_cast<size_t>(function.output_size()))
    return node.error("has more inputs or outputs than the model's function");
  Versions versions = versionsOf(function);
  Scope scope;
  scope.prefix = (node.id() + "/").str();
  scope.versions = &versions;
  scope.attributes = &attributes;
  for (int i = 0; i < function.input_size(); ++i)
    scope.values[function.input(i)] =
        i < static_cast<int>(node.inputs.size()) ? node.inputs[i] : ImportedValue();
  std::vector<const onnx::NodeProto *> nodes;
  for (const onnx::NodeProto &inner : function.node())
    nodes.push_back(&inner);
  if (failed(importNodes(nodes, scope)))
    return failure();
  for (size_t i = 0; i < node.outputs.size(); ++i) {
    FailureOr<ImportedValue> value = lookUp(function.output(i), scope, "output of the function");
    if (failed(value))
      return failure();
    node.outputs[i] = *value;
  }
  return success();
}

FailureOr<SmallVector<ImportedValue>>
GraphImporter::importSubgraph(const onnx::GraphProto &graph, Scope &outer,
                              ArrayRef<ImportedValue> arguments, const Twine &prefix) {
  Scope scope;
  scope.parent = &outer;
  scope.prefix = (prefix + "/").str();
  for (const onnx::TensorProto &tensor : graph.initializer())
    scope.initializers[tensor.name()] = &tensor;
  for (int i = 0; i < graph.input_size(); ++i)
    scope.values[graph.input(i).name()] = arguments[i];
  // Operations of the enclosing node so far keep waiting for their names.
  std::vector<Operation *> pending = builder.takeCreated();
  Location location = builder.getLoc();
  std::vector<const onnx::NodeProto *> nodes;
  for (const onnx::NodeProto &inner : graph.node())
    nodes.push_back(&inner);
  if (failed(importNodes(nodes, scope)))
    return failure();
  SmallVector<ImportedValue> results;
  for (const onnx::ValueInfoProto &output : graph.output()) {
    FailureOr<ImportedValue> value = lookUp(output.name(), scope, "output of a subgraph");
    if (failed(value))
      return failure();
    results.push_back(*value);
  }
  builder.setLoc(location);
  builder.requeue(pending);
  return results;
}
