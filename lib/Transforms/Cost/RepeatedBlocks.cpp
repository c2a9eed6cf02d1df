// SPDX-License-Identifier: Apache-2.0
// Copies of a layer: see the header.
#include "RepeatedBlocks.h"

#include "llvm/ADT/DenseMap.h"

#include <map>
#include <set>

using namespace mlir::autopar;
using ::autopar::BlockPlace;
using ::autopar::CostEdge;
using ::autopar::CostGraph;

namespace {

/// Distances at which a kind comes again: the only periods that a repetition can have.
std::set<size_t> candidatePeriods(llvm::ArrayRef<size_t> kinds) {
  constexpr size_t ahead = 4; // a kind may appear several times in a layer
  llvm::DenseMap<size_t, std::vector<size_t>> places;
  std::set<size_t> periods;
  for (size_t i = 0; i < kinds.size(); ++i) {
    std::vector<size_t> &before = places[kinds[i]];
    for (size_t k = 0; k < std::min(ahead, before.size()); ++k)
      periods.insert(i - before[before.size() - 1 - k]);
    before.push_back(i);
  }
  periods.erase(1);
  return periods;
}

} // namespace

Stretch mlir::autopar::longestRepetition(llvm::ArrayRef<size_t> kinds, size_t first) {
  Stretch best;
  for (size_t period : candidatePeriods(kinds))
    for (size_t i = period, run = 0; i < kinds.size(); ++i) {
      run = kinds[i] == kinds[i - period] ? run + 1 : 0;
      if (run < period)
        continue;
      size_t copies = run / period + 1;
      if (copies * period > best.copies * best.period)
        best = {first + i + 1 - run - period, period, copies};
    }
  return best;
}

namespace {

class BlockJoiner {
public:
  BlockJoiner(const CostGraph &graph, const OperationSequence &operations)
      : graph(graph), operations(operations), places(graph.nodes.size()) {}

  std::vector<BlockPlace> run() {
    for (size_t phase = 0; phase < operations.phases.size(); ++phase) {
      size_t begin = operations.phases[phase], end = phase + 1 < operations.phases.size()
                                                         ? operations.phases[phase + 1]
                                                         : operations.kinds.size();
      Stretch stretch =
          longestRepetition(llvm::ArrayRef(operations.kinds).slice(begin, end - begin), begin);
      if (stretch.copies >= 2)
        join(stretch);
    }
    if (positions == 0)
      return {};
    while (placeWhatTouches()) {
    }
    int32_t least = 0;
    for (const BlockPlace &place : places)
      if (place.kind >= 0)
        least = std::min(least, place.instance);
    for (BlockPlace &place : places)
      place.instance -= place.kind >= 0 ? least : 0;
    return std::move(places);
  }

private:
  int32_t copyIn(const Stretch &stretch, int32_t node) const {
    auto op = static_cast<int64_t>(node) - static_cast<int64_t>(operations.firstNode);
    if (op < static_cast<int64_t>(stretch.start) || op >= static_cast<int64_t>(stretch.end()))
      return -1;
    return static_cast<int32_t>((op - stretch.start) / stretch.period);
  }

  /// Copies run forwards or backwards (the derivatives do): instance = constant + or - copy, by
  /// what most edges to the blocks so far say.
  void join(const Stretch &stretch) {
    std::map<std::pair<int32_t, int32_t>, int64_t> votes; // (direction, constant)
    auto vote = [&](int32_t own, int32_t other) {
      int32_t copy = copyIn(stretch, own);
      const BlockPlace &place = places[other];
      if (copy < 0 || place.kind < 0)
        return;
      ++votes[{1, place.instance - copy}];
      ++votes[{-1, place.instance + copy}];
    };
    for (const CostEdge &edge : graph.edges) {
      vote(edge.a, edge.b);
      vote(edge.b, edge.a);
    }
    std::pair<int32_t, int32_t> chosen{1, 0};
    int64_t most = 0;
    for (auto &[line, count] : votes)
      if (count > most) {
        most = count;
        chosen = line;
      }
    if (positions > 0 && most == 0)
      return; // has nothing to do with the blocks so far
    for (size_t op = stretch.start; op < stretch.end(); ++op) {
      auto copy = static_cast<int32_t>((op - stretch.start) / stretch.period);
      auto position = static_cast<int32_t>((op - stretch.start) % stretch.period);
      places[operations.firstNode + op] = {0, chosen.second + chosen.first * copy,
                                           positions + position};
    }
    positions += static_cast<int32_t>(stretch.period);
  }

  /// What lies outside the copies (arguments, and what is made of them beforehand) but touches one
  /// copy, or two that follow each other, belongs to the first of them. True when there was any.
  bool placeWhatTouches() {
    using Touch = std::tuple<int32_t, int32_t, bool>; // instance, position, comes before
    std::vector<std::vector<Touch>> touches(places.size());
    for (const CostEdge &edge : graph.edges)
      for (bool isFirst : {true, false}) {
        int32_t own = isFirst ? edge.a : edge.b, other = isFirst ? edge.b : edge.a;
        if (places[own].kind < 0 && places[other].kind >= 0)
          touches[own].emplace_back(places[other].instance, places[other].position, isFirst);
      }
    std::map<int32_t, std::vector<std::pair<std::vector<Touch>, int32_t>>> joining; // by instance
    for (size_t node = 0; node < places.size(); ++node) {
      llvm::sort(touches[node]);
      if (touches[node].empty())
        continue;
      int32_t first = std::get<0>(touches[node].front());
      if (std::get<0>(touches[node].back()) - first > 1)
        continue;
      for (Touch &touch : touches[node])
        std::get<0>(touch) -= first;
      joining[first].emplace_back(std::move(touches[node]), static_cast<int32_t>(node));
    }
    // The same order in all copies, whatever the order of the nodes.
    for (auto &[instance, nodes] : joining) {
      llvm::sort(nodes);
      int32_t &position = next.try_emplace(instance, positions).first->second;
      for (auto &[touched, node] : nodes)
        places[node] = {0, instance, position++};
    }
    return !joining.empty();
  }

  const CostGraph &graph;
  const OperationSequence &operations;
  std::vector<BlockPlace> places;
  int32_t positions = 0;           ///< of one block so far
  std::map<int32_t, int32_t> next; ///< position of an instance, beyond the blocks
};

} // namespace

std::vector<BlockPlace> mlir::autopar::findRepeatedBlocks(const CostGraph &graph,
                                                          const OperationSequence &operations) {
  return BlockJoiner(graph, operations).run();
}
