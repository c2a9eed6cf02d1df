// SPDX-License-Identifier: Apache-2.0
// Building, checking and judging cost graphs.
#include "autopar/Planner/CostGraph.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace autopar {
namespace {

std::string nodeName(const CostGraph &graph, int64_t node) {
  const std::string &id = graph.nodes[static_cast<size_t>(node)].id;
  return "node " + std::to_string(node) + (id.empty() ? "" : " '" + id + "'");
}

bool badCost(double cost) { return !std::isfinite(cost) || cost < 0; }

Status verifyNode(const CostGraph &graph, size_t at) {
  const CostNode &node = graph.nodes[at];
  auto place = [&] { return nodeName(graph, static_cast<int64_t>(at)); };
  if (node.strategies.empty())
    return Status::badInput(place() + ": has no strategy, expected at least one");
  for (size_t s = 0; s < node.strategies.size(); ++s) {
    const Strategy &strategy = node.strategies[s];
    if (badCost(strategy.timeUs))
      return Status::badInput(place() + ": strategy " + std::to_string(s) +
                              " has a negative or infinite time");
    if (strategy.liveBytes < 0 || strategy.persistentBytes < 0)
      return Status::badInput(place() + ": strategy " + std::to_string(s) + " has negative bytes");
  }
  auto isBefore = [](const LiveInterval &a, const LiveInterval &b) { return a.begin < b.begin; };
  std::vector<LiveInterval> sorted;
  if (!std::is_sorted(node.live.begin(), node.live.end(), isBefore)) {
    sorted = node.live;
    std::sort(sorted.begin(), sorted.end(), isBefore);
  }
  const std::vector<LiveInterval> &live = sorted.empty() ? node.live : sorted;
  for (size_t i = 0; i < live.size(); ++i) {
    if (live[i].begin < 0 || live[i].end < live[i].begin)
      return Status::badInput(place() + ": live interval [" + std::to_string(live[i].begin) + ", " +
                              std::to_string(live[i].end) + ") is not one");
    if (i > 0 && live[i].begin < live[i - 1].end)
      return Status::badInput(place() + ": live intervals overlap at " +
                              std::to_string(live[i].begin));
  }
  return Status::ok();
}

/// Bytes that are held from time to time.
class HeldBytes {
public:
  void add(const LiveInterval &live, int64_t bytes) {
    if (live.begin >= live.end || bytes == 0)
      return;
    changes.emplace_back(live.begin, bytes);
    changes.emplace_back(live.end, -bytes);
    first = std::min(first, live.begin);
    last = std::max(last, live.end);
  }

  /// The most at once, if that is more than nothing, and the first time at which it is held.
  struct Peak {
    int64_t bytes = 0, at = 0;
  };
  Peak peak() {
    Peak peak;
    int64_t held = 0;
    // Times are positions of operations: as a rule there are about as many of them as of changes.
    if (first >= 0 && last < kSparse * static_cast<int64_t>(changes.size())) {
      std::vector<int64_t> changeAt(static_cast<size_t>(last) + 1, 0);
      for (const auto &[time, change] : changes)
        changeAt[static_cast<size_t>(time)] += change;
      for (size_t time = 0; time < changeAt.size(); ++time)
        if (held += changeAt[time]; held > peak.bytes)
          peak = {held, static_cast<int64_t>(time)};
      return peak;
    }
    // Of one time what ends comes first.
    std::sort(changes.begin(), changes.end());
    for (const auto &[time, change] : changes)
      if (held += change; held > peak.bytes)
        peak = {held, time};
    return peak;
  }

private:
  static constexpr int64_t kSparse = 8;             ///< times for one change
  std::vector<std::pair<int64_t, int64_t>> changes; ///< time, bytes that are held from then on
  int64_t first = 0, last = 0;
};

void judgeMemory(const CostGraph &graph, std::span<const int32_t> choice, Evaluation &result) {
  HeldBytes held;
  result.peakBytes = graph.constantBytes;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Strategy &strategy = graph.nodes[i].strategies[static_cast<size_t>(choice[i])];
    result.peakBytes += strategy.persistentBytes;
    for (const LiveInterval &live : graph.nodes[i].live)
      held.add(live, strategy.liveBytes);
  }
  HeldBytes::Peak peak = held.peak();
  result.peakBytes += peak.bytes;
  result.peakAt = peak.at;
  result.fits = graph.memoryLimitBytes <= 0 || result.peakBytes <= graph.memoryLimitBytes;
}

void refuse(Evaluation &result, std::string why) {
  if (result.legal)
    result.whyNot = std::move(why);
  result.legal = false;
}

} // namespace

int32_t CostGraph::addNode(CostNode node) {
  nodes.push_back(std::move(node));
  return static_cast<int32_t>(nodes.size()) - 1;
}

