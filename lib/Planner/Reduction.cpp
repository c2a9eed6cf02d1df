// SPDX-License-Identifier: Apache-2.0
// Exact reductions, in rounds until nothing changes: drop strategies without a legal partner, merge
// nodes that another node's choice determines, drop dominated strategies, eliminate nodes without
// memory that have at most two neighbours (variable elimination, Bertele and Brioschi 1972).
#include "Reduction.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace autopar::planner {

/// The graph while it shrinks. Matrices are rows = lower node, held once per pair.
class Reducer {
public:
  explicit Reducer(const CostGraph &graph) : graph(graph) {}

  Result<Reduction> run() {
    load();
    bool changed = true;
    for (int round = 0; changed && round < 50; ++round) {
      changed = false;
      AUTOPAR_RETURN_IF_ERROR(dropForbidden(changed));
      mergeFollowers(changed);
      if (round < 6)
        dropDominated(changed);
      eliminateFree(changed);
    }
    finish();
    return std::move(result);
  }

private:
  struct Node {
    bool alive = true;
    bool changed = true; ///< since its strategies were last compared
    std::vector<double> cost;
    NodeMemory memory;
    std::map<int32_t, MatrixRef> neighbours; ///< rows = own strategies where own index < other's
    std::vector<int32_t> members;            ///< original nodes that follow this one
    int32_t size() const { return static_cast<int32_t>(cost.size()); }
  };

  Side side(int32_t own, int32_t other) const {
    return {nodes[own].neighbours.at(other), own < other};
  }
  std::vector<Side> sides(int32_t own) const {
    std::vector<Side> all;
    for (const auto &[other, matrix] : nodes[own].neighbours)
      all.push_back({matrix, own < other});
    return all;
  }

  /// `matrix` has the lower node's strategies as rows.
  void setMatrix(int32_t own, int32_t other, MatrixRef matrix) {
    nodes[own].neighbours[other] = matrix;
    nodes[other].neighbours[own] = std::move(matrix);
    nodes[own].changed = nodes[other].changed = true;
  }
  void addMatrix(int32_t own, int32_t other, MatrixRef matrix) {
    if (auto known = nodes[own].neighbours.find(other); known != nodes[own].neighbours.end())
      matrix = tables.sum(matrix, known->second);
    setMatrix(own, other, std::move(matrix));
  }

  void disconnect(int32_t a, int32_t b) {
    nodes[a].neighbours.erase(b);
    nodes[b].neighbours.erase(a);
    nodes[a].changed = nodes[b].changed = true;
  }

  void load();
  Status dropForbidden(bool &changed);
  void mergeFollowers(bool &changed);
  void dropDominated(bool &changed);
  void eliminateFree(bool &changed);
  void finish();

  void keepStrategies(int32_t node, const std::vector<int32_t> &kept);
  bool follow(int32_t leader, int32_t follower);
  void eliminate(int32_t node);

  const CostGraph &graph;
  std::vector<Node> nodes;
  MadeTables tables;
  Reduction result;
};

void Reducer::load() {
  size_t count = graph.nodes.size();
  nodes.resize(count);
  result.originalCount = count;
  result.follows.resize(count);
  std::iota(result.follows.begin(), result.follows.end(), 0);
  result.toOriginal.resize(count);
  MemoryReduction memory = reduceMemory(graph);
  result.reduced.room = std::move(memory.room);
  for (size_t i = 0; i < count; ++i) {
    Node &node = nodes[i];
    for (const Strategy &strategy : graph.nodes[i].strategies)
      node.cost.push_back(std::min(strategy.timeUs, kForbidden));
    node.memory = std::move(memory.nodes[i]);
    node.members = {static_cast<int32_t>(i)};
    result.toOriginal[i].resize(node.cost.size());
    std::iota(result.toOriginal[i].begin(), result.toOriginal[i].end(), 0);
  }
  // Shared matrices stay shared: one Matrix per (index, orientation).
  std::map<std::pair<int32_t, bool>, MatrixRef> made;
  for (const CostEdge &edge : graph.edges) {
    bool isLower = edge.a < edge.b;
    MatrixRef &matrix = made[{edge.matrix, isLower}];
    if (!matrix) {
      int32_t rows = nodes[isLower ? edge.a : edge.b].size(),
              columns = nodes[isLower ? edge.b : edge.a].size();
      matrix = makeMatrix(rows, columns, graph.matrices[static_cast<size_t>(edge.matrix)], isLower);
    }
    addMatrix(edge.a, edge.b, matrix);
  }
}

