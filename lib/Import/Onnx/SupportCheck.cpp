// SPDX-License-Identifier: Apache-2.0
// Before anything is built: operator sets that are not known, and all operators that cannot be
// imported, in one table.
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

/// Domains whose own operators the nodes and their subgraphs are, rather than functions.
void GraphImporter::collectDomains(const NodeProtos &nodes, std::set<std::string> &domains) const {
  for (const onnx::NodeProto &node : nodes) {
    if (!findFunction(node))
      domains.insert(OperatorTable::domainOf(node.domain()).str());
    for (const onnx::AttributeProto &attribute : node.attribute()) {
      collectDomains(attribute.g().node(), domains);
      for (const onnx::GraphProto &graph : attribute.graphs())
        collectDomains(graph.node(), domains);
    }
  }
}

/// The nodes say by which versions of which operator sets they are to be read, and these are known.
LogicalResult GraphImporter::checkVersions(const NodeProtos &nodes, const Versions &versions) {
  std::set<std::string> domains;
  collectDomains(nodes, domains);
  for (const std::string &domain : domains) {
    int64_t newest = OperatorTable::newestVersion(domain);
    StringRef name = domain.empty() ? StringRef("ai.onnx") : StringRef(domain);
    auto version = versions.find(domain);
    if (newest && version == versions.end())
      return builder.fail("the model has operators of " + name +
                          ", but its opset_import does not say of which version; export it again, "
                          "or add the version that it was made with");
    if (newest && version->second > newest)
      return builder.fail("the model is of version " + Twine(version->second) + " of " + name +
                          ", expected at most " + Twine(newest) +
                          ", the newest that is known here: operators may mean something else in "
                          "a newer one; export the model for an older version (opset_version of "
                          "torch.onnx.export), or convert it (onnx.version_converter)");
  }
  return success();
}

LogicalResult GraphImporter::checkSupport() {
  Report report;
  auto check = [&](const auto &nodes, const Versions &versions) -> LogicalResult {
    if (failed(checkVersions(nodes, versions)))
      return failure();
    for (int i = 0; i < nodes.size(); ++i) {
      const onnx::NodeProto &node = nodes[i];
      auto version = versions.find(OperatorTable::domainOf(node.domain()));
      int64_t number = version == versions.end() ? 1 : version->second;
      const OperatorEntry *entry = OperatorTable::get().find(node.domain(), node.op_type(), number);
      if (findFunction(node) || (entry && entry->import))
        continue;
      note(report, node, i, number, entry ? entry->refusal : StringRef());
    }
    return success();
  };
  if (failed(check(file.model().graph().node(), modelVersions)))
    return failure();
  for (const onnx::TrainingInfoProto &info : file.model().training_info())
    if (options.ownTraining && (failed(check(info.initialization().node(), modelVersions)) ||
                                failed(check(info.algorithm().node(), modelVersions))))
      return failure();
  for (const onnx::FunctionProto &function : file.model().functions())
    if (failed(check(function.node(), versionsOf(function))))
      return failure();
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
  auto hasOneOf = [&](StringRef domain) {
    return llvm::any_of(
        report, [&](const auto &entry) { return StringRef(entry.first).starts_with(domain); });
  };
  if (hasOneOf("com.microsoft::"))
    out << "\n  of com.microsoft, onnxruntime's own, docs/Operators.md lists what is known: give "
           "the model as it was before onnxruntime's optimizer, or quantize it with "
           "QuantFormat.QDQ";
  if (hasOneOf("com.microsoft.nchwc::"))
    out << "\n  com.microsoft.nchwc is a layout of the processor that onnxruntime optimized for: "
           "save the model at the level ORT_ENABLE_EXTENDED";
  return builder.fail(table);
}
