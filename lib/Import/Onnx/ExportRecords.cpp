// SPDX-License-Identifier: Apache-2.0
// Reads the metadata of torch.onnx, and the names that torch's older exporter makes up.
#include "ExportRecords.h"

#include "Proto.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace mlir::autopar;

template <typename Proto>
static StringRef entryOf(const Proto &proto, StringRef key) {
  for (const auto &entry : proto.metadata_props())
    if (entry.key() == key)
      return entry.value();
  return "";
}

/// What the text of a node of torch's graph reads: "linear(args = (%x, %p_fc_weight), ...".
static SmallVector<StringRef> placesIn(StringRef text) {
  SmallVector<StringRef> places;
  for (size_t at = text.find('%'); at != StringRef::npos; at = text.find('%', at + 1)) {
    StringRef name =
        text.substr(at + 1).take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.size() > 2 && name[1] == '_' && StringRef("pbc").contains(name[0]))
      places.push_back(name);
  }
  return places;
}

/// "layers.0.lora_A" as torch's graph calls it, "layers_0_lora_a", without "p_" or "b_".
static std::string placeOf(StringRef name) {
  std::string place = name.lower();
  for (char &c : place)
    c = llvm::isAlnum(c) ? c : '_';
  return place;
}

/// The weight of torch's linear as torch's graph calls it, without "p_", where the node is its
/// product: that has [inputs, outputs] where linear has [outputs, inputs].
static StringRef weightOfLinear(const onnx::NodeProto &node, StringRef text) {
  StringRef arguments = text.split("aten.linear.default](args = (").second;
  StringRef weight = arguments.split(", ").second;
  if (node.op_type() != "MatMul" || !weight.consume_front("%p_"))
    return "";
  return weight.take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
}

/// Strings of a list in Python: "['a', 'b']": every other piece is one.
static SmallVector<StringRef> stringsIn(StringRef list) {
  SmallVector<StringRef> pieces, strings;
  list.split(pieces, '\'');
  for (size_t i = 1; i < pieces.size(); i += 2)
    strings.push_back(pieces[i]);
  return strings;
}

/// The key of that text.
static constexpr StringRef nodeOfTorch = "pkg.torch.onnx.fx_node";

ExportRecords::ExportRecords(const onnx::ModelProto &model)
    : fromTorch(model.producer_name() == "pytorch") {
  for (const onnx::ValueInfoProto &value : model.graph().value_info()) {
    if (StringRef kind = entryOf(value, "pkg.torch.export.graph_signature.InputSpec.kind");
        !kind.empty())
      kinds[value.name()] = kind;
    if (StringRef from = entryOf(value, "pkg.onnxscript.optimizer.folded_from"); !from.empty())
      sources[value.name()] = from;
  }
  for (const onnx::NodeProto &node : model.graph().node()) {
    StringRef text = entryOf(node, nodeOfTorch);
    tellsOfNodes |= !text.empty();
    for (const std::string &input : node.input())
      ++readers[input];
    if (StringRef weight = weightOfLinear(node, text);
        !weight.empty() && node.input_size() == 2 && sources.contains(node.input(1)))
      transposed.insert(weight);
    if (!sources.empty())
      for (StringRef place : placesIn(text))
        places.insert(place);
  }
  for (const onnx::TensorProto &tensor : model.graph().initializer())
    for (StringRef source : sourcesOf(tensor.name()))
      stored.insert(placeOf(source));
}

std::optional<int64_t> ExportRecords::paddingIndexOf(const onnx::NodeProto &node) {
  // "aten.embedding.default](args = (%p_table, %ids, 1), kwargs = {})": the third, where there is
  // one and it is none below zero.
  StringRef arguments =
      entryOf(node, nodeOfTorch).split("aten.embedding.default](args = (").second.split(')').first;
  SmallVector<StringRef> all;
  arguments.split(all, ',');
  int64_t index = -1;
  if (all.size() < 3 || all[2].trim().getAsInteger(10, index) || index < 0)
    return std::nullopt;
  return index;
}

bool ExportRecords::isComputed(StringRef initializer) const {
  // A session of onnxruntime leaves what it computed ahead the name of a node's output.
  return sources.contains(initializer) || (fromTorch && initializer.starts_with("onnx::")) ||
         initializer.starts_with("/");
}

/// Whether a tensor that the exporter read is a parameter of the source. Of one that is no longer
/// in the model the nodes may still tell; else it has a module in front of its name. Without one it
/// may be a parameter of the whole model, or what the exporter computed on the way.
ExportRecords::Answer ExportRecords::isParameter(StringRef source) const {
  if (auto kind = kinds.find(source); kind != kinds.end())
    return kind->second == "PARAMETER" ? Answer::Yes : Answer::No;
  std::string place = placeOf(source);
  // A tensor written in the code of a module is lifted out of it.
  if (places.contains("b_" + place) || places.contains("c_" + place) ||
      source.substr(source.rfind('.') + 1).starts_with("lifted_tensor"))
    return Answer::No;
  return places.contains("p_" + place) || source.contains('.') ? Answer::Yes : Answer::Unknown;
}

