// SPDX-License-Identifier: Apache-2.0
// The dynamic program of the stage cut, over (first layer, stages behind, devices used): the least
// sum of stage times where no stage is slower than a limit, or the least missing memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "autopar/Planner/StageCut.h"

namespace autopar::planner {

/// A range of layers on a sub-mesh: one possible stage.
struct StageEdge {
  double timeUs = 0;
  int32_t begin = 0, end = 0;
  int32_t subMesh = 0;
  int32_t levels = 0; ///< fits with fewer than this many stages behind it
  StageCost cost;
};

struct StageAnswer {
  bool found = false;
  double value = 0;
  std::vector<StageEdge> stages;
};

class StageProgram {
public:
  /// BadInput where the tables would be too large. `problem` is verified and must outlive this.
  static Result<StageProgram> of(const StageCutProblem &problem);

  /// Least sum of times over the edges up to `slowestUs` that fit.
  StageAnswer leastTime(double slowestUs) { return solve(slowestUs, false); }
  /// Least of the largest missing bytes over all edges.
  StageAnswer leastMissing();
  /// A cut with the sub-meshes, the sum and no slower a stage than `answer` of leastTime, of which
  /// the squares of the times of stages have the least sum; `answer` where that adds to the sum.
  StageAnswer evenest(const StageAnswer &answer) const;

  /// Sorted distinct times of edges that fit somewhere.
  const std::vector<double> &times() const { return distinct; }
  /// The least sum of times when devices are not counted; infinite where no cut fits.
  double timeBound() const;
  /// The least slowest stage when devices are not counted.
  double slowestBound() const;
  int64_t solved() const { return programs; }

private:
  /// Cells [first, first + count) to which a sub-mesh can be added, `shift` further.
  struct Run {
    int32_t first, count, shift;
  };
  /// Cells of one (layer, level) that hold a value.
  struct Reach {
    int32_t first = INT32_MAX, last = -1;
  };

  explicit StageProgram(const StageCutProblem &problem) : problem(&problem) {}
  Status loadCells();
  void loadLevels();
  void loadEdges();
  StageAnswer solve(double slowestUs, bool missing);
  void lowerLayer(int32_t layer, double slowestUs, bool missing);
  StageAnswer readBack(int32_t level, int32_t cell, double slowestUs, bool missing) const;
  bool stepBack(int32_t &layer, int32_t &level, int32_t &cell, const StageEdge &edge,
                bool missing) const;
  /// Levels behind an edge that may be used.
  int32_t levelsBehind(const StageEdge &edge, bool missing) const;
  /// Whether an edge may have so many stages behind it, its memory included.
  bool fitsWith(const StageEdge &edge, int32_t stagesAfter) const {
    return std::min(stagesAfter, levels - 1) < levelsBehind(edge, false) &&
           mayHave(edge, stagesAfter);
  }
  /// Whether an edge's sub-mesh may have so many stages behind it.
  bool mayHave(const StageEdge &edge, int32_t stagesAfter) const;
  /// What an edge adds: time, or missing bytes.
  double weight(const StageEdge &edge, int32_t level, bool missing) const;
  size_t row(int32_t layer, int32_t level) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(levels) + static_cast<size_t>(level);
  }

  const StageCutProblem *problem;
  int32_t levels = 1;                 ///< numbers of stages that are told apart
  bool lastStands = false;            ///< the last level stands for itself and everything above
  int32_t cells = 1;                  ///< numbers of devices used, of all types
  std::vector<int64_t> depth;         ///< micro-batches in flight per level
  std::vector<std::vector<Run>> runs; ///< per sub-mesh
  std::vector<std::vector<StageEdge>> edges; ///< per first layer, by time
  std::vector<double> distinct;
  std::vector<double> value; ///< [layer][level][cell]
  std::vector<Reach> reach;  ///< [layer][level]
  int64_t programs = 0;
};

} // namespace autopar::planner
