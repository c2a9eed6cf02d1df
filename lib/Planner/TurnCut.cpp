// SPDX-License-Identifier: Apache-2.0
// Stages that take turns on meshes. The least sum of squares is an exact dynamic program over
// (stage, last layer); from there runs of neighbouring borders move together, by which work goes
// from any mesh to any other.
#include "autopar/Planner/StageCut.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "autopar/Planner/CostGraph.h"

namespace autopar {
namespace {

constexpr double kNone = std::numeric_limits<double>::infinity();

class TurnSearch {
public:
  explicit TurnSearch(const TurnCutProblem &problem) : problem(problem) {}

  /// The most even stages; false: there are none.
  bool start() {
    int32_t layers = problem.layers, stages = problem.stages;
    std::vector<double> least(static_cast<size_t>(layers) + 1, kNone);
    least[0] = 0;
    std::vector<std::vector<int32_t>> from(static_cast<size_t>(stages));
    for (int32_t stage = 0; stage < stages; ++stage) {
      std::vector<double> next(least.size(), kNone);
      from[at(stage)].assign(least.size(), -1);
      for (int32_t end = stage + 1; end <= layers - (stages - 1 - stage); ++end)
        for (int32_t begin = stage; begin < end; ++begin) {
          if (least[at(begin)] == kNone)
            continue;
          double us = timeOf(begin, end, stage), sum = least[at(begin)] + us * us;
          if (sum < next[at(end)]) {
            next[at(end)] = sum;
            from[at(stage)][at(end)] = begin;
          }
        }
      least = std::move(next);
    }
    if (least[at(layers)] == kNone)
      return false;
    borders.assign(at(stages) + 1, layers);
    for (int32_t stage = stages - 1; stage >= 0; --stage)
      borders[at(stage)] = from[at(stage)][at(borders[at(stage) + 1])];
    return true;
  }

  /// Moves a run of borders by a layer while that helps.
  TurnCut run() {
    Value best = valueOf(borders);
    for (bool isBetter = true; std::exchange(isBetter, false);) {
      std::vector<int32_t> bestBorders = borders, moved;
      for (int32_t first = 1; first < problem.stages; ++first)
        for (int32_t step : {-1, 1}) {
          moved = borders;
          for (int32_t last = first; last < problem.stages; ++last) {
            moved[at(last)] += step;
            Value value = valueOf(moved);
            if (!(value < best))
              continue;
            best = value;
            bestBorders = moved;
            isBetter = true;
          }
        }
      borders = std::move(bestBorders);
    }
    borders.pop_back();
    return {std::move(borders), best.timeUs};
  }

private:
  /// What is as fast is better where meshes are more even: it may become faster by the next move.
  struct Value {
    double timeUs, squares;
    bool operator<(const Value &other) const {
      double equal = 1e-9 * other.timeUs;
      return timeUs < other.timeUs - equal ||
             (timeUs < other.timeUs + equal && squares < other.squares * (1 - 1e-9));
    }
  };

  static size_t at(int32_t index) { return static_cast<size_t>(index); }

  double timeOf(int32_t begin, int32_t end, int32_t stage) const {
    double us = problem.timeUs(begin, end, stage);
    return isForbidden(us) ? kNone : us;
  }

  Value valueOf(const std::vector<int32_t> &cut) const {
    std::vector<double> meshUs(at(problem.meshes), 0);
    double slowest = 0, squares = 0;
    for (int32_t stage = 0; stage < problem.stages; ++stage) {
      int32_t begin = cut[at(stage)], end = cut[at(stage) + 1];
      double us = begin < end ? timeOf(begin, end, stage) : kNone;
      if (us == kNone)
        return {kNone, kNone};
      slowest = std::max(slowest, us);
      meshUs[at(stage % problem.meshes)] += us;
    }
    for (double us : meshUs)
      squares += us * us;
    double busiest = *std::max_element(meshUs.begin(), meshUs.end());
    return {static_cast<double>(problem.microBatches) * busiest +
                static_cast<double>(problem.meshes - 1) * slowest,
            squares};
  }

  const TurnCutProblem &problem;
  std::vector<int32_t> borders; ///< the first layer of each stage, and the end of the last
};

} // namespace

Result<TurnCut> cutTurns(const TurnCutProblem &problem) {
  if (problem.layers <= 0 || problem.microBatches <= 0 || !problem.timeUs)
    return Status::badInput("turn cut: expected at least one layer, one micro-batch and times");
  if (problem.meshes <= 0 || problem.stages < problem.meshes ||
      problem.stages % problem.meshes != 0)
    return Status::badInput("turn cut: " + std::to_string(problem.stages) +
                            " stages take no equal turns on " + std::to_string(problem.meshes) +
                            " meshes");
  TurnSearch search(problem);
  if (!search.start())
    return Status::badInput("turn cut: the layers cannot be cut into " +
                            std::to_string(problem.stages) + " stages that are allowed");
  return search.run();
}

} // namespace autopar
