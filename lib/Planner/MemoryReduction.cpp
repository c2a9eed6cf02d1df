// SPDX-License-Identifier: Apache-2.0
// Reduction of live intervals; the idea to keep only maximal live sets is known from production
// auto-sharding solvers.
#include "MemoryReduction.h"

#include <algorithm>
#include <numeric>

namespace autopar::planner {
namespace {

bool holdsLive(const CostNode &node) {
  return std::any_of(node.strategies.begin(), node.strategies.end(),
                     [](const Strategy &strategy) { return strategy.liveBytes > 0; });
}

/// Sorted distinct interval borders; [i, i+1) are the raw time points.
std::vector<int64_t> rawBorders(const CostGraph &graph) {
  std::vector<int64_t> borders;
  for (const CostNode &node : graph.nodes)
    if (holdsLive(node))
      for (const LiveInterval &live : node.live)
        if (live.begin < live.end) {
          borders.push_back(live.begin);
          borders.push_back(live.end);
        }
  if (borders.empty())
    borders = {0, 1};
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return borders;
}

NodeMemory rawMemory(const CostNode &node, const std::vector<int64_t> &borders) {
  NodeMemory memory;
  auto at = [&](int64_t time) {
    return static_cast<int32_t>(std::lower_bound(borders.begin(), borders.end(), time) -
                                borders.begin());
  };
  if (std::any_of(node.strategies.begin(), node.strategies.end(),
                  [](const Strategy &strategy) { return strategy.persistentBytes > 0; })) {
    memory.pieces.push_back({0, static_cast<int32_t>(borders.size()) - 1});
    for (const Strategy &strategy : node.strategies)
      memory.bytes.push_back(strategy.persistentBytes);
  }
  if (holdsLive(node))
    for (const LiveInterval &live : node.live)
      if (live.begin < live.end) {
        memory.pieces.push_back({at(live.begin), at(live.end)});
        for (const Strategy &strategy : node.strategies)
          memory.bytes.push_back(strategy.liveBytes);
      }
  return memory;
}

/// Time points that some choice overfills.
std::vector<int32_t> bindingTimes(const std::vector<NodeMemory *> &nodes,
                                  const std::vector<size_t> &strategies,
                                  const std::vector<int64_t> &room) {
  std::vector<int64_t> change(room.size() + 1, 0);
  for (size_t n = 0; n < nodes.size(); ++n)
    for (size_t p = 0; p < nodes[n]->pieces.size(); ++p) {
      auto first = nodes[n]->bytes.begin() + static_cast<long>(p * strategies[n]);
      int64_t most = *std::max_element(first, first + static_cast<long>(strategies[n]));
      change[static_cast<size_t>(nodes[n]->pieces[p].begin)] += most;
      change[static_cast<size_t>(nodes[n]->pieces[p].end)] -= most;
    }
  std::vector<int32_t> binding;
  int64_t held = 0;
  for (size_t t = 0; t < room.size(); ++t) {
    held += change[t];
    if (held > room[t])
      binding.push_back(static_cast<int32_t>(t));
  }
  return binding;
}

/// Of `times`, those not implied by a neighbour.
std::vector<int32_t> maximalTimes(const std::vector<int32_t> &times,
                                  const std::vector<NodeMemory *> &nodes,
                                  const std::vector<int64_t> &room) {
  std::vector<int32_t> begins(room.size() + 1, 0), ends(room.size() + 1, 0);
  for (const NodeMemory *memory : nodes)
    for (const Piece &piece : memory->pieces) {
      ++begins[static_cast<size_t>(piece.begin)];
      ++ends[static_cast<size_t>(piece.end)];
    }
  std::partial_sum(begins.begin(), begins.end(), begins.begin());
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<int32_t> kept;
  for (int32_t time : times) {
    auto t = static_cast<size_t>(time);
    bool implied = false;
    while (!kept.empty() && !implied) {
      auto before = static_cast<size_t>(kept.back());
      if (begins[t] == begins[before] && room[t] >= room[before])
        implied = true;
      else if (ends[t] == ends[before] && room[t] <= room[before])
        kept.pop_back();
      else
        break;
    }
    if (!implied)
      kept.push_back(time);
  }
  return kept;
}

} // namespace

MemoryReduction reduceMemory(const CostGraph &graph) {
  MemoryReduction result;
  result.nodes.resize(graph.nodes.size());
  if (graph.memoryLimitBytes <= 0)
    return result;
  std::vector<int64_t> borders = rawBorders(graph);
  result.room.assign(borders.size() - 1, graph.memoryLimitBytes - graph.constantBytes);
  std::vector<NodeMemory *> views;
  std::vector<size_t> strategies;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    result.nodes[i] = rawMemory(graph.nodes[i], borders);
    strategies.push_back(graph.nodes[i].strategies.size());
    normaliseMemory(result.nodes[i], strategies.back(), result.room);
    views.push_back(&result.nodes[i]);
  }
  dropSlackTimes(views, strategies, result.room);
  return result;
}

void normaliseMemory(NodeMemory &memory, size_t strategies, std::vector<int64_t> &room) {
  std::vector<size_t> order(memory.pieces.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const Piece &left = memory.pieces[a], &right = memory.pieces[b];
    return left.begin != right.begin ? left.begin < right.begin : left.end < right.end;
  });
  NodeMemory joined;
  for (size_t at = 0; at < order.size();) {
    Piece piece = memory.pieces[order[at]];
    std::vector<int64_t> bytes(strategies, 0);
    for (; at < order.size() && memory.pieces[order[at]].begin == piece.begin &&
           memory.pieces[order[at]].end == piece.end;
         ++at)
      for (size_t k = 0; k < strategies; ++k)
        bytes[k] += memory.bytes[order[at] * strategies + k];
    int64_t least = *std::min_element(bytes.begin(), bytes.end());
    for (int32_t t = piece.begin; least != 0 && t < piece.end; ++t)
      room[static_cast<size_t>(t)] -= least;
    bool same = true;
    for (int64_t &held : bytes) {
      held -= least;
      same = same && held == 0;
    }
    if (same || piece.begin >= piece.end)
      continue;
    joined.pieces.push_back(piece);
    joined.bytes.insert(joined.bytes.end(), bytes.begin(), bytes.end());
  }
  memory = std::move(joined);
}

void dropSlackTimes(const std::vector<NodeMemory *> &nodes, const std::vector<size_t> &strategies,
                    std::vector<int64_t> &room) {
  std::vector<int32_t> kept = maximalTimes(bindingTimes(nodes, strategies, room), nodes, room);
  std::vector<int32_t> renumbered(room.size() + 1, 0);
  size_t next = 0;
  for (size_t t = 0; t <= room.size(); ++t) {
    while (next < kept.size() && static_cast<size_t>(kept[next]) < t)
      ++next;
    renumbered[t] = static_cast<int32_t>(next);
  }
  std::vector<int64_t> fewer;
  for (int32_t t : kept)
    fewer.push_back(room[static_cast<size_t>(t)]);
  room = std::move(fewer);
  for (size_t n = 0; n < nodes.size(); ++n) {
    for (Piece &piece : nodes[n]->pieces)
      piece = {renumbered[static_cast<size_t>(piece.begin)],
               renumbered[static_cast<size_t>(piece.end)]};
    normaliseMemory(*nodes[n], strategies[n], room);
  }
}

} // namespace autopar::planner
