// SPDX-License-Identifier: Apache-2.0
// Filled from the last layer to the first, so that the number of stages behind a stage, which says
// how many micro-batches are in flight in it, is known when it is placed.
#include "StageProgram.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

#include "VectorClones.h"
#include "autopar/Planner/CostGraph.h"

namespace autopar::planner {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kMostCells = 2.5e8;

AUTOPAR_VECTOR_CLONES
void lowerToSums(double *__restrict to, const double *__restrict from, double weight,
                 int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    double sum = weight + from[i];
    to[i] = sum < to[i] ? sum : to[i];
  }
}

AUTOPAR_VECTOR_CLONES
void lowerToMaxima(double *__restrict to, const double *__restrict from, double weight,
                   int32_t count) {
  for (int32_t i = 0; i < count; ++i) {
    double most = from[i] > weight ? from[i] : weight;
    to[i] = most < to[i] ? most : to[i];
  }
}

int64_t neededBytes(const StageCost &cost, int64_t inFlight) {
  return cost.stateBytes + cost.workspaceBytes + inFlight * cost.savedBytes;
}

} // namespace

Result<StageProgram> StageProgram::of(const StageCutProblem &problem) {
  StageProgram program(problem);
  AUTOPAR_RETURN_IF_ERROR(program.loadCells());
  program.loadLevels();
  double size = (problem.layers + 1.0) * program.levels * program.cells;
  if (size > kMostCells)
    return Status::badInput("stage cut: " + std::to_string(problem.layers) + " layers, " +
                            std::to_string(program.levels - (problem.mostStages > 0)) +
                            " stages and " + std::to_string(program.cells) +
                            " numbers of devices are too many together; merge layers, or use "
                            "larger sub-meshes");
  program.loadEdges();
  program.value.resize(static_cast<size_t>(size));
  program.reach.resize(program.row(problem.layers, 0) + static_cast<size_t>(program.levels));
  return program;
}

/// Devices are counted in units that all sub-meshes are multiples of.
Status StageProgram::loadCells() {
  size_t types = problem->devices.size();
  std::vector<int32_t> unit(types), radix(types), stride(types);
  double product = 1;
  for (size_t t = 0; t < types; ++t) {
    unit[t] = problem->useAllDevices ? problem->devices[t] : 0;
    for (const SubMesh &mesh : problem->subMeshes)
      unit[t] = std::gcd(unit[t], mesh.devices[t]);
    unit[t] = std::max(unit[t], 1);
    radix[t] = problem->devices[t] / unit[t] + 1;
    product *= radix[t];
  }
  if (product > kMostCells)
    return Status::badInput("stage cut: too many device types with too many devices each");
  for (size_t t = types; t-- > 0;) {
    stride[t] = cells;
    cells *= radix[t];
  }
  for (const SubMesh &mesh : problem->subMeshes) {
    std::vector<Run> found;
    int32_t shift = 0, width = radix[types - 1] - mesh.devices[types - 1] / unit[types - 1];
    bool fits = width > 0;
    for (size_t t = 0; t < types; ++t)
      shift += stride[t] * (mesh.devices[t] / unit[t]);
    for (int32_t first = 0; fits && first < cells; first += radix[types - 1]) {
      bool inside = true;
      for (size_t t = 0; t + 1 < types; ++t)
        inside = inside && first / stride[t] % radix[t] + mesh.devices[t] / unit[t] < radix[t];
      if (inside)
        found.push_back({first, width, shift});
    }
    runs.push_back(std::move(found));
  }
  return Status::ok();
}

/// Numbers of stages are told apart only as far as they change what is in flight or is allowed.
void StageProgram::loadLevels() {
  int64_t devices = std::accumulate(problem->devices.begin(), problem->devices.end(), int64_t{0});
  auto most = static_cast<int32_t>(std::min<int64_t>(problem->layers, devices));
  if (problem->mostStages > 0) {
    levels = std::min(problem->mostStages, most) + 1;
  } else {
    int32_t last = std::max(most - 1, 0);
    while (last > 0 && problem->inFlight(last - 1) == problem->inFlight(last))
      --last;
    levels = std::max(last, problem->leastStages > 1 ? problem->leastStages : 0) + 1;
    lastStands = true;
  }
  for (int32_t level = 0; level < levels; ++level)
    depth.push_back(problem->inFlight(level));
}

