// SPDX-License-Identifier: Apache-2.0
// Finds the place of every weight as import does, and puts its values there.
#include "autopar/Import/Onnx/WriteWeights.h"

#include "JoinedTensors.h"
#include "MergeAdapters.h"
#include "ModelFile.h"
#include "Node.h"
#include "Proto.h"
#include "RepeatedWeights.h"
#include "TensorData.h"

#include "autopar/Base/OutputFile.h"
#include "autopar/Base/TransposeBytes.h"
#include "autopar/Interfaces/ElementTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/Path.h"

#include <filesystem>
#include <google/protobuf/message.h>
#include <set>

using namespace mlir;
using namespace mlir::autopar;
using ::autopar::OutputFile;
using ::autopar::Status;

namespace {

constexpr int external = 1; ///< data_location: in a file beside the model

/// Calls `visit` with every tensor in a message.
Status forEachTensor(google::protobuf::Message &message,
                     llvm::function_ref<Status(onnx::TensorProto &)> visit) {
  using google::protobuf::FieldDescriptor;
  if (auto *tensor = dynamic_cast<onnx::TensorProto *>(&message))
    return visit(*tensor);
  const google::protobuf::Reflection *reflection = message.GetReflection();
  std::vector<const FieldDescriptor *> fields;
  reflection->ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    int count = field->is_repeated() ? reflection->FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i)
      AUTOPAR_RETURN_IF_ERROR(forEachTensor(
          field->is_repeated() ? *reflection->MutableRepeatedMessage(&message, field, i)
                               : *reflection->MutableMessage(&message, field),
          visit));
  }
  return Status::ok();
}

std::string shapeText(ArrayRef<int64_t> shape) {
  std::string text;
  llvm::raw_string_ostream out(text);
  out << "[";
  llvm::interleaveComma(shape, out);
  out << "]";
  return text;
}

class Writer {
public:
  Writer(ModelFile &file, const std::map<std::string, Weight> &weights, MergeAdapters adapters,
         onnx::ModelProto &model, MLIRContext *context)
      : file(file), weights(weights), adapters(std::move(adapters)), model(model), context(context),
        records(file.model()), repeated(file, records, context), joined(file, records, context) {}

  Status placeAll();
  /// Moves all external data to a file beside `output`, which is yet to be finished; null where
  /// there is none.
  ::autopar::Result<std::unique_ptr<OutputFile>> writeExternal(const std::string &output);

private:
  /// A weight, and whether the model has its transpose.
  struct Found {
    const Weight *weight = nullptr;
    bool isTransposed = false;
  };
  Found find(const std::string &name, bool isTransposed);
  /// Under the tensor's own name, or as its source has it.
  Found find(const onnx::TensorProto &tensor);

  /// How the values of a tensor are made.
  struct Recipe {
    const onnx::TensorProto *stored = nullptr; ///< in the old model
    Found found;                               ///< in place of what is stored
    std::string matrix;                        ///< whose adapter is added, or empty
  };
  /// `matrix` is what the source calls the tensor. Nothing where it keeps its values.
  std::optional<Recipe> recipeFor(const onnx::TensorProto &stored, Found found, StringRef matrix);
  ::autopar::Result<std::string> make(const Recipe &recipe);
  /// The values of external data are made when they are written: one tensor at a time.
  Status store(const Recipe &recipe, onnx::TensorProto &tensor);
  Status placeInitializer(int index);
  Status placeInput(int node, int input);
  Status placeNamed(const std::string &id, onnx::TensorProto &tensor);
  Status placeInside(onnx::NodeProto &node, const std::string &id);
  std::string unusedName(std::string name) const;

  ModelFile &file;
  const std::map<std::string, Weight> &weights;
  MergeAdapters adapters;
  onnx::ModelProto &model;
  MLIRContext *context;
  ExportRecords records;
  RepeatedWeights repeated;
  JoinedTensors joined;

