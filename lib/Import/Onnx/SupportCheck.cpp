// SPDX-License-Identifier: Apache-2.0
// Before anything is built: all operators that cannot be imported, in one table.
#include "GraphImporter.h"
#include "Proto.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::autopar;

namespace {
struct Unsupported {
  std::string reason;
  std::vector<std::string> nodes;
};
using Report = std::map<std::string, Unsupported>;
constexpr size_t namedNodes = 5;
} // namespace

static void note(Report &report, const onnx::NodeProto &node, int index, int64_t version,
                 StringRef reason) {
  std::string domain = node.domain().empty() ? "ai.onnx" : node.domain();
  Unsupported &entry =
      report[llvm::formatv("{0}::{1} version {2}", domain, node.op_type(), version)];
  entry.reason = reason.str();
  entry.nodes.push_back(node.name().empty() ? "#" + std::to_string(index) : node.name());
}

LogicalResult GraphImporter::checkSupport() {
  Report report;
  auto check = [&](const auto &nodes, const Versions &versions) {
    for (int i = 0; i < nodes.size(); ++i) {
      const onnx::NodeProto &node = nodes[i];
      auto version = versions.find(node.domain() == "ai.onnx" ? "" : node.domain());
      int64_t number = version == versions.end() ? 1 : version->second;
      const OperatorEntry *entry = OperatorTable::get().find(node.domain(), node.op_type(), number);
      if (findFunction(node) || (entry && entry->import))
        continue;
      note(report, node, i, number, entry ? entry->refusal : StringRef());
    }
  };
  check(file.model().graph().node(), modelVersions);
  for (const onnx::TrainingInfoProto &info : file.model().training_info())
    if (options.ownTraining) {
      check(info.initialization().node(), modelVersions);
      check(info.algorithm().node(), modelVersions);
    }
  for (const onnx::FunctionProto &function : file.model().functions()) {
    Versions versions;
    for (const auto &opset : function.opset_import())
      versions[opset.domain() == "ai.onnx" ? "" : opset.domain()] = opset.version();
    check(function.node(), function.opset_import().empty() ? modelVersions : versions);
  }
  if (report.empty())
    return success();
  std::string table;
  llvm::raw_string_ostream out(table);
  out << report.size() << " unsupported operator" << (report.size() == 1 ? "" : "s");
  for (const auto &[name, entry] : report) {
    out << llvm::formatv("\n  {0,5} x {1}", entry.nodes.size(), name);
    if (!entry.reason.empty())
      out << " (" << entry.reason << ")";
    out << " in ";
    llvm::interleaveComma(ArrayRef(entry.nodes).take_front(namedNodes), out);
    if (entry.nodes.size() > namedNodes)
      out << ", ...";
  }
  if (llvm::any_of(report, [](const auto &entry) {
        return StringRef(entry.first).starts_with("com.microsoft::");
      }))
    out << "\n  com.microsoft is onnxruntime's own: give the model as it was before onnxruntime's "
           "optimizer, or quantize it with QuantFormat.QDQ";
  return builder.fail(table);
}