SourceRecord ExportRecords::recordOf(const onnx::TensorProto &tensor, bool isInitializer) const {
  if (!isInitializer)
    return {fromTorch ? "it is a constant of the graph, where torch has no parameters" : "", {}};
  StringRef name = tensor.name();
  if (auto kind = kinds.find(name); kind != kinds.end()) {
    if (kind->second == "PARAMETER")
      return {"", {}, {}, true};
    return {"the export says that it is no parameter of its source", {}};
  }
  auto from = sources.find(name);
  if (from == sources.end())
    return {};
  SmallVector<StringRef> all = stringsIn(from->second);
  if (all.size() == 1 && tensor.dims_size() == 2 && transposed.contains(placeOf(all[0])))
    return {"", all, all[0].str()};
  SmallVector<StringRef> parameters, unknown;
  for (StringRef source : all)
    if (Answer answer = isParameter(source); answer != Answer::No)
      (answer == Answer::Yes ? parameters : unknown).push_back(source);
  if (!parameters.empty())
    return {"", parameters};
  if (unknown.empty())
    return {"the export says that it was computed from no parameter of its source", {}};
  return {"the export does not say whether it was computed from a parameter", unknown};
}

SmallVector<StringRef> ExportRecords::sourcesOf(StringRef initializer) const {
  auto from = sources.find(initializer);
  return from == sources.end() ? SmallVector<StringRef>{initializer} : stringsIn(from->second);
}

/// What torch's graph calls `place`, "p_layers_0_weight", by the name of the source: the modules
/// around the node tell which '_' are dots.
static std::string nameOf(StringRef place, const onnx::NodeProto &node) {
  std::string name = place.drop_front(2).str();
  for (StringRef scope : stringsIn(entryOf(node, "pkg.torch.onnx.name_scopes")))
    if (!scope.empty() && place.drop_front(2).starts_with(placeOf(scope) + "_")) {
      std::copy(scope.begin(), scope.end(), name.begin());
      name[scope.size()] = '.';
    }
  return name;
}

static size_t commonEnd(StringRef a, StringRef b) {
  size_t length = 0;
  while (length < std::min(a.size(), b.size()) &&
         a[a.size() - length - 1] == b[b.size() - length - 1])
    ++length;
  return length;
}

bool ExportRecords::readsTransposed(const onnx::NodeProto &node, StringRef initializer,
                                    StringRef source) const {
  return node.input_size() == 2 && node.input(1) == initializer && sources.contains(initializer) &&
         weightOfLinear(node, entryOf(node, nodeOfTorch)) == placeOf(source);
}

std::string ExportRecords::readInstead(const onnx::NodeProto &node, StringRef initializer) {
  // Of a convolution with folded normalization the text is the latter's.
  if (readers.lookup(initializer) < 2)
    return "";
  SmallVector<StringRef> read = placesIn(entryOf(node, nodeOfTorch));
  SmallVector<StringRef> own = sourcesOf(initializer);
  for (StringRef source : own)
    if (std::string place = placeOf(source);
        llvm::any_of(read, [&](StringRef other) { return other.drop_front(2) == place; }))
      return "";
  llvm::erase_if(read, [&](StringRef place) { return stored.contains(place.drop_front(2)); });
  if (read.empty() || own.empty())
    return "";
  // A weight stands in for a weight, a bias for a bias.
  std::string place = placeOf(own.front());
  auto likeness = [&](StringRef other) { return commonEnd(other.drop_front(2), place); };
  StringRef found =
      *llvm::max_element(read, [&](StringRef a, StringRef b) { return likeness(a) < likeness(b); });
  if (llvm::count_if(read, [&](StringRef other) {
        return other != found && likeness(other) == likeness(found);
      }))
    return "";
  joined.insert(found.drop_front(2));
  std::string name = nameOf(found, node);
  // The name that it goes by here tells more of them.
  for (size_t i = 1; i <= likeness(found); ++i)
    name[name.size() - i] = own.front()[own.front().size() - i];
  kinds[name] = found.starts_with("p_") ? "PARAMETER" : "BUFFER";
  return name;
}

SmallVector<std::string> ExportRecords::leftOut(const onnx::GraphProto &graph) const {
  SmallVector<std::string> names;
  llvm::StringSet<> told;
  for (const onnx::NodeProto &node : graph.node())
    for (StringRef place : placesIn(entryOf(node, nodeOfTorch)))
      if (StringRef source = place.drop_front(2);
          place.starts_with("p_") && !stored.contains(source) && !joined.contains(source) &&
          told.insert(source).second)
        names.push_back(nameOf(place, node));
  // A single number of which only a function is there, such as a scale that the source has the
  // logarithm of.
  for (const onnx::TensorProto &tensor : graph.initializer())
    if (SmallVector<StringRef> from = sourcesOf(tensor.name());
        sources.contains(tensor.name()) && from.size() == 1 &&
        llvm::all_of(tensor.dims(), [](int64_t extent) { return extent == 1; }) &&
        isParameter(from[0]) == Answer::Yes && told.insert(placeOf(from[0])).second)
      names.push_back(from[0].str());
  return names;
}
