// SPDX-License-Identifier: Apache-2.0
// Exact reductions, in rounds until nothing changes: drop strategies without a legal partner, merge
// nodes that another node's choice determines, drop dominated strategies, eliminate nodes without
// memory that have at most two neighbours (variable elimination, Bertele and Brioschi 1972).
#include "Reduction.h"
#include "Dominance.h"
#include "VectorClones.h"

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
  using Table = std::vector<double>; ///< row-major over (own, other)

  struct Node {
    bool alive = true;
    bool changed = true; ///< since its strategies were last compared
    std::vector<double> cost;
    NodeMemory memory;
    std::map<int32_t, MatrixRef> neighbours; ///< rows = own strategies where own index < other's
    std::vector<int32_t> members;            ///< original nodes that follow this one
    int32_t size() const { return static_cast<int32_t>(cost.size()); }
  };

  /// The table of (own, other) as own rows.
  const std::vector<double> &table(int32_t own, int32_t other) const {
    const MatrixRef &matrix = nodes[own].neighbours.at(other);
    return own < other ? matrix->byRow : matrix->byColumn;
  }

  void setTable(int32_t own, int32_t other, Table values) {
    int32_t rows = nodes[own].size(), columns = nodes[other].size();
    MatrixRef matrix;
    if (own < other) {
      matrix = makeMatrix(rows, columns, std::move(values));
    } else {
      Table turned(values.size());
      for (int32_t r = 0; r < rows; ++r)
        for (int32_t c = 0; c < columns; ++c)
          turned[static_cast<size_t>(c) * rows + r] = values[static_cast<size_t>(r) * columns + c];
      matrix = makeMatrix(columns, rows, std::move(turned));
    }
    nodes[own].neighbours[other] = matrix;
    nodes[other].neighbours[own] = matrix;
    nodes[own].changed = nodes[other].changed = true;
  }

  void addTable(int32_t own, int32_t other, Table values) {
    if (nodes[own].neighbours.count(other)) {
      const std::vector<double> &before = table(own, other);
      for (size_t i = 0; i < values.size(); ++i)
        values[i] = std::min(values[i] + before[i], kForbidden);
    }
    setTable(own, other, std::move(values));
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
  for (const NodeChoice &one : graph.forbidden)
    nodes[one.node].cost[static_cast<size_t>(one.strategy)] = kForbidden;
  for (const NodeChoice &one : graph.fixed)
    for (int32_t k = 0; k < nodes[one.node].size(); ++k)
      if (k != one.strategy)
        nodes[one.node].cost[static_cast<size_t>(k)] = kForbidden;
  // Shared matrices stay shared: one Matrix per (index, orientation).
  std::map<std::pair<int32_t, bool>, MatrixRef> made;
  for (const CostEdge &edge : graph.edges) {
    const Table &values = graph.matrices[static_cast<size_t>(edge.matrix)];
    if (nodes[edge.a].neighbours.count(edge.b)) {
      addTable(edge.a, edge.b, values);
      continue;
    }
    MatrixRef &matrix = made[{edge.matrix, edge.a < edge.b}];
    if (!matrix) {
      setTable(edge.a, edge.b, values);
      matrix = nodes[edge.a].neighbours.at(edge.b);
    }
    nodes[edge.a].neighbours[edge.b] = matrix;
    nodes[edge.b].neighbours[edge.a] = matrix;
  }
}

/// Rows of a table, in the given order; of width 1 the elements of a list.
template <typename T>
static std::vector<T> rowsOf(const std::vector<T> &table, int32_t width,
                             const std::vector<int32_t> &rows) {
  std::vector<T> picked;
  picked.reserve(rows.size() * static_cast<size_t>(width));
  for (int32_t row : rows) {
    auto begin = table.begin() + static_cast<long>(row) * width;
    picked.insert(picked.end(), begin, begin + width);
  }
  return picked;
}

