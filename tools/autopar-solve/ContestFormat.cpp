// SPDX-License-Identifier: Apache-2.0
// Reading contest problems and writing solutions. Costs carry over as they are (the contest's unit
// is called microseconds here); costs around 1e18 forbid.
#include "ContestFormat.h"

#include <zlib.h>

#include "autopar/Base/OutputFile.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

using nlohmann::json;

/// Far above any problem of the contest; some megabytes of gzip can be any amount of text.
constexpr size_t kMostTextBytes = size_t{1} << 30;

Result<std::string> readMaybeGzip(const std::string &path) {
  gzFile file = gzopen(path.c_str(), "rb");
  if (!file)
    return Status::noInput("cannot open '" + path + "'");
  std::string bytes;
  std::vector<char> block(1 << 20);
  int got = 0;
  while ((got = gzread(file, block.data(), static_cast<unsigned>(block.size()))) > 0) {
    bytes.append(block.data(), static_cast<size_t>(got));
    if (bytes.size() > kMostTextBytes) {
      gzclose(file);
      return Status::badInput(path + ": more than 1 GiB of text; expected a problem in JSON");
    }
  }
  // A stream that ends too early is told of only when it is closed.
  bool failed = gzclose(file) != Z_OK || got < 0;
  if (failed)
    return Status::ioError("cannot read '" + path + "': broken gzip data");
  return bytes;
}

Result<std::vector<double>> readNumbers(const json &list, const std::string &place) {
  std::vector<double> numbers;
  if (!list.is_array())
    return Status::badInput(place + ": expected a list of numbers");
  for (const json &one : list) {
    if (!one.is_number())
      return Status::badInput(place + ": expected a list of numbers");
    numbers.push_back(std::min(one.get<double>(), kForbidden));
  }
  return numbers;
}

std::string indexed(const char *list, size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

Result<std::pair<int64_t, int64_t>> readPair(const json &pair, const std::string &place,
                                             const char *expected) {
  if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_integer() ||
      !pair[1].is_number_integer())
    return Status::badInput(place + ": expected " + expected);
  return std::pair(pair[0].get<int64_t>(), pair[1].get<int64_t>());
}

Result<LiveInterval> readInterval(const json &list, const std::string &place) {
  auto pair = readPair(list, place, "[begin, end]");
  if (!pair)
    return pair.status();
  auto [begin, end] = *pair;
  if (end < begin)
    return Status::badInput(place + ": ends at " + std::to_string(end) + ", before it begins at " +
                            std::to_string(begin));
  return LiveInterval{begin, end};
}

/// In the units of usages.
Result<int64_t> readLimit(const json &limit) {
  if (!limit.is_number() || limit.get<double>() < 1 || limit.get<double>() > kForbidden)
    return Status::badInput("problem.usage_limit: expected a number in [1, 1e18], found " +
                            limit.dump() + "; without the key nothing is limited");
  return limit.get<int64_t>();
}

Status readNodes(const json &nodes, CostGraph &graph) {
  JsonFields fields(nodes, "problem.nodes");
  const json &intervals = fields.array("intervals");
  const json &costs = fields.array("costs");
  const json &usages = fields.array("usages");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  if (intervals.size() != costs.size() || usages.size() != costs.size())
    return Status::badInput("problem.nodes: intervals, costs and usages differ in length");
  for (size_t i = 0; i < costs.size(); ++i) {
    Result<std::vector<double>> cost = readNumbers(costs[i], indexed("problem.nodes.costs", i));
    Result<std::vector<double>> usage = readNumbers(usages[i], indexed("problem.nodes.usages", i));
    Result<LiveInterval> live = readInterval(intervals[i], indexed("problem.nodes.intervals", i));
    AUTOPAR_RETURN_IF_ERROR(cost.status());
    AUTOPAR_RETURN_IF_ERROR(usage.status());
    AUTOPAR_RETURN_IF_ERROR(live.status());
    if (cost->size() != usage->size())
      return Status::badInput(indexed("problem.nodes.usages", i) + ": has " +
                              std::to_string(usage->size()) + " entries, costs has " +
                              std::to_string(cost->size()));
    CostNode node;
    node.live = {*live};
    for (size_t k = 0; k < cost->size(); ++k)
      node.strategies.push_back({(*cost)[k], static_cast<int64_t>((*usage)[k]), 0});
    graph.addNode(std::move(node));
  }
  return Status::ok();
}

Status readEdges(const json &edges, CostGraph &graph) {
  JsonFields fields(edges, "problem.edges");
  const json &pairs = fields.array("nodes");
  const json &costs = fields.array("costs");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  if (pairs.size() != costs.size())
    return Status::badInput("problem.edges: nodes and costs differ in length");
  for (size_t e = 0; e < pairs.size(); ++e) {
    auto pair = readPair(pairs[e], indexed("problem.edges.nodes", e), "[node, node]");
    Result<std::vector<double>> cost = readNumbers(costs[e], indexed("problem.edges.costs", e));
    AUTOPAR_RETURN_IF_ERROR(pair.status());
    AUTOPAR_RETURN_IF_ERROR(cost.status());
    auto [a, b] = *pair;
    auto count = static_cast<int64_t>(graph.nodes.size());
    if (a < 0 || b < 0 || a >= count || b >= count)
      return Status::badInput(indexed("problem.edges.nodes", e) + ": names a node that is not one");
    graph.addEdge(static_cast<int32_t>(a), static_cast<int32_t>(b), cost.take());
  }
  return Status::ok();
}

} // namespace

Result<CostGraph> readContestProblem(const std::string &path) {
  Result<std::string> bytes = readMaybeGzip(path);
  if (!bytes)
    return bytes.status();
  Result<json> parsed = parseJson(*bytes);
  if (!parsed)
    return parsed.status().at(path);
  if (!parsed->is_object() || !parsed->contains("problem"))
    return Status::badInput(path + ": expected an object with the key 'problem'");
  const json &problem = parsed->at("problem");
  if (!problem.is_object() || !problem.contains("nodes") || !problem.contains("edges"))
    return Status::badInput(path + ": problem: expected an object with nodes and edges");
  CostGraph graph;
  if (problem.contains("usage_limit")) {
    Result<int64_t> limit = readLimit(problem["usage_limit"]);
    if (!limit)
      return limit.status().at(path);
    graph.memoryLimitBytes = *limit;
  }
  if (Status status = readNodes(problem["nodes"], graph); !status.isOk())
    return status.at(path);
  if (Status status = readEdges(problem["edges"], graph); !status.isOk())
    return status.at(path);
  if (Status status = graph.verify(); !status.isOk())
    return status.at(path);
  return graph;
}

Status writeContestSolution(const std::string &path, const std::vector<int32_t> &choice) {
  return writeWholeFile(path, json({{"solution", choice}}).dump() + "\n");
}

} // namespace autopar
