// SPDX-License-Identifier: Apache-2.0
// Solving one of the equal copies as if all took the same choice under a row of memory prices, and
// building the small graph over the solutions.
#include "autopar/Planner/FoldBlocks.h"

#include "BlockFinder.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

namespace autopar {

/// Copies per segment of the lower bound. Segments of eight prove a little more where all of their
/// search ends, but it seldom does, and they take twice as long.
static constexpr int64_t kSegment = 2;

class BlockFolder::Impl {
public:
  Impl(const CostGraph &graph, const SearchEngine &engine, const SearchOptions &options,
       int64_t leastCopies);

  std::optional<FoldedGraph> fold(int64_t memoryLimitBytes);
  double lowerBoundUs() const;

private:
  double entry(const BlockEdge &edge, int32_t own, int32_t other) const {
    size_t columns = edgeColumns(edge);
    const std::vector<double> &matrix = graph.matrices[static_cast<size_t>(edge.matrix)];
    return edge.rowsAreOwn
               ? matrix[static_cast<size_t>(own) * columns + static_cast<size_t>(other)]
               : matrix[static_cast<size_t>(other) * columns + static_cast<size_t>(own)];
  }
  size_t edgeColumns(const BlockEdge &edge) const { return columnsOf.at(edge.matrix); }

  CostGraph tiedBlock(size_t block, double price, const std::set<int64_t> &times) const;
  int64_t peakTime(size_t block, const BlockOption &option) const;
  int64_t findOption(size_t block, double price, const std::set<int64_t> &times,
                     std::vector<BlockOption> &found) const;
  int64_t findOptions(size_t block);
  void keepPareto(size_t block, std::vector<BlockOption> &found) const;
  BlockOption evaluateOption(size_t block, std::vector<int32_t> choice) const;
  void buildGraph();
  void addCopies(size_t block);
  void addKeptEdges();
  void addBetweenCopies(size_t block);

