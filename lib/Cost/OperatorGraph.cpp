// SPDX-License-Identifier: Apache-2.0
// Reads graphs: operations in order, each after those whose values it reads.
#include "autopar/Cost/OperatorGraph.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "autopar/Base/InputFile.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

class Reader {
public:
  Reader(const nlohmann::json &json, const ProfileDatabase &database)
      : json(json), database(database) {}

  Result<OperatorGraph> run() {
    JsonFields fields(json, "");
    fields.header("autopar.graph", 1);
    graph.name = fields.text("name", "graph");
    graph.batch = fields.integer("batch", 1, int64_t(1) << 30);
    std::vector<std::string> inputs{"input"};
    if (fields.has("inputs"))
      inputs = fields.texts("inputs");
    const nlohmann::json &nodes = fields.array("ops");
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    for (size_t i = 0; i < inputs.size(); ++i)
      if (!names.emplace(inputs[i], graph.values.size()).second)
        return Status::badInput("inputs[" + std::to_string(i) + "]: \"" + inputs[i] +
                                "\" stands here twice");
      else
        graph.values.push_back({inputs[i], -1, -1, false});
    if (inputs.empty())
      return Status::badInput("inputs: expected at least one: it holds the samples of a step");
    if (nodes.empty())
      return Status::badInput("ops: expected at least one");
    for (size_t i = 0; i < nodes.size(); ++i)
      AUTOPAR_RETURN_IF_ERROR(readNode(nodes[i], "ops[" + std::to_string(i) + "]"));
    return finish();
  }

private:
  Status readNode(const nlohmann::json &value, const std::string &place) {
    JsonFields fields(value, place);
    std::string id = fields.text("id"), key = fields.text("op");
    std::vector<std::string> inputs = fields.texts("inputs");
    std::vector<std::string> outputs = fields.texts("outputs");
    if (fields.has("id") && (id.empty() || !ids.insert(id).second))
      fields.fail("id", "expected a name of its own, found \"" + id + "\"");
    // The names of derivatives are made of it.
    if (id.find("/vjp") != std::string::npos)
      fields.fail("id", "must not contain \"/vjp\", which names derivatives");
    AUTOPAR_RETURN_IF_ERROR(fields.finish());
    const ProfiledOperation *operation = database.find(key);
    if (!operation)
      return Status::badInput(place + ".op: the profile database has no \"" + key + "\"");
    OperatorNode node{id, operation, {}};
    if (!fields.has("inputs"))
      inputs = {last.empty() ? graph.values.front().name : last};
    if (inputs.size() != operation->inputBytes.size())
      return Status::badInput(place + ".inputs: \"" + key + "\" takes " +
                              std::to_string(operation->inputBytes.size()) + " values, found " +
                              std::to_string(inputs.size()));
    for (size_t k = 0; k < inputs.size(); ++k) {
      std::string here = place + ".inputs[" + std::to_string(k) + "]";
      auto found = names.find(inputs[k]);
      if (found == names.end())
        return Status::badInput(here + ": \"" + inputs[k] +
                                "\" is no input of the graph and no output of an op before");
      OperatorValue &read = graph.values[found->second];
      int64_t wanted = operation->inputBytes[k];
      if (read.isLoss)
        return Status::badInput(here + ": nothing can read the loss \"" + inputs[k] + "\"");
      if (read.bytesPerSample < 0)
        read.bytesPerSample = wanted;
      if (std::abs(static_cast<double>(read.bytesPerSample - wanted)) >
          0.01 * static_cast<double>(std::max(read.bytesPerSample, wanted)))
        return Status::badInput(here + ": \"" + inputs[k] + "\" has " +
                                std::to_string(read.bytesPerSample) + " bytes for a sample, \"" +
                                key + "\" was measured with " + std::to_string(wanted));
      node.inputs.push_back(found->second);
      isRead.insert(found->second);
    }
    if (!fields.has("outputs"))
      for (size_t k = 0; k < operation->outputBytes.size(); ++k)
        outputs.push_back(k == 0 ? id : id + "#" + std::to_string(k));
    if (outputs.size() != operation->outputBytes.size())
      return Status::badInput(place + ".outputs: \"" + key + "\" gives " +
                              std::to_string(operation->outputBytes.size()) + " values, found " +
                              std::to_string(outputs.size()));
    for (size_t k = 0; k < outputs.size(); ++k) {
      if (!names.emplace(outputs[k], graph.values.size()).second)
        return Status::badInput(place + ".outputs[" + std::to_string(k) + "]: \"" + outputs[k] +
                                "\" is a value already");
      graph.values.push_back({outputs[k], static_cast<int64_t>(graph.nodes.size()),
                              operation->outputBytes[k], operation->givesLoss});
    }
    last = outputs.front();
    graph.nodes.push_back(std::move(node));
    return Status::ok();
  }

  Result<OperatorGraph> finish() {
    for (size_t i = 0; i < graph.values.size(); ++i) {
      if (isRead.count(static_cast<int64_t>(i)))
        continue;
      if (graph.values[i].node < 0)
        return Status::badInput("inputs: no op reads \"" + graph.values[i].name + "\"");
      graph.results.push_back(static_cast<int64_t>(i));
    }
    return std::move(graph);
  }

  const nlohmann::json &json;
  const ProfileDatabase &database;
  OperatorGraph graph;
  std::map<std::string, int64_t> names; ///< of values
  std::set<std::string> ids;
  std::set<int64_t> isRead;
  std::string last; ///< what the next op of a chain reads
};

} // namespace

Result<OperatorGraph> OperatorGraph::fromJson(std::string_view text,
                                              const ProfileDatabase &database) {
  Result<nlohmann::json> parsed = parseJson(text);
  if (!parsed)
    return parsed.status();
  return Reader(*parsed, database).run();
}

Result<OperatorGraph> OperatorGraph::load(const std::string &path,
                                          const ProfileDatabase &database) {
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<OperatorGraph> graph = fromJson(*text, database);
  if (!graph)
    return graph.status().at(path);
  return graph;
}

} // namespace autopar