  llvm::StringMap<int> initializers;   ///< by name: where in the graph
  std::set<std::string> placed, taken; ///< weights; names of values
  std::set<int> visited;               ///< initializers
  std::set<int> superfluous;           ///< nodes that only gave an initializer another name
  std::map<std::pair<std::string, std::string>, std::string> apart; ///< names in the new model
  std::map<const onnx::TensorProto *, Recipe> changed;              ///< external tensors
};

} // namespace

Writer::Found Writer::find(const std::string &name, bool isTransposed) {
  auto found = weights.find(name);
  if (found == weights.end())
    return {};
  placed.insert(name);
  return {&found->second, isTransposed};
}

Writer::Found Writer::find(const onnx::TensorProto &tensor) {
  if (Found found = find(tensor.name(), false); found.weight)
    return found;
  std::string source = records.recordOf(tensor, /*isInitializer=*/true).transposeOf;
  return source.empty() ? Found() : find(source, true);
}

std::optional<Writer::Recipe> Writer::recipeFor(const onnx::TensorProto &stored, Found found,
                                                StringRef matrix) {
  std::vector<std::string> adapter = adapters.namesFor(matrix);
  if (!found.weight && adapter.empty())
    return std::nullopt;
  placed.insert(adapter.begin(), adapter.end());
  return Recipe{&stored, found, adapter.empty() ? "" : matrix.str()};
}

::autopar::Result<std::string> Writer::make(const Recipe &recipe) {
  const onnx::TensorProto &tensor = *recipe.stored;
  std::string error, values;
  FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, error);
  if (failed(type))
    return Status::badInput(tensor.name() + ": " + error);
  if (const Weight *weight = recipe.found.weight) {
    std::vector<int64_t> shape = weight->shape;
    if (recipe.found.isTransposed)
      std::reverse(shape.begin(), shape.end());
    Type element = type->getElementType();
    if (!isElementType(element) || dataTypeOf(element) != weight->dtype ||
        (recipe.found.isTransposed && shape.size() != 2) ||
        type->getShape() != ArrayRef<int64_t>(shape))
      return Status::badInput(tensor.name() + " is " + dataTypeName(tensor.data_type()).str() +
                              " " + shapeText(type->getShape()) + " in the model, its new value " +
                              std::string(name(weight->dtype)) + " " + shapeText(shape));
    values = weight->bytes;
    if (recipe.found.isTransposed)
      ::autopar::transposeBytes(weight->bytes.data(), values.data(), shape[1], shape[0],
                                static_cast<size_t>(::autopar::byteSize(weight->dtype)));
  } else {
    FailureOr<TensorPlace> place =
        file.locate(tensor, static_cast<uint64_t>(storedBytes(*type)), error);
    if (failed(place) || place->kind != TensorPlace::File)
      return Status::badInput(tensor.name() +
                              ": its values are not there; an adapter is added to them");
    values = place->bytes.str();
  }
  if (!recipe.matrix.empty())
    AUTOPAR_RETURN_IF_ERROR(adapters.addTo(tensor, recipe.matrix, file.model().graph(), values));
  return values;
}

Status Writer::store(const Recipe &recipe, onnx::TensorProto &tensor) {
  if (static_cast<int>(tensor.data_location()) == external) {
    changed[&tensor] = recipe;
    return Status::ok();
  }
  auto values = make(recipe);
  if (!values)
    return values.status();
  tensor.clear_float_data();
  tensor.clear_int32_data();
  tensor.clear_int64_data();
  tensor.clear_double_data();
  tensor.clear_uint64_data();
  tensor.set_raw_data(values.take());
  return Status::ok();
}

Status Writer::placeInitializer(int index) {
  if (!visited.insert(index).second)
    return Status::ok();
  const onnx::TensorProto &tensor = file.model().graph().initializer(index);
  std::string ignored;
  RepeatedWeights::Original original;
  if (FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, ignored); succeeded(type))
    if (FailureOr<TensorPlace> place =
            file.locate(tensor, static_cast<uint64_t>(storedBytes(*type)), ignored);
        succeeded(place))
      original = repeated.originalOf(tensor, *type, *place);
  Found found = find(tensor);
  if (!found.weight && original.tensor) {
    found = find(*original.tensor);
    found.isTransposed ^= original.isTransposed;
  }
  SmallVector<StringRef> sources = records.sourcesOf(tensor.name());
  std::optional<Recipe> recipe =
      recipeFor(tensor, found, sources.size() == 1 ? sources.front() : StringRef(tensor.name()));
  return recipe ? store(*recipe, *model.mutable_graph()->mutable_initializer(index)) : Status::ok();
}