void StageProgram::loadEdges() {
  edges.resize(static_cast<size_t>(problem->layers));
  bool allFit = true;
  for (int32_t begin = 0; begin < problem->layers; ++begin) {
    std::vector<StageEdge> &list = edges[static_cast<size_t>(begin)];
    for (int32_t end = begin + 1; end <= problem->layers; ++end)
      for (size_t k = 0; k < problem->subMeshes.size(); ++k) {
        StageCost cost = problem->cost(begin, end, static_cast<int32_t>(k));
        if (isForbidden(cost.timeUs))
          continue;
        StageEdge edge{cost.timeUs, begin, end, static_cast<int32_t>(k), levels, cost};
        int64_t limit = problem->subMeshes[k].memoryBytes;
        while (limit > 0 && edge.levels > 0 &&
               neededBytes(cost, depth[static_cast<size_t>(edge.levels) - 1]) > limit)
          --edge.levels;
        allFit = allFit && edge.levels == levels;
        if (edge.levels > 0)
          distinct.push_back(edge.timeUs);
        list.push_back(edge);
      }
    std::sort(list.begin(), list.end(), [](const StageEdge &a, const StageEdge &b) {
      return std::tie(a.timeUs, a.end, a.subMesh) < std::tie(b.timeUs, b.end, b.subMesh);
    });
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  // Where memory never binds, the number of stages behind makes no difference.
  if (allFit && problem->mostStages == 0 && problem->leastStages <= 1) {
    levels = 1;
    for (std::vector<StageEdge> &list : edges)
      for (StageEdge &edge : list)
        edge.levels = 1;
  }
}

double StageProgram::timeBound() const {
  std::vector<double> least(edges.size() + 1, kInfinite);
  least.back() = 0;
  for (size_t i = edges.size(); i-- > 0;)
    for (const StageEdge &edge : edges[i])
      if (edge.levels > 0)
        least[i] = std::min(least[i], edge.timeUs + least[static_cast<size_t>(edge.end)]);
  return least[0];
}

double StageProgram::slowestBound() const {
  std::vector<double> least(edges.size() + 1, kInfinite);
  least.back() = 0;
  for (size_t i = edges.size(); i-- > 0;)
    for (const StageEdge &edge : edges[i])
      if (edge.levels > 0)
        least[i] = std::min(least[i], std::max(edge.timeUs, least[static_cast<size_t>(edge.end)]));
  return least[0];
}

int32_t StageProgram::levelsBehind(const StageEdge &edge, bool missing) const {
  return std::min(missing ? levels : edge.levels, lastStands ? levels : levels - 1);
}

bool StageProgram::mayHave(const StageEdge &edge, int32_t stagesAfter) const {
  int32_t only = problem->subMeshes[static_cast<size_t>(edge.subMesh)].stagesAfter;
  return only < 0 || only == stagesAfter;
}

double StageProgram::weight(const StageEdge &edge, int32_t level, bool missing) const {
  if (!missing)
    return edge.timeUs;
  int64_t limit = problem->subMeshes[static_cast<size_t>(edge.subMesh)].memoryBytes;
  int64_t over = neededBytes(edge.cost, depth[static_cast<size_t>(level)]) - limit;
  return limit > 0 ? static_cast<double>(std::max<int64_t>(0, over)) : 0;
}

void StageProgram::lowerLayer(int32_t layer, double slowestUs, bool missing) {
  for (const StageEdge &edge : edges[static_cast<size_t>(layer)]) {
    if (edge.timeUs > slowestUs)
      break;
    int32_t behind = levelsBehind(edge, missing);
    for (int32_t level = 0; level < behind; ++level) {
      size_t from = row(edge.end, level), to = row(layer, std::min(level + 1, levels - 1));
      if (reach[from].last < 0 || !mayHave(edge, level))
        continue;
      double added = weight(edge, level, missing);
      const double *source = value.data() + from * static_cast<size_t>(cells);
      double *target = value.data() + to * static_cast<size_t>(cells);
      for (const Run &run : runs[static_cast<size_t>(edge.subMesh)]) {
        int32_t first = std::max(run.first, reach[from].first);
        int32_t count = std::min(run.first + run.count, reach[from].last + 1) - first;
        if (count <= 0)
          continue;
        (missing ? lowerToMaxima : lowerToSums)(target + first + run.shift, source + first, added,
                                                count);
        reach[to].first = std::min(reach[to].first, first + run.shift);
        reach[to].last = std::max(reach[to].last, first + run.shift + count - 1);
      }
    }
  }
}

StageAnswer StageProgram::solve(double slowestUs, bool missing) {
  ++programs;
  std::fill(value.begin(), value.end(), kInfinite);
  std::fill(reach.begin(), reach.end(), Reach{});
  size_t last = row(problem->layers, 0);
  value[last * static_cast<size_t>(cells)] = 0;
  reach[last] = {0, 0};
  for (int32_t layer = problem->layers; layer-- > 0;)
    lowerLayer(layer, slowestUs, missing);
  double least = kInfinite;
  int32_t bestLevel = 0, bestCell = 0;
  for (int32_t level = levels == 1 ? 0 : problem->leastStages; level < levels; ++level)
    for (int32_t cell = problem->useAllDevices ? cells - 1 : 0; cell < cells; ++cell) {
      double one = value[row(0, level) * static_cast<size_t>(cells) + static_cast<size_t>(cell)];
      if (one < least) {
        least = one;
        bestLevel = level;
        bestCell = cell;
      }
    }
  return least < kInfinite ? readBack(bestLevel, bestCell, slowestUs, missing) : StageAnswer{};
}

/// Goes from a state to the one that `edge` came from, if it did.
bool StageProgram::stepBack(int32_t &layer, int32_t &level, int32_t &cell, const StageEdge &edge,
                            bool missing) const {
  auto held = [&](int32_t at, int32_t stages, int32_t used) {
    return value[row(at, stages) * static_cast<size_t>(cells) + static_cast<size_t>(used)];
  };
  double wanted = held(layer, level, cell);
  for (const Run &run : runs[static_cast<size_t>(edge.subMesh)]) {
    int32_t source = cell - run.shift;
    if (source < run.first || source >= run.first + run.count)
      continue;
    for (int32_t behind = std::max(0, level - 1); behind <= level; ++behind) {
      bool leads = std::min(behind + 1, levels - 1) == level;
      if (!leads || behind >= levelsBehind(edge, missing) || !mayHave(edge, behind))
        continue;
      double added = weight(edge, behind, missing), before = held(edge.end, behind, source);
      if ((missing ? std::max(added, before) : added + before) != wanted)
        continue;
      layer = edge.end;
      level = behind;
      cell = source;
      return true;
    }
  }
  return false;
}

StageAnswer StageProgram::readBack(int32_t level, int32_t cell, double slowestUs,
                                   bool missing) const {
  StageAnswer answer;
  answer.found = true;
  answer.value = value[row(0, level) * static_cast<size_t>(cells) + static_cast<size_t>(cell)];
  for (int32_t layer = 0; layer < problem->layers;) {
    const std::vector<StageEdge> &list = edges[static_cast<size_t>(layer)];
    auto taken = std::find_if(list.begin(), list.end(), [&](const StageEdge &edge) {
      return edge.timeUs <= slowestUs && stepBack(layer, level, cell, edge, missing);
    });
    answer.stages.push_back(*taken);
  }
  return answer;
}

StageAnswer StageProgram::leastMissing() { return solve(kInfinite, true); }

} // namespace autopar::planner