void Reducer::keepStrategies(int32_t at, const std::vector<int32_t> &kept) {
  Node &node = nodes[at];
  auto before = static_cast<size_t>(node.size());
  std::map<int32_t, Table> tables;
  for (const auto &[other, matrix] : node.neighbours)
    tables[other] = rowsOf(table(at, other), nodes[other].size(), kept);
  std::vector<int64_t> bytes;
  for (size_t p = 0; p < node.memory.pieces.size(); ++p)
    for (int32_t k : kept)
      bytes.push_back(node.memory.bytes[p * before + static_cast<size_t>(k)]);
  node.cost = rowsOf(node.cost, 1, kept);
  node.memory.bytes = std::move(bytes);
  for (int32_t member : node.members) {
    std::vector<int32_t> &map = result.toOriginal[static_cast<size_t>(member)];
    map = rowsOf(map, 1, kept);
  }
  for (auto &[other, values] : tables)
    setTable(at, other, std::move(values));
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
    std::vector<int32_t> kept;
    for (int32_t k = 0; k < nodes[at].size(); ++k) {
      bool legal = !isForbidden(nodes[at].cost[static_cast<size_t>(k)]);
      for (const auto &[other, matrix] : nodes[at].neighbours) {
        if (!legal)
          break;
        auto columns = static_cast<size_t>(nodes[other].size());
        const double *row = table(at, other).data() + static_cast<size_t>(k) * columns;
        legal = std::any_of(row, row + columns, [](double cost) { return !isForbidden(cost); });
      }
      if (legal)
        kept.push_back(k);
    }
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
  const std::vector<double> &values = table(leader, follower);
  auto columns = static_cast<size_t>(nodes[follower].size());
  std::vector<int32_t> map;
  std::vector<double> extra;
  for (int32_t k = 0; k < nodes[leader].size(); ++k) {
    const double *row = values.data() + static_cast<size_t>(k) * columns;
    int32_t only = -1;
    for (size_t c = 0; c < columns; ++c)
      if (!isForbidden(row[c])) {
        if (only >= 0)
          return false;
        only = static_cast<int32_t>(c);
      }
    // Earlier merges may have left a strategy without a partner; it goes in the next round.
    map.push_back(std::max(only, 0));
    extra.push_back(only < 0 ? kForbidden
                             : row[only] + nodes[follower].cost[static_cast<size_t>(only)]);
  }
  Node &lead = nodes[leader], &gone = nodes[follower];
  disconnect(leader, follower);
  for (size_t k = 0; k < extra.size(); ++k)
    lead.cost[k] = std::min(lead.cost[k] + extra[k], kForbidden);
  std::vector<int32_t> others;
  for (const auto &[other, matrix] : gone.neighbours)
    others.push_back(other);
  for (int32_t other : others) {
    Table moved = rowsOf(table(follower, other), nodes[other].size(), map);
    disconnect(follower, other);
    addTable(leader, other, std::move(moved));
  }
  for (size_t p = 0; p < gone.memory.pieces.size(); ++p) {
    lead.memory.pieces.push_back(gone.memory.pieces[p]);
    for (int32_t k : map)
      lead.memory.bytes.push_back(gone.memory.bytes[p * columns + static_cast<size_t>(k)]);
  }
  for (int32_t member : gone.members) {
    std::vector<int32_t> &own = result.toOriginal[static_cast<size_t>(member)];
    own = rowsOf(own, 1, map);
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
    int32_t count = nodes[i].size();
    std::vector<Dominance::Side> sides;
    for (const auto &[other, matrix] : nodes[i].neighbours)
      sides.push_back({table(static_cast<int32_t>(i), other).data(),
                       static_cast<size_t>(nodes[other].size()),
                       {}});
    Dominance dominance(nodes[i].cost, nodes[i].memory, std::move(sides));
    std::vector<bool> gone(static_cast<size_t>(count), false);
    for (int32_t loser = 0; loser < count; ++loser)
      for (int32_t winner = 0; winner < count; ++winner)
        if (winner != loser && !gone[static_cast<size_t>(winner)] &&
            dominance.holds(static_cast<size_t>(winner), static_cast<size_t>(loser))) {
          gone[static_cast<size_t>(loser)] = true;
          break;
        }
    std::vector<int32_t> kept;
    for (int32_t k = 0; k < count; ++k)
      if (!gone[static_cast<size_t>(k)])
        kept.push_back(k);
    if (static_cast<int32_t>(kept.size()) < count) {
      keepStrategies(static_cast<int32_t>(i), kept);
      changed = true;
    }
    nodes[i].changed = false;
  }
}