/// Where a node reads what its source keeps apart from the initializer, that is a tensor of its own
/// from here on.
Status Writer::placeInput(int index, int input) {
  const onnx::NodeProto &node = file.model().graph().node(index);
  auto known = initializers.find(node.input(input));
  if (known == initializers.end())
    return Status::ok();
  const onnx::TensorProto &tensor = file.model().graph().initializer(known->second);
  std::string other = joined.readInstead(node, tensor);
  if (other.empty())
    return placeInitializer(known->second);
  std::optional<Recipe> recipe =
      recipeFor(tensor, find(other, records.readsTransposed(node, tensor.name(), other)), other);
  if (!recipe)
    return Status::ok(); // not trained: what is stored is its value
  std::string &name = apart[{tensor.name(), other}];
  if (node.op_type() == "Identity" && node.output(0) == other) {
    superfluous.insert(index);
    taken.erase(other);
  }
  if (name.empty()) {
    name = unusedName(other);
    taken.insert(name);
    onnx::TensorProto &own = *model.mutable_graph()->add_initializer();
    own = model.graph().initializer(known->second);
    own.set_name(name);
    AUTOPAR_RETURN_IF_ERROR(store(*recipe, own));
  }
  model.mutable_graph()->mutable_node(index)->set_input(input, name);
  return Status::ok();
}

std::string Writer::unusedName(std::string name) const {
  while (taken.count(name))
    name += ".apart";
  return name;
}

Status Writer::placeNamed(const std::string &id, onnx::TensorProto &tensor) {
  Found found = find(id, false);
  return found.weight ? store({&tensor, found, ""}, tensor) : Status::ok();
}

/// Weights that stand in a node or in the graphs of its branches, by the ids that import gives.
Status Writer::placeInside(onnx::NodeProto &node, const std::string &id) {
  for (onnx::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.has_t() && node.op_type() == "Constant")
      AUTOPAR_RETURN_IF_ERROR(placeNamed(id, *attribute.mutable_t()));
    if (!attribute.has_g())
      continue;
    StringRef branch = attribute.name();
    std::string prefix = id + "/" + (branch.consume_back("_branch") ? branch.str() : "0") + "/";
    for (onnx::TensorProto &tensor : *attribute.mutable_g()->mutable_initializer())
      AUTOPAR_RETURN_IF_ERROR(placeNamed(prefix + tensor.name(), tensor));
    int index = 0;
    for (onnx::NodeProto &inner : *attribute.mutable_g()->mutable_node())
      AUTOPAR_RETURN_IF_ERROR(placeInside(inner, prefix + givenId(inner, index++)));
  }
  return Status::ok();
}