template <typename T>
static std::vector<T> picked(const std::vector<T> &list, const std::vector<int32_t> &indices) {
  std::vector<T> result;
  result.reserve(indices.size());
  for (int32_t index : indices)
    result.push_back(list[static_cast<size_t>(index)]);
  return result;
}

void Reducer::keepStrategies(int32_t at, const std::vector<int32_t> &kept) {
  Node &node = nodes[at];
  auto before = static_cast<size_t>(node.size());
  std::vector<int64_t> bytes;
  for (size_t p = 0; p < node.memory.pieces.size(); ++p)
    for (int32_t k : kept)
      bytes.push_back(node.memory.bytes[p * before + static_cast<size_t>(k)]);
  node.cost = picked(node.cost, kept);
  node.memory.bytes = std::move(bytes);
  for (int32_t member : node.members) {
    std::vector<int32_t> &map = result.toOriginal[static_cast<size_t>(member)];
    map = picked(map, kept);
  }
  for (auto &[other, matrix] : node.neighbours)
    setMatrix(at, other, tables.pick(side(at, other), kept, at < other));
}

Status Reducer::dropForbidden(bool &changed) {
  std::vector<int32_t> work(nodes.size());
  std::iota(work.begin(), work.end(), 0);
  std::vector<bool> queued(nodes.size(), true);
  for (size_t next = 0; next < work.size(); ++next) {
    int32_t at = work[next];
    queued[static_cast<size_t>(at)] = false;
    if (!nodes[at].alive)
      continue;
    std::vector<int32_t> legal;
    for (double cost : nodes[at].cost)
      legal.push_back(!isForbidden(cost));
    for (const Side &side : sides(at)) {
      IndexList haveOne = tables.haveLegalPartners(side);
      for (size_t k = 0; k < legal.size(); ++k)
        legal[k] &= (*haveOne)[k];
    }
    std::vector<int32_t> kept;
    for (int32_t k = 0; k < nodes[at].size(); ++k)
      if (legal[static_cast<size_t>(k)])
        kept.push_back(k);
    if (kept.empty())
      return Status::badInput("node " + std::to_string(at) + " '" +
                              graph.nodes[static_cast<size_t>(at)].id +
                              "': no strategy is left that is legal with its neighbours");
    if (static_cast<int32_t>(kept.size()) == nodes[at].size())
      continue;
    changed = true;
    keepStrategies(at, kept);
    for (const auto &[other, matrix] : nodes[at].neighbours)
      if (!queued[static_cast<size_t>(other)]) {
        queued[static_cast<size_t>(other)] = true;
        work.push_back(other);
      }
  }
  return Status::ok();
}

