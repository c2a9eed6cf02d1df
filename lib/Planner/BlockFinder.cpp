// SPDX-License-Identifier: Apache-2.0
// Copies are equal when their strategies, their inner edges, and their edges to the next copy and
// to outside nodes are.
#include "BlockFinder.h"

#include <algorithm>

namespace autopar {

void BlockFinder::run(int64_t leastCopies) {
  collect();
  addEdges();
  std::map<int32_t, std::map<Signature, std::vector<int32_t>>> bySignature;
  for (auto &[key, copy] : copies) {
    std::sort(copy.signature.edges.begin(), copy.signature.edges.end());
    if (!copy.special)
      bySignature[key.first][copy.signature].push_back(key.second);
  }
  for (auto &[kind, groups] : bySignature) {
    auto largest = std::max_element(groups.begin(), groups.end(), [](auto &a, auto &b) {
      return a.second.size() < b.second.size();
    });
    if (static_cast<int64_t>(largest->second.size()) < leastCopies)
      continue;
    FoldedBlock block;
    block.kind = kind;
    for (int32_t instance : largest->second)
      block.copies.push_back(copies[{kind, instance}].nodes);
    blocks.push_back(std::move(block));
    signatures.push_back(largest->first);
    instances.push_back(largest->second);
  }
}

void BlockFinder::collect() {
  auto isLess = [](const std::vector<Strategy> *a, const std::vector<Strategy> *b) {
    return *a < *b;
  };
  std::map<const std::vector<Strategy> *, int32_t, decltype(isLess)> classes(isLess);
  std::vector<const std::vector<Strategy> *> ofClass;
  auto classOf = [&](const std::vector<Strategy> &strategies, int32_t likely) {
    if (likely >= 0 && *ofClass[static_cast<size_t>(likely)] == strategies)
      return likely;
    auto [known, isNew] = classes.try_emplace(&strategies, static_cast<int32_t>(classes.size()));
    if (isNew)
      ofClass.push_back(&strategies);
    return known->second;
  };
  const Copy *last = nullptr; // most are like it
  copyOf.assign(graph.nodes.size(), nullptr);
  std::map<std::pair<int32_t, int32_t>, std::map<int32_t, int32_t>> nodesAt;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const BlockPlace &place = graph.blocks[i];
    if (place.kind >= 0)
      nodesAt[{place.kind, place.instance}].emplace(place.position, static_cast<int32_t>(i));
  }
  for (const auto &[key, positions] : nodesAt) {
    Copy &copy = copies[key];
    for (const auto &[position, node] : positions) {
      // Positions must be 0, 1, ...; a hole makes a copy unlike the others.
      copy.special = copy.special || position != static_cast<int32_t>(copy.nodes.size());
      copy.nodes.push_back(node);
      copyOf[static_cast<size_t>(node)] = &copy;
      size_t at = copy.signature.strategies.size();
      int32_t likely =
          last && at < last->signature.strategies.size() ? last->signature.strategies[at] : -1;
      copy.signature.strategies.push_back(
          classOf(graph.nodes[static_cast<size_t>(node)].strategies, likely));
    }
    last = &copy;
  }
}

void BlockFinder::addEdges() {
  std::map<std::vector<double>, int32_t> classes;
  for (size_t m = 0; m < graph.matrices.size(); ++m)
    matrixClass.push_back(
        classes.try_emplace(graph.matrices[m], static_cast<int32_t>(m)).first->second);
  for (const CostEdge &edge : graph.edges) {
    int32_t matrix = matrixClass[static_cast<size_t>(edge.matrix)];
    addEdge(edge.a, edge.b, matrix, true);
    addEdge(edge.b, edge.a, matrix, false);
  }
}

void BlockFinder::addEdge(int32_t own, int32_t other, int32_t matrix, bool rowsAreOwn) {
  const BlockPlace &place = graph.blocks[static_cast<size_t>(own)];
  const BlockPlace &otherPlace = graph.blocks[static_cast<size_t>(other)];
  if (place.kind < 0)
    return;
  BlockEdge edge{BlockEdge::Outside, place.position, other, matrix, rowsAreOwn};
  int32_t distance = otherPlace.instance - place.instance;
  if (otherPlace.kind == place.kind && std::abs(distance) <= 1) {
    edge.what = distance == 0   ? BlockEdge::Inside
                : distance == 1 ? BlockEdge::Next
                                : BlockEdge::Previous;
    edge.other = otherPlace.position;
    // Inside edges are seen from both ends; once is enough.
    if (edge.what == BlockEdge::Inside && !rowsAreOwn)
      return;
  }
  copyOf[static_cast<size_t>(own)]->signature.edges.push_back(edge);
}

} // namespace autopar
