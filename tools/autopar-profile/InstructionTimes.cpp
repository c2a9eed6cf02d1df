// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "InstructionTimes.h"

#include "InstructionGrid.h"
#include "autopar/Artifact/ProfileKey.h"

#include <cstdio>
#include <optional>

namespace autopar::tools {
namespace {

size_t pointsOf(const Grid &grid) {
  size_t points = 1;
  for (const MeasuredExtent &extent : grid.extents)
    points *= extent.values.size();
  return points;
}

Point pointAt(const Grid &grid, size_t index) {
  Point point(grid.extents.size());
  for (size_t i = point.size(); i-- > 0;) {
    const std::vector<double> &values = grid.extents[i].values;
    point[i] = int64_t(values[index % values.size()]);
    index /= values.size();
  }
  return point;
}

/// From the neighbours that are one step smaller along an extent, in proportion; their mean.
void fillLeftOut(MeasuredOperation &operation) {
  for (size_t i = 0; i < operation.us.size(); ++i) {
    if (operation.us[i] > 0)
      continue;
    double sum = 0;
    int count = 0;
    size_t stride = 1;
    for (size_t extent = operation.extents.size(); extent-- > 0;) {
      const std::vector<double> &values = operation.extents[extent].values;
      size_t at = i / stride % values.size();
      if (at > 0) {
        sum += operation.us[i - stride] * values[at] / values[at - 1];
        ++count;
      }
      stride *= values.size();
    }
    operation.us[i] = count > 0 ? sum / count : 0;
  }
}

/// None where the machine has fast code for no point of the grid.
Result<std::optional<MeasuredOperation>> measure(const Machine &machine, const Grid &grid) {
  Probe probe("grid");
  ProbeMemory memory(probe);
  MeasuredOperation operation;
  operation.kind = grid.kind;
  operation.extents = grid.extents;
  operation.us.assign(pointsOf(grid), 0);
  struct Place {
    size_t point;
    int64_t instruction;
  };
  std::vector<Place> places;
  for (size_t i = 0; i < operation.us.size(); ++i) {
    auto payload = grid.make(memory, pointAt(grid, i));
    if (!payload)
      continue;
    std::string key = artifact::profileKey(*payload);
    if (operation.kind.empty())
      operation.kind = key.substr(0, key.rfind(':'));
    places.push_back({i, probe.instructions()});
    probe.add(std::move(*payload));
  }
  if (places.empty())
    return std::optional<MeasuredOperation>();
  Effort effort = machine.quick ? Effort{0.05, 3} : Effort{0.3, 5};
  auto seconds = probe.secondsOfEach(machine.ranks, machine.threads, effort);
  if (!seconds)
    return seconds.status().at(operation.kind);
  for (const Place &place : places)
    operation.us[place.point] = (*seconds)[size_t(place.instruction)] * 1e6;
  fillLeftOut(operation);
  operation.makeMonotone();
  return std::optional(std::move(operation));
}

} // namespace

Result<std::vector<MeasuredOperation>> measureInstructions(const Machine &machine) {
  std::vector<MeasuredOperation> operations;
  for (const Grid &grid : gridsOf(machine)) {
    auto operation = measure(machine, grid);
    if (!operation)
      return operation.status();
    std::optional<MeasuredOperation> measured = operation.take();
    if (!measured)
      continue;
    if (!machine.quiet)
      std::fprintf(stderr, "autopar-profile: %s: %zu sizes, %.2f to %.2f us\n",
                   measured->kind.c_str(), measured->us.size(), measured->us.front(),
                   measured->us.back());
    operations.push_back(std::move(*measured));
  }
  return operations;
}

} // namespace autopar::tools