/// Where each strategy of `leader` leaves `follower` one legal strategy, the two become one node.
bool Reducer::follow(int32_t leader, int32_t follower) {
  Side between = side(leader, follower);
  // Earlier merges may have left a strategy without a partner; it goes in the next round.
  IndexList only = tables.onlyPartners(between);
  if (!only)
    return false;
  const std::vector<int32_t> &map = *only;
  std::vector<double> extra;
  for (size_t k = 0; k < map.size(); ++k) {
    double cost = between.row(k)[map[k]];
    extra.push_back(isForbidden(cost) ? kForbidden
                                      : cost + nodes[follower].cost[static_cast<size_t>(map[k])]);
  }
  Node &lead = nodes[leader], &gone = nodes[follower];
  disconnect(leader, follower);
  for (size_t k = 0; k < extra.size(); ++k)
    lead.cost[k] = std::min(lead.cost[k] + extra[k], kForbidden);
  std::vector<int32_t> others;
  for (const auto &[other, matrix] : gone.neighbours)
    others.push_back(other);
  for (int32_t other : others) {
    MatrixRef moved = tables.pick(side(follower, other), map, leader < other);
    disconnect(follower, other);
    addMatrix(leader, other, std::move(moved));
  }
  for (size_t p = 0; p < gone.memory.pieces.size(); ++p) {
    lead.memory.pieces.push_back(gone.memory.pieces[p]);
    for (int32_t k : map)
      lead.memory.bytes.push_back(gone.memory.bytes[p * gone.cost.size() + static_cast<size_t>(k)]);
  }
  for (int32_t member : gone.members) {
    std::vector<int32_t> &own = result.toOriginal[static_cast<size_t>(member)];
    own = picked(own, map);
    result.follows[static_cast<size_t>(member)] = leader;
    lead.members.push_back(member);
  }
  gone = Node{};
  gone.alive = false;
  return true;
}

void Reducer::mergeFollowers(bool &changed) {
  for (size_t i = 0; i < nodes.size(); ++i) {
    auto leader = static_cast<int32_t>(i);
    bool again = nodes[i].alive;
    while (again) {
      again = false;
      std::vector<int32_t> others;
      for (const auto &[other, matrix] : nodes[i].neighbours)
        others.push_back(other);
      for (int32_t other : others)
        if (nodes[i].neighbours.count(other) && follow(leader, other))
          again = changed = true;
    }
  }
}

void Reducer::dropDominated(bool &changed) {
  constexpr int32_t most = 160; // quadratic in the strategies
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].alive || !nodes[i].changed || nodes[i].size() > most)
      continue;
    auto at = static_cast<int32_t>(i);
    IndexList kept = tables.undominated(nodes[i].cost, nodes[i].memory, sides(at));
    if (kept->size() < nodes[i].cost.size()) {
      keepStrategies(at, *kept);
      changed = true;
    }
    nodes[i].changed = false;
  }
}

void Reducer::eliminate(int32_t at) {
  Node &node = nodes[at];
  Reduction::Elimination one;
  one.node = at;
  for (const auto &[other, matrix] : node.neighbours) {
    one.neighbours.push_back(other);
    one.originals.push_back(result.toOriginal[static_cast<size_t>(other)]);
  }
  MadeTables::Least least = tables.least(node.cost, sides(at));
  one.best = std::move(least.best);
  for (int32_t other : one.neighbours)
    disconnect(at, other);
  const std::vector<double> &costs = least.costs->byRow;
  if (one.neighbours.empty())
    result.reduced.constant += costs[0];
  else if (one.neighbours.size() == 1)
    for (size_t i = 0; i < costs.size(); ++i)
      nodes[one.neighbours[0]].cost[i] += costs[i];
  else
    addMatrix(one.neighbours[0], one.neighbours[1], std::move(least.costs));
  node.alive = false;
  result.eliminations.push_back(std::move(one));
}

void Reducer::eliminateFree(bool &changed) {
  constexpr double kMostCells = 3e7;
  std::vector<int32_t> work;
  for (size_t i = 0; i < nodes.size(); ++i)
    work.push_back(static_cast<int32_t>(i));
  for (size_t next = 0; next < work.size(); ++next) {
    Node &node = nodes[work[next]];
    if (!node.alive || node.neighbours.size() > 2)
      continue;
    normaliseMemory(node.memory, node.cost.size(), result.reduced.room);
    if (!node.memory.pieces.empty())
      continue;
    double cells = node.size();
    for (const auto &[other, matrix] : node.neighbours)
      cells *= nodes[other].size();
    if (cells > kMostCells)
      continue;
    std::vector<int32_t> others;
    for (const auto &[other, matrix] : node.neighbours)
      others.push_back(other);
    eliminate(work[next]);
    work.insert(work.end(), others.begin(), others.end());
    changed = true;
  }
}