Status Writer::placeAll() {
  const onnx::GraphProto &graph = file.model().graph();
  for (int i = 0; i < graph.initializer_size(); ++i) {
    initializers[graph.initializer(i).name()] = i;
    taken.insert(graph.initializer(i).name());
  }
  for (const onnx::ValueInfoProto &input : graph.input())
    taken.insert(input.name());
  for (const onnx::NodeProto &node : graph.node())
    taken.insert(node.output().begin(), node.output().end());
  for (int n = 0; n < graph.node_size(); ++n) {
    for (int i = 0; i < graph.node(n).input_size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(placeInput(n, i));
    onnx::NodeProto &node = *model.mutable_graph()->mutable_node(n);
    AUTOPAR_RETURN_IF_ERROR(placeInside(node, givenId(node, n)));
  }
  for (int i = 0; i < graph.initializer_size(); ++i)
    AUTOPAR_RETURN_IF_ERROR(placeInitializer(i)); // what subgraphs read
  for (int n : llvm::reverse(superfluous))
    model.mutable_graph()->mutable_node()->DeleteSubrange(n, 1);
  for (const auto &[name, weight] : weights)
    if (!placed.count(name))
      return Status::badInput("the model has no weight '" + name +
                              "' that could be written; adapters are added to its matrices by "
                              "--adapters \"lora(rank=8, alpha=16)\"");
  return Status::ok();
}

::autopar::Result<std::unique_ptr<OutputFile>> Writer::writeExternal(const std::string &output) {
  constexpr uint64_t page = 4096; // so that readers can map each tensor
  std::string path = output + ".data";
  std::unique_ptr<OutputFile> data;
  uint64_t at = 0;
  Status written = forEachTensor(model, [&](onnx::TensorProto &tensor) -> Status {
    if (static_cast<int>(tensor.data_location()) != external)
      return Status::ok();
    std::string made;
    StringRef bytes;
    if (auto recipe = changed.find(&tensor); recipe != changed.end()) {
      auto values = make(recipe->second);
      if (!values)
        return values.status();
      bytes = made = values.take();
    } else {
      std::string error;
      FailureOr<RankedTensorType> type = tensorTypeOf(tensor, context, error);
      FailureOr<TensorPlace> place = failure();
      if (succeeded(type))
        place = file.locate(tensor, static_cast<uint64_t>(storedBytes(*type)), error);
      if (failed(place))
        return Status::badInput(tensor.name() + ": " + error);
      if (place->kind != TensorPlace::File)
        return Status::badInput(tensor.name() + ": its values are in '" + place->file +
                                "', which does not exist");
      bytes = place->bytes;
    }
    if (!data) {
      std::error_code ignored;
      auto there = std::filesystem::status(output, ignored);
      if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there))
        return {::autopar::StatusCode::CannotCreate,
                output + " is no file; the model's external data goes to a file beside it"};
      auto created = OutputFile::create(path);
      if (!created)
        return created.status();
      data = created.take();
    }
    uint64_t offset = (at + page - 1) / page * page;
    AUTOPAR_RETURN_IF_ERROR(data->write(std::string(offset - at, '\0')));
    AUTOPAR_RETURN_IF_ERROR(data->write(bytes));
    at = offset + bytes.size();
    tensor.clear_external_data();
    auto add = [&](const char *key, const std::string &value) {
      auto *entry = tensor.add_external_data();
      entry->set_key(key);
      entry->set_value(value);
    };
    add("location", llvm::sys::path::filename(path).str());
    add("offset", std::to_string(offset));
    add("length", std::to_string(bytes.size()));
    return Status::ok();
  });
  AUTOPAR_RETURN_IF_ERROR(written);
  return data;
}

Status mlir::autopar::writeWeights(const std::string &path,
                                   const std::map<std::string, Weight> &weights,
                                   const std::optional<AdapterSizes> &sizes,
                                   const std::string &output, MLIRContext &context) {
  std::string said;
  ScopedDiagnosticHandler handler(&context,
                                  [&](Diagnostic &diagnostic) { said = diagnostic.str(); });
  ModelFile source;
  if (failed(source.open(path, UnknownLoc::get(&context))))
    return Status::badInput(said);
  onnx::ModelProto model;
  AUTOPAR_RETURN_IF_ERROR(readWholeModel(path, model));
  MergeAdapters adapters;
  if (sizes) {
    auto found = MergeAdapters::of(weights, *sizes);
    if (!found)
      return found.status();
    adapters = found.take();
  }
  Writer writer(source, weights, std::move(adapters), model, &context);
  if (Status placed = writer.placeAll(); !placed.isOk())
    return placed.at(path);
  // Neither file stands there unless both can.
  auto file = OutputFile::create(output);
  if (!file)
    return file.status();
  auto data = writer.writeExternal(output);
  if (!data)
    return data.status().at(path);
  std::string text;
  if (!model.SerializeToString(&text))
    return Status::internal(output + ": the model cannot be written");
  AUTOPAR_RETURN_IF_ERROR((*file)->write(text));
  if (*data)
    AUTOPAR_RETURN_IF_ERROR((*data)->finish());
  return (*file)->finish();
}
