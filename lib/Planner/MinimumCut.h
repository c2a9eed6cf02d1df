// SPDX-License-Identifier: Apache-2.0
// Minimum cuts by Dinic's algorithm.
#pragma once

#include <cstdint>
#include <vector>

namespace autopar {

class MinimumCut {
public:
  static constexpr double kUncuttable = 1e30;

  /// Nodes 0 and 1 are the source and the sink.
  explicit MinimumCut(int32_t nodes) : first(nodes, -1) {}

  static constexpr int32_t kSource = 0, kSink = 1;

  int32_t addNode() {
    first.push_back(-1);
    return static_cast<int32_t>(first.size()) - 1;
  }
  /// Costs `capacity` where `from` is on the source's side and `to` is not.
  void addEdge(int32_t from, int32_t to, double capacity);
  /// The cost of the cheapest cut; isAtSource() is known then.
  double solve();
  bool isAtSource(int32_t node) const { return level[node] >= 0; }

private:
  bool findLevels();

  struct Edge {
    int32_t to, next;
    double room;
  };
  std::vector<Edge> edges; ///< an edge and its reverse side by side
  std::vector<int32_t> first, level, current;
};

} // namespace autopar