void Reducer::finish() {
  ReducedProblem &problem = result.reduced;
  std::vector<NodeMemory *> views;
  std::vector<size_t> strategies;
  for (Node &node : nodes)
    if (node.alive) {
      normaliseMemory(node.memory, node.cost.size(), problem.room);
      views.push_back(&node.memory);
      strategies.push_back(node.cost.size());
    }
  dropSlackTimes(views, strategies, problem.room);
  result.indexOf.assign(nodes.size(), -1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!nodes[i].alive)
      continue;
    result.indexOf[i] = static_cast<int32_t>(problem.nodes.size());
    ReducedNode node;
    node.original = static_cast<int32_t>(i);
    node.cost = nodes[i].cost;
    node.memory = std::move(nodes[i].memory);
    problem.nodes.push_back(std::move(node));
  }
  for (size_t i = 0; i < nodes.size(); ++i)
    for (const auto &[other, matrix] : nodes[i].neighbours) {
      if (other < static_cast<int32_t>(i))
        continue;
      int32_t a = result.indexOf[i], b = result.indexOf[static_cast<size_t>(other)];
      auto edge = static_cast<int32_t>(problem.edges.size());
      problem.edges.push_back({a, b, matrix});
      problem.nodes[static_cast<size_t>(a)].arcs.push_back({edge, b, true});
      problem.nodes[static_cast<size_t>(b)].arcs.push_back({edge, a, false});
    }
  problem.priceForbidden();
}

Result<Reduction> Reduction::of(const CostGraph &graph) {
  AUTOPAR_RETURN_IF_ERROR(graph.verify());
  return Reducer(graph).run();
}

std::vector<int32_t> Reduction::expand(const std::vector<int32_t> &choice) const {
  // What each leading node takes, in its last numbering; followers look it up.
  std::vector<int32_t> leads(originalCount, 0);
  auto originalChoice = [&](size_t node) {
    return toOriginal[node][static_cast<size_t>(leads[static_cast<size_t>(follows[node])])];
  };
  for (size_t i = 0; i < originalCount; ++i)
    if (indexOf[i] >= 0)
      leads[i] = choice[static_cast<size_t>(indexOf[i])];
  for (size_t e = eliminations.size(); e-- > 0;) {
    const Elimination &one = eliminations[e];
    size_t cell = 0;
    for (size_t n = 0; n < one.neighbours.size(); ++n) {
      const std::vector<int32_t> &list = one.originals[n];
      auto found = std::find(list.begin(), list.end(),
                             originalChoice(static_cast<size_t>(one.neighbours[n])));
      cell = cell * list.size() + static_cast<size_t>(found - list.begin());
    }
    leads[static_cast<size_t>(one.node)] = (*one.best)[cell];
  }
  std::vector<int32_t> result(originalCount);
  for (size_t i = 0; i < originalCount; ++i)
    result[i] = originalChoice(i);
  return result;
}

std::vector<int32_t> Reduction::shrink(const std::vector<int32_t> &choice) const {
  std::vector<int32_t> result(reduced.nodes.size(), -1);
  for (size_t r = 0; r < result.size(); ++r) {
    auto original = static_cast<size_t>(reduced.nodes[r].original);
    const std::vector<int32_t> &map = toOriginal[original];
    auto found = std::find(map.begin(), map.end(), choice[original]);
    if (found != map.end())
      result[r] = static_cast<int32_t>(found - map.begin());
  }
  return result;
}

} // namespace autopar::planner
