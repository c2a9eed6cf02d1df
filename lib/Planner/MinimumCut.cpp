// SPDX-License-Identifier: Apache-2.0
// See the header. Paths are found without recursion: graphs of deep models are long.
#include "MinimumCut.h"

#include <algorithm>

namespace autopar {

/// Less room than this is rounding.
static constexpr double kNothing = 1e-9;

void MinimumCut::addEdge(int32_t from, int32_t to, double capacity) {
  edges.push_back({to, first[from], capacity});
  first[from] = static_cast<int32_t>(edges.size()) - 1;
  edges.push_back({from, first[to], 0});
  first[to] = static_cast<int32_t>(edges.size()) - 1;
}

bool MinimumCut::findLevels() {
  level.assign(first.size(), -1);
  level[kSource] = 0;
  std::vector<int32_t> queue{kSource};
  for (size_t i = 0; i < queue.size(); ++i)
    for (int32_t e = first[queue[i]]; e >= 0; e = edges[e].next)
      if (edges[e].room > kNothing && level[edges[e].to] < 0) {
        level[edges[e].to] = level[queue[i]] + 1;
        queue.push_back(edges[e].to);
      }
  return level[kSink] >= 0;
}

double MinimumCut::solve() {
  double total = 0;
  std::vector<int32_t> path; // edges from the source
  while (findLevels()) {
    current = first;
    int32_t node = kSource;
    path.clear();
    while (true) {
      if (node == kSink) {
        double room = kUncuttable;
        for (int32_t e : path)
          room = std::min(room, edges[e].room);
        total += room;
        size_t full = path.size();
        for (size_t i = path.size(); i-- > 0;) {
          edges[path[i]].room -= room;
          edges[path[i] ^ 1].room += room;
          if (edges[path[i]].room <= kNothing)
            full = i;
        }
        node = edges[path[full] ^ 1].to;
        path.resize(full);
        continue;
      }
      int32_t &e = current[node];
      while (e >= 0 && (edges[e].room <= kNothing || level[edges[e].to] != level[node] + 1))
        e = edges[e].next;
      if (e >= 0) {
        path.push_back(e);
        node = edges[e].to;
      } else if (node == kSource) {
        break;
      } else {
        level[node] = -2; // leads nowhere
        node = edges[path.back() ^ 1].to;
        path.pop_back();
      }
    }
  }
  return total;
}

} // namespace autopar
