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

/// Adds what the text of a node of torch's graph reads: "linear(args = (%x, %p_fc_weight), ...".
static void addPlaces(StringRef text, llvm::StringSet<> &places) {
  for (size_t at = text.find('%'); at != StringRef::npos; at = text.find('%', at + 1)) {
    StringRef name =
        text.substr(at + 1).take_while([](char c) { return llvm::isAlnum(c) || c == '_'; });
    if (name.size() > 2 && name[1] == '_' && StringRef("pbc").contains(name[0]))
      places.insert(name);
  }
}

ExportRecords::ExportRecords(const onnx::ModelProto &model)
    : fromTorch(model.producer_name() == "pytorch") {
  for (const onnx::ValueInfoProto &value : model.graph().value_info()) {
    if (StringRef kind = entryOf(value, "pkg.torch.export.graph_signature.InputSpec.kind");
        !kind.empty())
      kinds[value.name()] = kind;
    if (StringRef from = entryOf(value, "pkg.onnxscript.optimizer.folded_from"); !from.empty())
      sources[value.name()] = from;
  }
  if (!sources.empty())
    for (const onnx::NodeProto &node : model.graph().node())
      addPlaces(entryOf(node, "pkg.torch.onnx.fx_node"), places);
}

bool ExportRecords::isComputed(StringRef initializer) const {
  return sources.contains(initializer) || (fromTorch && initializer.starts_with("onnx::"));
}

/// Whether a tensor that the exporter read is a parameter of the source. Of one that is no longer
/// in the model the nodes may still tell; else it has a module in front of its name.
bool ExportRecords::isParameter(StringRef source) const {
  if (auto kind = kinds.find(source); kind != kinds.end())
    return kind->second == "PARAMETER";
  std::string place = source.str();
  std::replace(place.begin(), place.end(), '.', '_');
  if (places.contains("b_" + place) || places.contains("c_" + place))
    return false;
  return places.contains("p_" + place) || source.contains('.');
}

StringRef ExportRecords::whyFixed(const onnx::TensorProto &tensor, bool isInitializer) const {
  if (!isInitializer)
    return fromTorch ? "it is a constant of the graph, where torch has no parameters" : "";
  StringRef name = tensor.name();
  if (auto kind = kinds.find(name); kind != kinds.end())
    return kind->second == "PARAMETER" ? ""
                                       : "the export says that it is no parameter of its source";
  auto from = sources.find(name);
  if (from == sources.end())
    return "";
  SmallVector<StringRef> read; // "['a', 'b']": every other piece is a name
  from->second.split(read, '\'');
  for (size_t i = 1; i < read.size(); i += 2)
    if (isParameter(read[i]))
      return "";
  return "the export says that it was computed from no parameter of its source";
}