int32_t CostGraph::addMatrix(std::vector<double> matrix) {
  matrices.push_back(std::move(matrix));
  return static_cast<int32_t>(matrices.size()) - 1;
}

void CostGraph::addEdge(int32_t a, int32_t b, std::vector<double> matrix) {
  int32_t index = addMatrix(std::move(matrix));
  edges.push_back({a, b, index});
}

Status CostGraph::verify() const {
  for (size_t i = 0; i < nodes.size(); ++i)
    AUTOPAR_RETURN_IF_ERROR(verifyNode(*this, i));
  for (size_t m = 0; m < matrices.size(); ++m)
    if (std::any_of(matrices[m].begin(), matrices[m].end(), badCost))
      return Status::badInput("matrix " + std::to_string(m) + ": has a negative or infinite cost");
  auto count = static_cast<int32_t>(nodes.size());
  for (size_t e = 0; e < edges.size(); ++e) {
    const CostEdge &edge = edges[e];
    auto place = [e] { return "edge " + std::to_string(e); };
    if (edge.a < 0 || edge.a >= count || edge.b < 0 || edge.b >= count)
      return Status::badInput(place() + ": joins nodes " + std::to_string(edge.a) + " and " +
                              std::to_string(edge.b) + ", but there are " + std::to_string(count));
    if (edge.a == edge.b)
      return Status::badInput(place() + ": joins " + nodeName(*this, edge.a) + " to itself");
    if (edge.matrix < 0 || static_cast<size_t>(edge.matrix) >= matrices.size())
      return Status::badInput(place() + ": matrix " + std::to_string(edge.matrix) +
                              " does not exist");
    size_t rows = nodes[static_cast<size_t>(edge.a)].strategies.size();
    size_t columns = nodes[static_cast<size_t>(edge.b)].strategies.size();
    size_t held = matrices[static_cast<size_t>(edge.matrix)].size();
    if (held != rows * columns)
      return Status::badInput(place() + " between " + nodeName(*this, edge.a) + " and " +
                              nodeName(*this, edge.b) + ": matrix has " + std::to_string(held) +
                              " entries, expected " + std::to_string(rows) + " x " +
                              std::to_string(columns));
  }
  if (!blocks.empty() && blocks.size() != nodes.size())
    return Status::badInput("blocks: has " + std::to_string(blocks.size()) +
                            " entries, expected none or one per node (" +
                            std::to_string(nodes.size()) + ")");
  if (constantBytes < 0)
    return Status::badInput("constantBytes: is negative");
  return Status::ok();
}

Evaluation evaluate(const CostGraph &graph, std::span<const int32_t> choice) {
  Evaluation result;
  if (choice.size() != graph.nodes.size()) {
    refuse(result, "choice has " + std::to_string(choice.size()) + " entries, expected " +
                       std::to_string(graph.nodes.size()));
    return result;
  }
  for (size_t i = 0; i < choice.size(); ++i) {
    size_t count = graph.nodes[i].strategies.size();
    if (choice[i] < 0 || static_cast<size_t>(choice[i]) >= count) {
      refuse(result, nodeName(graph, static_cast<int64_t>(i)) + " has no strategy " +
                         std::to_string(choice[i]));
      return result;
    }
    double cost = graph.nodes[i].strategies[static_cast<size_t>(choice[i])].timeUs;
    result.timeUs += cost;
    if (isForbidden(cost))
      refuse(result, nodeName(graph, static_cast<int64_t>(i)) + " takes forbidden strategy " +
                         std::to_string(choice[i]));
  }
  for (const CostEdge &edge : graph.edges) {
    auto a = static_cast<size_t>(edge.a), b = static_cast<size_t>(edge.b);
    size_t columns = graph.nodes[b].strategies.size();
    double cost =
        graph.matrices[static_cast<size_t>(edge.matrix)]
                      [static_cast<size_t>(choice[a]) * columns + static_cast<size_t>(choice[b])];
    result.timeUs += cost;
    if (isForbidden(cost))
      refuse(result, nodeName(graph, edge.a) + " and " + nodeName(graph, edge.b) +
                         " take a forbidden pair of strategies");
  }
  judgeMemory(graph, choice, result);
  return result;
}

int64_t fewestBytes(const CostGraph &graph) {
  HeldBytes held;
  int64_t always = graph.constantBytes;
  for (const CostNode &node : graph.nodes) {
    int64_t live = std::numeric_limits<int64_t>::max(), persistent = live;
    for (const Strategy &strategy : node.strategies) {
      live = std::min(live, strategy.liveBytes);
      persistent = std::min(persistent, strategy.persistentBytes);
    }
    always += persistent;
    for (const LiveInterval &interval : node.live)
      held.add(interval, live);
  }
  return always + held.peak().bytes;
}

} // namespace autopar
