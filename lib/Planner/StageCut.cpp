// SPDX-License-Identifier: Apache-2.0
// The fastest cut: least sum of stage times for a limit on the slowest stage, over limits. Limits
// are searched by branch and bound, since the least sum only falls as the limit rises. Objective
// and enumeration of limits after Zheng et al., "Alpa", OSDI 2022, equations 2 and 3.
#include "autopar/Planner/StageCut.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "StageProgram.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar {
namespace {

using planner::StageAnswer;
using planner::StageEdge;
using planner::StageProgram;

Status verifyMeshes(const StageCutProblem &problem) {
  size_t types = problem.devices.size();
  if (types == 0 || problem.subMeshes.empty())
    return Status::badInput("stage cut: expected at least one device type and one sub-mesh");
  for (const SubMesh &mesh : problem.subMeshes) {
    if (mesh.devices.size() != types)
      return Status::badInput("sub-mesh '" + mesh.name + "': counts " +
                              std::to_string(mesh.devices.size()) + " device types, expected " +
                              std::to_string(types));
    bool negative = std::any_of(mesh.devices.begin(), mesh.devices.end(),
                                [](int32_t count) { return count < 0; });
    bool empty = std::all_of(mesh.devices.begin(), mesh.devices.end(),
                             [](int32_t count) { return count == 0; });
    if (mesh.stagesAfter >= 0 && problem.mostStages <= mesh.stagesAfter)
      return Status::badInput("sub-mesh '" + mesh.name + "': is for a stage with " +
                              std::to_string(mesh.stagesAfter) +
                              " behind it; expected mostStages to allow that many");
    if (negative || empty)
      return Status::badInput("sub-mesh '" + mesh.name +
                              "': expected counts of devices, not negative and not all 0");
  }
  for (int32_t count : problem.devices)
    if (count < 0)
      return Status::badInput("stage cut: a number of devices is negative");
  return Status::ok();
}

Status verify(const StageCutProblem &problem) {
  AUTOPAR_RETURN_IF_ERROR(verifyMeshes(problem));
  if (problem.layers <= 0 || problem.microBatches <= 0)
    return Status::badInput("stage cut: expected at least one layer and one micro-batch");
  if (!problem.cost || !problem.inFlight)
    return Status::badInput("stage cut: cost or inFlight is not set");
  if (problem.leastStages < 1 ||
      (problem.mostStages > 0 && problem.mostStages < problem.leastStages))
    return Status::badInput("stage cut: between " + std::to_string(problem.leastStages) + " and " +
                            std::to_string(problem.mostStages) + " stages is no range");
  for (int32_t after = 1; after < problem.layers; ++after)
    if (problem.inFlight(after) < problem.inFlight(after - 1))
      return Status::badInput("stage cut: with " + std::to_string(after) +
                              " stages behind, fewer micro-batches are in flight than with one "
                              "stage less; expected at least as many");
  return Status::ok();
}

StageCut describe(const StageCutProblem &problem, const StageAnswer &answer) {
  StageCut cut;
  double sum = 0, slowest = 0;
  auto count = static_cast<int32_t>(answer.stages.size());
  for (int32_t s = 0; s < count; ++s) {
    const StageEdge &edge = answer.stages[static_cast<size_t>(s)];
    int64_t inFlight = problem.inFlight(count - 1 - s);
    int64_t needed =
        edge.cost.stateBytes + edge.cost.workspaceBytes + inFlight * edge.cost.savedBytes;
    int64_t limit = problem.subMeshes[static_cast<size_t>(edge.subMesh)].memoryBytes;
    if (limit > 0)
      cut.missingBytes = std::max(cut.missingBytes, needed - limit);
    cut.stages.push_back({edge.begin, edge.end, edge.subMesh, inFlight, needed, edge.timeUs});
    sum += edge.timeUs;
    slowest = std::max(slowest, edge.timeUs);
  }
  cut.timeUs = sum + static_cast<double>(problem.microBatches - 1) * slowest;
  return cut;
}

/// Limits on the slowest stage, as indices of sorted distinct times.
class LimitSearch {
public:
  LimitSearch(const StageCutProblem &problem, StageProgram &program)
      : problem(problem), program(program), times(program.times()) {}

  /// The best cut over all limits, or none.
  StageAnswer run() {
    double bound = program.timeBound();
    if (!std::isfinite(bound))
      return {};
    first = indexOf(program.slowestBound());
    size_t feasible = climb();
    if (!best.found)
      return best;
    // Every limit from the slowest stage found to the probe has the same least sum.
    search(first, slowestOf(probed), probed.value);
    search(feasible + 1, times.size(), bound);
    return best;
  }

private:
  double total(double sum, double slowest) const {
    return sum + static_cast<double>(problem.microBatches - 1) * slowest;
  }
  size_t indexOf(double time) const {
    return static_cast<size_t>(std::lower_bound(times.begin(), times.end(), time) - times.begin());
  }
  /// Index of the slowest stage of an answer.
  size_t slowestOf(const StageAnswer &answer) const {
    double slowest = 0;
    for (const StageEdge &edge : answer.stages)
      slowest = std::max(slowest, edge.timeUs);
    return indexOf(slowest);
  }

  StageAnswer probe(size_t limit) {
    StageAnswer answer = program.leastTime(times[limit]);
    if (!answer.found)
      return answer;
    double time = total(answer.value, times[slowestOf(answer)]);
    if (!best.found || time < bestTime) {
      best = answer;
      bestTime = time;
    }
    return answer;
  }

  /// Raises the limit from the least conceivable one until a cut exists; low limits are cheap.
  size_t climb() {
    size_t at = first;
    while (true) {
      probed = probe(at);
      if (probed.found || at + 1 >= times.size())
        return at;
      first = at + 1;
      auto next = std::upper_bound(times.begin(), times.end(), 1.3 * times[at]) - times.begin();
      at = std::min(std::max<size_t>(at + 1, static_cast<size_t>(next)), times.size() - 1);
    }
  }

  /// Limits [from, to), none of which allows a sum below `leastSum`.
  void search(size_t from, size_t to, double leastSum) {
    while (from < to) {
      // What cannot beat the best by its limit alone is left out.
      auto end = std::partition_point(
          times.begin() + static_cast<long>(from), times.begin() + static_cast<long>(to),
          [&](double limit) { return total(leastSum, limit) < bestTime; });
      to = static_cast<size_t>(end - times.begin());
      if (from >= to)
        return;
      size_t middle = from + (to - from) / 2;
      StageAnswer answer = probe(middle);
      if (answer.found)
        search(from, slowestOf(answer), answer.value);
      from = middle + 1;
    }
  }

  const StageCutProblem &problem;
  StageProgram &program;
  const std::vector<double> &times;
  size_t first = 0;
  StageAnswer best, probed;
  double bestTime = std::numeric_limits<double>::infinity();
};

} // namespace

Result<StageCut> cutStages(const StageCutProblem &problem) {
  AUTOPAR_RETURN_IF_ERROR(verify(problem));
  Result<StageProgram> program = StageProgram::of(problem);
  if (!program)
    return program.status();
  StageAnswer answer = LimitSearch(problem, *program).run();
  answer = answer.found ? program->evenest(answer) : program->leastMissing();
  if (!answer.found)
    return Status::badInput("stage cut: the layers cannot be cut into stages that the sub-meshes "
                            "and the devices there are allow, whatever the memory");
  StageCut cut = describe(problem, answer);
  cut.programs = program->solved();
  return cut;
}

} // namespace autopar
