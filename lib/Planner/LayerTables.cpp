// SPDX-License-Identifier: Apache-2.0
// Prefix sums, and maxima over powers of two, per sub-mesh.
#include "autopar/Planner/LayerTables.h"

#include <algorithm>
#include <bit>
#include <memory>

#include "autopar/Planner/CostGraph.h"

namespace autopar {
namespace {

/// The layers of one sub-mesh.
class Ranges {
public:
  explicit Ranges(const std::vector<StageCost> &layers) : sums(layers.size() + 1), most(1) {
    for (size_t i = 0; i < layers.size(); ++i) {
      bool forbidden = isForbidden(layers[i].timeUs);
      sums[i + 1] = sums[i];
      sums[i + 1].timeUs += forbidden ? 0 : layers[i].timeUs;
      sums[i + 1].forbidden += forbidden;
      sums[i + 1].stateBytes += layers[i].stateBytes;
      sums[i + 1].savedBytes += layers[i].savedBytes;
      most[0].push_back(layers[i].workspaceBytes);
    }
    for (size_t width = 1; 2 * width <= layers.size(); width *= 2) {
      const std::vector<int64_t> &half = most.back();
      std::vector<int64_t> whole;
      for (size_t i = 0; i + 2 * width <= layers.size(); ++i)
        whole.push_back(std::max(half[i], half[i + width]));
      most.push_back(std::move(whole));
    }
  }

  StageCost of(size_t begin, size_t end) const {
    const Sums &from = sums[begin], &to = sums[end];
    auto level = static_cast<size_t>(std::bit_width(end - begin)) - 1;
    return {to.forbidden > from.forbidden ? kForbidden : to.timeUs - from.timeUs,
            to.stateBytes - from.stateBytes, to.savedBytes - from.savedBytes,
            std::max(most[level][begin], most[level][end - (size_t{1} << level)])};
  }

private:
  struct Sums {
    double timeUs = 0;
    int64_t forbidden = 0, stateBytes = 0, savedBytes = 0;
  };
  std::vector<Sums> sums;
  std::vector<std::vector<int64_t>> most; ///< [level][i]: over 2^level layers from i
};

Status checkSizes(const LayerTable &table) {
  if (table.layers.empty() || table.layers[0].empty())
    return Status::badInput("layer table: expected at least one sub-mesh and one layer");
  size_t layers = table.layers[0].size();
  for (size_t k = 0; k < table.layers.size(); ++k)
    if (table.layers[k].size() != layers)
      return Status::badInput("layer table: sub-mesh " + std::to_string(k) + " has " +
                              std::to_string(table.layers[k].size()) + " layers, expected " +
                              std::to_string(layers));
  if (table.borderBytes.size() != layers + 1)
    return Status::badInput("layer table: has " + std::to_string(table.borderBytes.size()) +
                            " borders, expected " + std::to_string(layers + 1));
  if (table.links.size() != table.layers.size())
    return Status::badInput("layer table: has " + std::to_string(table.links.size()) +
                            " links, expected one per sub-mesh (" +
                            std::to_string(table.layers.size()) + ")");
  return Status::ok();
}

} // namespace

Result<std::function<StageCost(int32_t, int32_t, int32_t)>> rangeCosts(const LayerTable &table) {
  AUTOPAR_RETURN_IF_ERROR(checkSizes(table));
  auto ranges = std::make_shared<std::vector<Ranges>>();
  for (const std::vector<StageCost> &layers : table.layers)
    ranges->emplace_back(layers);
  auto last = static_cast<int32_t>(table.layers[0].size());
  return std::function<StageCost(int32_t, int32_t, int32_t)>(
      [ranges, last, bytes = table.borderBytes, links = table.links](int32_t begin, int32_t end,
                                                                     int32_t subMesh) {
        auto k = static_cast<size_t>(subMesh);
        StageCost cost = (*ranges)[k].of(static_cast<size_t>(begin), static_cast<size_t>(end));
        for (int32_t border : {begin, end}) {
          if (border == 0 || border == last)
            continue;
          double each = links[k].latencyUs;
          if (links[k].bytesPerUs > 0)
            each += static_cast<double>(bytes[static_cast<size_t>(border)]) / links[k].bytesPerUs;
          cost.timeUs = std::min(kForbidden, cost.timeUs + 2 * each);
        }
        return cost;
      });
}

} // namespace autopar
