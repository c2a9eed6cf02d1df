// SPDX-License-Identifier: Apache-2.0
// Among cuts that are as fast, the most even one. Where one stage is the slowest whatever the
// others are (a head that is one layer), nothing else tells how the rest is shared; the less the
// others work, the less does it matter that costs are estimates.
#include <cmath>
#include <limits>

#include "StageProgram.h"

namespace autopar::planner {

namespace {
constexpr double kNone = std::numeric_limits<double>::infinity();

double sumOf(const std::vector<StageEdge> &stages) {
  double sum = 0;
  for (const StageEdge &stage : stages)
    sum += stage.timeUs;
  return sum;
}
} // namespace

StageAnswer StageProgram::evenest(const StageAnswer &answer) const {
  double slowest = 0;
  for (const StageEdge &stage : answer.stages)
    slowest = std::max(slowest, stage.timeUs);
  size_t layers = edges.size(), stages = answer.stages.size();
  // Of the stages from each one on: the least sum of squares of layers [i, layers), and the first.
  std::vector<double> least(layers + 1, kNone);
  least.back() = 0;
  std::vector<std::vector<const StageEdge *>> first(stages);
  for (size_t stage = stages; stage-- > 0;) {
    auto behind = static_cast<int32_t>(stages - 1 - stage);
    std::vector<double> next(layers + 1, kNone);
    first[stage].assign(layers, nullptr);
    for (size_t begin = 0; begin < layers; ++begin)
      for (const StageEdge &edge : edges[begin]) {
        if (edge.timeUs > slowest)
          break;
        if (edge.subMesh != answer.stages[stage].subMesh || !fitsWith(edge, behind))
          continue;
        double squares = edge.timeUs * edge.timeUs + least[static_cast<size_t>(edge.end)];
        if (squares < next[begin]) {
          next[begin] = squares;
          first[stage][begin] = &edge;
        }
      }
    least = std::move(next);
  }
  StageAnswer even{true, 0, {}};
  size_t layer = 0;
  for (const std::vector<const StageEdge *> &own : first) {
    even.stages.push_back(*own[layer]);
    layer = static_cast<size_t>(even.stages.back().end);
  }
  even.value = sumOf(even.stages);
  constexpr double kEqual = 1 + 1e-9;
  return even.value <= kEqual * answer.value ? even : answer;
}

} // namespace autopar::planner