/// Of the rows of a table with `stride` columns, each added to its start: the least of each of
/// `Columns` columns, where that is less than it was, and whose it is. They stay in registers.
template <int32_t Columns>
static inline __attribute__((always_inline)) void
keepLeastOf(double *__restrict least, int32_t *__restrict best, const double *table,
            const double *start, int32_t rows, int32_t stride) {
  double lowest[Columns];
  int32_t by[Columns];
  std::copy_n(least, Columns, lowest);
  std::copy_n(best, Columns, by);
  for (int32_t k = 0; k < rows; ++k, table += stride)
    for (int32_t x = 0; x < Columns; ++x) {
      double cost = start[k] + table[x];
      bool less = cost < lowest[x];
      lowest[x] = less ? cost : lowest[x];
      by[x] = less ? k : by[x];
    }
  std::copy_n(lowest, Columns, least);
  std::copy_n(by, Columns, best);
}

/// The same for all columns.
AUTOPAR_VECTOR_CLONES
static void keepLeast(double *__restrict least, int32_t *__restrict best, const double *table,
                      const double *start, int32_t rows, int32_t count) {
  int32_t x = 0;
  for (; x + 32 <= count; x += 32)
    keepLeastOf<32>(least + x, best + x, table + x, start, rows, count);
  for (; x + 8 <= count; x += 8)
    keepLeastOf<8>(least + x, best + x, table + x, start, rows, count);
  for (; x < count; ++x)
    keepLeastOf<1>(least + x, best + x, table + x, start, rows, count);
}

void Reducer::eliminate(int32_t at) {
  Node &node = nodes[at];
  Reduction::Elimination one;
  one.node = at;
  for (const auto &[other, matrix] : node.neighbours) {
    one.neighbours.push_back(other);
    one.originals.push_back(result.toOriginal[static_cast<size_t>(other)]);
  }
  // Columns run over the last neighbour; with one neighbour there is one row.
  size_t count = one.neighbours.size();
  int32_t x = count < 2 ? 1 : nodes[one.neighbours[0]].size();
  int32_t y = count < 1 ? 1 : nodes[one.neighbours[count - 1]].size();
  const Table none(static_cast<size_t>(node.size()), 0.0);
  const Table &outer = count < 2 ? none : table(at, one.neighbours[0]);
  const Table &inner = count < 1 ? none : table(at, one.neighbours[count - 1]);
  Table reduced(static_cast<size_t>(x) * static_cast<size_t>(y), 2 * kForbidden);
  one.best.assign(reduced.size(), 0);
  std::vector<double> start(static_cast<size_t>(node.size()));
  for (int32_t i = 0; i < x; ++i) {
    for (size_t row = 0; row < start.size(); ++row)
      start[row] = node.cost[row] + outer[row * x + static_cast<size_t>(i)];
    keepLeast(reduced.data() + static_cast<size_t>(i) * y,
              one.best.data() + static_cast<size_t>(i) * y, inner.data(), start.data(), node.size(),
              y);
  }
  for (double &cost : reduced)
    cost = std::min(cost, kForbidden);
  for (int32_t other : one.neighbours)
    disconnect(at, other);
  if (one.neighbours.empty())
    result.reduced.constant += reduced[0];
  else if (one.neighbours.size() == 1)
    for (int32_t i = 0; i < y; ++i)
      nodes[one.neighbours[0]].cost[static_cast<size_t>(i)] += reduced[static_cast<size_t>(i)];
  else
    addTable(one.neighbours[0], one.neighbours[1], std::move(reduced));
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
    leads[static_cast<size_t>(one.node)] = one.best[cell];
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