  const CostGraph &graph;
  int64_t limit = 0; ///< bytes
  bool isWorthwhile = false;
  BlockFinder finder;
  const SearchEngine &engine;
  const SearchOptions &options;
  /// The solution of each block where memory is free; none where copies cannot all take one.
  std::vector<std::vector<BlockOption>> cheapest;
  int64_t workUnits = 0;                           ///< that they took
  std::map<int32_t, size_t> columnsOf;             ///< matrix class -> columns
  std::vector<int32_t> newIndex;                   ///< original node -> kept node or -1
  std::vector<std::pair<int32_t, int32_t>> copyOf; ///< original node -> (block, copy) or -1
  FoldedGraph result;
};

/// One copy whose neighbours take the same choice as itself. A byte costs `price` at each of
/// `times`; as the copies are solved as one, each byte pays what it pays in a copy on average.
CostGraph BlockFolder::Impl::tiedBlock(size_t block, double price,
                                       const std::set<int64_t> &times) const {
  const std::vector<std::vector<int32_t>> &copies = finder.blocks[block].copies;
  const std::vector<int32_t> &nodes = copies[copies.size() / 2];
  CostGraph tied;
  for (size_t p = 0; p < nodes.size(); ++p) {
    CostNode copy = graph.nodes[static_cast<size_t>(nodes[p])];
    int64_t met = 0;
    for (const std::vector<int32_t> &one : copies)
      for (const LiveInterval &live : graph.nodes[static_cast<size_t>(one[p])].live)
        met += std::distance(times.lower_bound(live.begin), times.lower_bound(live.end));
    double always = price * static_cast<double>(times.size()),
           held = price * static_cast<double>(met) / static_cast<double>(copies.size());
    for (Strategy &strategy : copy.strategies) {
      if (!isForbidden(strategy.timeUs))
        strategy.timeUs += always * static_cast<double>(strategy.persistentBytes) +
                           held * static_cast<double>(strategy.liveBytes);
      strategy.liveBytes = strategy.persistentBytes = 0;
    }
    copy.live.clear();
    tied.addNode(std::move(copy));
  }
  std::map<int32_t, int32_t> outside;
  for (const BlockEdge &edge : finder.signatures[block].edges) {
    if (edge.what == BlockEdge::Previous)
      continue; // the same edge as Next, seen from the other end
    if (edge.what != BlockEdge::Outside && edge.own == edge.other) {
      CostNode &node = tied.nodes[static_cast<size_t>(edge.own)];
      for (size_t k = 0; k < node.strategies.size(); ++k)
        node.strategies[k].timeUs =
            std::min(kForbidden, node.strategies[k].timeUs +
                                     entry(edge, static_cast<int32_t>(k), static_cast<int32_t>(k)));
      continue;
    }
    int32_t other = edge.other;
    if (edge.what == BlockEdge::Outside) {
      auto [found, isNew] = outside.try_emplace(edge.other, 0);
      if (isNew) {
        CostNode copy = graph.nodes[static_cast<size_t>(edge.other)];
        copy.live.clear();
        for (Strategy &strategy : copy.strategies)
          strategy.timeUs = isForbidden(strategy.timeUs)
                                ? kForbidden
                                : strategy.timeUs / static_cast<double>(copies.size());
        found->second = tied.addNode(std::move(copy));
      }
      other = found->second;
    }
    int32_t matrix = tied.addMatrix(graph.matrices[static_cast<size_t>(edge.matrix)]);
    tied.addEdge(edge.rowsAreOwn ? edge.own : other, edge.rowsAreOwn ? other : edge.own, matrix);
  }
  return tied;
}

BlockOption BlockFolder::Impl::evaluateOption(size_t block, std::vector<int32_t> choice) const {
  BlockOption option;
  const std::vector<int32_t> &nodes = finder.blocks[block].copies.front();
  for (size_t p = 0; p < nodes.size(); ++p) {
    const Strategy &strategy =
        graph.nodes[static_cast<size_t>(nodes[p])].strategies[static_cast<size_t>(choice[p])];
    option.timeUs += strategy.timeUs;
    option.persistentBytes += strategy.persistentBytes;
    option.liveBytes += strategy.liveBytes;
  }
  for (const BlockEdge &edge : finder.signatures[block].edges)
    if (edge.what == BlockEdge::Inside)
      option.timeUs += entry(edge, choice[static_cast<size_t>(edge.own)],
                             choice[static_cast<size_t>(edge.other)]);
  option.timeUs = std::min(option.timeUs, kForbidden);
  option.choice = std::move(choice);
  return option;
}

/// Options that another one beats in time and in the bytes of every node go, except the first one,
/// which is the cheapest with its transitions.
void BlockFolder::Impl::keepPareto(size_t block, std::vector<BlockOption> &found) const {
  const std::vector<int32_t> &nodes = finder.blocks[block].copies.front();
  auto beats = [&](const BlockOption &a, const BlockOption &b) {
    bool better = a.timeUs < b.timeUs;
    if (a.timeUs > b.timeUs)
      return false;
    for (size_t p = 0; p < nodes.size(); ++p) {
      const std::vector<Strategy> &list = graph.nodes[static_cast<size_t>(nodes[p])].strategies;
      const Strategy &one = list[static_cast<size_t>(a.choice[p])],
                     &other = list[static_cast<size_t>(b.choice[p])];
      if (one.liveBytes > other.liveBytes || one.persistentBytes > other.persistentBytes)
        return false;
      better =
          better || one.liveBytes < other.liveBytes || one.persistentBytes < other.persistentBytes;
    }
    return better;
  };
  std::vector<BlockOption> kept;
  for (size_t i = 0; i < found.size(); ++i)
    if (i == 0 || std::none_of(found.begin(), found.end(),
                               [&](const BlockOption &other) { return beats(other, found[i]); }))
      kept.push_back(found[i]);
  found = std::move(kept);
}

/// When most memory is held if all copies of the block take `option` and all else the least.
int64_t BlockFolder::Impl::peakTime(size_t block, const BlockOption &option) const {
  std::vector<int32_t> choice;
  for (const CostNode &node : graph.nodes) {
    auto bytes = [](const Strategy &strategy) {
      return strategy.liveBytes + strategy.persistentBytes;
    };
    auto least =
        std::min_element(node.strategies.begin(), node.strategies.end(),
                         [&](const Strategy &a, const Strategy &b) { return bytes(a) < bytes(b); });
    choice.push_back(static_cast<int32_t>(least - node.strategies.begin()));
  }
  for (const std::vector<int32_t> &copy : finder.blocks[block].copies)
    for (size_t p = 0; p < copy.size(); ++p)
      choice[static_cast<size_t>(copy[p])] = option.choice[p];
  return evaluate(graph, choice).peakAt;
}

/// Adds the solution of a block under a price, unless it is known; the work that it took.
int64_t BlockFolder::Impl::findOption(size_t block, double price, const std::set<int64_t> &times,
                                      std::vector<BlockOption> &found) const {
  SearchOptions inner;
  inner.foldBlocks = false;
  inner.seed = options.seed;
  inner.workUnits = 20;
  Result<Solution> solution = engine.search(tiedBlock(block, price, times), inner);
  if (!solution)
    return 0; // where copies cannot all take one choice, they cannot under any price
  size_t nodes = finder.blocks[block].copies.front().size();
  std::vector<int32_t> choice(solution->choice.begin(),
                              solution->choice.begin() + static_cast<long>(nodes));
  if (std::none_of(found.begin(), found.end(),
                   [&](const BlockOption &known) { return known.choice == choice; }))
    found.push_back(evaluateOption(block, std::move(choice)));
  return solution->workUnits;
}

/// Options for a row of prices on memory at the times that matter: where the options so far have
/// their peaks. The work that it took.
int64_t BlockFolder::Impl::findOptions(size_t block) {
  constexpr size_t kMostTimes = 8;
  FoldedBlock &folded = finder.blocks[block];
  folded.options = cheapest[block];
  if (limit <= 0 || folded.options.empty())
    return 0;
  double time = 0, bytes = 1;
  for (int32_t node : folded.copies.front()) {
    double most = 0, mostTime = 0;
    for (const Strategy &strategy : graph.nodes[static_cast<size_t>(node)].strategies) {
      most = std::max(most, double(strategy.liveBytes) + double(strategy.persistentBytes));
      if (!isForbidden(strategy.timeUs))
        mostTime = std::max(mostTime, strategy.timeUs);
    }
    time += mostTime;
    bytes += most;
  }
  int64_t work = 0;
  auto solve = [&](double price, const std::set<int64_t> &times) {
    work += findOption(block, price, times, folded.options);
  };
  std::set<int64_t> times = {peakTime(block, folded.options.front())};
  double factor = options.rough ? 16 : 4;
  for (double price = 1e-4 * time / bytes; price < 2e4 * time / bytes; price *= factor) {
    size_t before = folded.options.size();
    solve(price, times);
    if (folded.options.size() == before || times.size() >= kMostTimes)
      continue;
    // The peak may have moved: then that time costs as much.
    if (times.insert(peakTime(block, folded.options.back())).second)
      solve(price, times);
  }
  keepPareto(block, folded.options);
  return work;
}

/// Kept nodes first, then one node per copy; nodes that carry the copies' live bytes follow them.
void BlockFolder::Impl::buildGraph() {
  CostGraph &small = result.graph;
  small.memoryLimitBytes = limit;
  small.constantBytes = graph.constantBytes;
  newIndex.assign(graph.nodes.size(), -1);
  copyOf.assign(graph.nodes.size(), {-1, -1});
  for (size_t b = 0; b < finder.blocks.size(); ++b)
    for (size_t c = 0; c < finder.blocks[b].copies.size(); ++c)
      for (int32_t node : finder.blocks[b].copies[c])
        copyOf[static_cast<size_t>(node)] = {static_cast<int32_t>(b), static_cast<int32_t>(c)};
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (copyOf[i].first < 0) {
      newIndex[i] = small.addNode(graph.nodes[i]);
      result.keptNodes.push_back(static_cast<int32_t>(i));
    }
  for (size_t b = 0; b < finder.blocks.size(); ++b)
    addCopies(b);
  addKeptEdges();
  for (size_t b = 0; b < finder.blocks.size(); ++b)
    addBetweenCopies(b);
  result.blocks = finder.blocks;
}

void BlockFolder::Impl::addCopies(size_t block) {
  CostGraph &small = result.graph;
  const FoldedBlock &folded = finder.blocks[block];
  size_t count = folded.options.size();
  std::vector<double> same(count * count, kForbidden);
  for (size_t k = 0; k < count; ++k)
    same[k * count + k] = 0;
  int32_t sameMatrix = small.addMatrix(std::move(same));
  result.copyNodes.emplace_back();
  for (const std::vector<int32_t> &nodes : folded.copies) {
    CostNode whole;
    whole.id = graph.nodes[static_cast<size_t>(nodes.front())].id + " (block)";
    for (const BlockOption &option : folded.options)
      whole.strategies.push_back({option.timeUs, 0, option.persistentBytes});
    int32_t at = small.addNode(std::move(whole));
    result.copyNodes.back().push_back(at);
    if (limit <= 0)
      continue;
    std::map<std::vector<std::pair<int64_t, int64_t>>, std::vector<size_t>> byLife;
    for (size_t p = 0; p < nodes.size(); ++p) {
      std::vector<std::pair<int64_t, int64_t>> life;
      for (const LiveInterval &live : graph.nodes[static_cast<size_t>(nodes[p])].live)
        if (live.begin < live.end)
          life.emplace_back(live.begin, live.end);
      if (!life.empty())
        byLife[life].push_back(p);
    }
    for (const auto &[life, positions] : byLife) {
      CostNode carrier;
      for (const auto &[begin, end] : life)
        carrier.live.push_back({begin, end});
      for (const BlockOption &option : folded.options) {
        Strategy strategy;
        for (size_t p : positions)
          strategy.liveBytes += graph.nodes[static_cast<size_t>(nodes[p])]
                                    .strategies[static_cast<size_t>(option.choice[p])]
                                    .liveBytes;
        carrier.strategies.push_back(strategy);
      }
      small.addEdge(at, small.addNode(std::move(carrier)), sameMatrix);
    }
  }
}

/// Edges among kept nodes, and between kept nodes and copies.
void BlockFolder::Impl::addKeptEdges() {
  CostGraph &small = result.graph;
  std::map<int32_t, int32_t> movedMatrix;
  for (const CostEdge &edge : graph.edges) {
    auto a = static_cast<size_t>(edge.a), b = static_cast<size_t>(edge.b);
    bool keptA = newIndex[a] >= 0, keptB = newIndex[b] >= 0;
    const std::vector<double> &matrix = graph.matrices[static_cast<size_t>(edge.matrix)];
    if (keptA && keptB) {
      auto [found, isNew] = movedMatrix.try_emplace(edge.matrix, 0);
      if (isNew)
        found->second = small.addMatrix(matrix);
      small.addEdge(newIndex[a], newIndex[b], found->second);
      continue;
    }
    // Edges between copies of one kind are added block by block; what is left joins a copy with a
    // kept node, or copies of two kinds.
    if (!keptA && !keptB && copyOf[a].first == copyOf[b].first)
      continue;
    auto choicesOf = [&](size_t node, bool kept) {
      std::vector<int32_t> choices;
      if (kept)
        for (size_t k = 0; k < graph.nodes[node].strategies.size(); ++k)
          choices.push_back(static_cast<int32_t>(k));
      else
        for (const BlockOption &option :
             finder.blocks[static_cast<size_t>(copyOf[node].first)].options)
          choices.push_back(option.choice[static_cast<size_t>(graph.blocks[node].position)]);
      return choices;
    };
    auto indexOf = [&](size_t node, bool kept) {
      return kept ? newIndex[node]
                  : result.copyNodes[static_cast<size_t>(copyOf[node].first)]
                                    [static_cast<size_t>(copyOf[node].second)];
    };
    size_t columns = graph.nodes[b].strategies.size();
    std::vector<double> moved;
    std::vector<int32_t> columnChoices = choicesOf(b, keptB);
    for (int32_t row : choicesOf(a, keptA))
      for (int32_t column : columnChoices)
        moved.push_back(matrix[static_cast<size_t>(row) * columns + static_cast<size_t>(column)]);
    small.addEdge(indexOf(a, keptA), indexOf(b, keptB), std::move(moved));
  }
}

/// One shared matrix between each copy and the next.
void BlockFolder::Impl::addBetweenCopies(size_t block) {
  CostGraph &small = result.graph;
  const FoldedBlock &folded = finder.blocks[block];
  size_t count = folded.options.size();
  std::vector<double> next(count * count, 0);
  bool joined = false;
  for (const BlockEdge &edge : finder.signatures[block].edges) {
    if (edge.what != BlockEdge::Next)
      continue;
    joined = true;
    for (size_t k = 0; k < count; ++k)
      for (size_t l = 0; l < count; ++l)
        next[k * count + l] = std::min(
            kForbidden, next[k * count + l] +
                            entry(edge, folded.options[k].choice[static_cast<size_t>(edge.own)],
                                  folded.options[l].choice[static_cast<size_t>(edge.other)]));
  }
  if (!joined)
    return;
  int32_t matrix = small.addMatrix(std::move(next));
  const std::vector<int32_t> &instances = finder.instances[block];
  for (size_t c = 0; c + 1 < folded.copies.size(); ++c)
    if (instances[c + 1] == instances[c] + 1)
      small.addEdge(result.copyNodes[block][c], result.copyNodes[block][c + 1], matrix);
}

/// Cutting the chain of copies into segments drops only costs >= 0, so the segments' bounds add up.
double BlockFolder::Impl::lowerBoundUs() const {
  SearchOptions inner;
  inner.foldBlocks = false;
  inner.workUnits = 60;
  auto boundOf = [&](const std::vector<int32_t> &nodes) -> double {
    CostGraph part;
    std::map<int32_t, int32_t> index;
    for (int32_t node : nodes)
      index[node] = part.addNode(graph.nodes[static_cast<size_t>(node)]);
    std::map<int32_t, int32_t> moved;
    for (const CostEdge &edge : graph.edges) {
      auto a = index.find(edge.a), b = index.find(edge.b);
      if (a == index.end() || b == index.end())
        continue;
      auto [found, isNew] = moved.try_emplace(edge.matrix, 0);
      if (isNew)
        found->second = part.addMatrix(graph.matrices[static_cast<size_t>(edge.matrix)]);
      part.addEdge(a->second, b->second, found->second);
    }
    Result<Solution> found = engine.search(part, inner);
    return found ? found->lowerBoundUs : 0;
  };
  double boundUs = 0;
  for (size_t b = 0; b < finder.blocks.size(); ++b) {
    // Runs of copies that follow each other; segments lie within runs.
    const std::vector<int32_t> &instances = finder.instances[b];
    std::vector<std::pair<size_t, int64_t>> runs; // first copy, length
    for (size_t c = 0; c < instances.size(); ++c) {
      if (c > 0 && instances[c] == instances[c - 1] + 1)
        ++runs.back().second;
      else
        runs.emplace_back(c, 1);
    }
    auto longest = std::max_element(
        runs.begin(), runs.end(), [](const auto &x, const auto &y) { return x.second < y.second; });
    int64_t segment = std::min(kSegment, longest->second), segments = 0;
    for (const auto &[first, length] : runs)
      segments += length / segment;
    std::vector<int32_t> nodes;
    for (size_t c = longest->first; c < longest->first + static_cast<size_t>(segment); ++c)
      nodes.insert(nodes.end(), finder.blocks[b].copies[c].begin(),
                   finder.blocks[b].copies[c].end());
    boundUs += boundOf(nodes) * static_cast<double>(segments);
  }
  std::vector<int32_t> kept;
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    if (copyOf[i].first < 0)
      kept.push_back(static_cast<int32_t>(i));
  if (!kept.empty())
    boundUs += boundOf(kept);
  return boundUs;
}

BlockFolder::Impl::Impl(const CostGraph &graph, const SearchEngine &engine,
                        const SearchOptions &options, int64_t leastCopies)
    : graph(graph), finder(graph), engine(engine), options(options) {
  if (graph.blocks.empty())
    return;
  finder.run(leastCopies);
  size_t folded = 0;
  for (const FoldedBlock &block : finder.blocks)
    folded += block.copies.size() * block.copies.front().size();
  if (folded < graph.nodes.size() / 2)
    return;
  for (const CostEdge &edge : graph.edges)
    columnsOf[finder.matrixClass[static_cast<size_t>(edge.matrix)]] =
        graph.nodes[static_cast<size_t>(edge.b)].strategies.size();
  for (size_t b = 0; b < finder.blocks.size(); ++b)
    workUnits += findOption(b, 0, {}, cheapest.emplace_back());
  // Where a kind has no solution that all copies could share, nothing is folded.
  isWorthwhile = std::none_of(cheapest.begin(), cheapest.end(),
                              [](const std::vector<BlockOption> &own) { return own.empty(); });
}

std::optional<FoldedGraph> BlockFolder::Impl::fold(int64_t memoryLimitBytes) {
  if (!isWorthwhile)
    return std::nullopt;
  limit = memoryLimitBytes;
  result = FoldedGraph();
  result.workUnits = std::exchange(workUnits, 0);
  for (size_t b = 0; b < finder.blocks.size(); ++b)
    result.workUnits += findOptions(b);
  buildGraph();
  return std::move(result);
}

std::vector<int32_t> FoldedGraph::expand(const std::vector<int32_t> &choice) const {
  size_t count = keptNodes.size();
  for (const FoldedBlock &block : blocks)
    for (const std::vector<int32_t> &copy : block.copies)
      count += copy.size();
  std::vector<int32_t> full(count, 0);
  for (size_t i = 0; i < keptNodes.size(); ++i)
    full[static_cast<size_t>(keptNodes[i])] = choice[i];
  for (size_t b = 0; b < blocks.size(); ++b)
    for (size_t c = 0; c < blocks[b].copies.size(); ++c) {
      auto taken = static_cast<size_t>(choice[static_cast<size_t>(copyNodes[b][c])]);
      for (size_t p = 0; p < blocks[b].copies[c].size(); ++p)
        full[static_cast<size_t>(blocks[b].copies[c][p])] = blocks[b].options[taken].choice[p];
    }
  return full;
}

BlockFolder::BlockFolder(const CostGraph &graph, const SearchEngine &engine,
                         const SearchOptions &options, int64_t leastCopies)
    : impl(std::make_unique<Impl>(graph, engine, options, leastCopies)) {}
BlockFolder::~BlockFolder() = default;

std::optional<FoldedGraph> BlockFolder::fold(int64_t memoryLimitBytes) {
  return impl->fold(memoryLimitBytes);
}

double BlockFolder::lowerBoundUs() const { return impl->lowerBoundUs(); }

} // namespace autopar
