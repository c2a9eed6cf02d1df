// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Cost/MeasuredCollectives.h"

#include <algorithm>

#include "autopar/Cost/CostModel.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

constexpr CollectiveKind kKinds[] = {CollectiveKind::AllReduce,     CollectiveKind::AllGather,
                                     CollectiveKind::ReduceScatter, CollectiveKind::AllToAll,
                                     CollectiveKind::Permute,       CollectiveKind::Broadcast};

Result<MeasuredCollective> read(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  MeasuredCollective one;
  std::string word = fields.text("kind"), known;
  const CollectiveKind *kind = std::find_if(std::begin(kKinds), std::end(kKinds),
                                            [&](CollectiveKind own) { return name(own) == word; });
  for (CollectiveKind own : kKinds)
    known += (known.empty() ? "" : ", ") + std::string(name(own));
  if (kind == std::end(kKinds))
    fields.fail("kind", "unknown collective \"" + word + "\"; known are " + known);
  else
    one.kind = *kind;
  one.ranksPerNode = fields.integer("ranks_per_node", 1, int64_t(1) << 24);
  one.nodes = fields.integer("nodes", 1, int64_t(1) << 24, 1);
  const nlohmann::json &times = fields.array("times");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  if (one.ranksPerNode * one.nodes < 2)
    return Status::badInput(place + ": one rank has no collective");
  if (times.empty())
    return Status::badInput(place + ".times: expected at least one measurement");
  for (size_t i = 0; i < times.size(); ++i) {
    std::string here = place + ".times[" + std::to_string(i) + "]";
    JsonFields time(times[i], here);
    std::pair<double, double> point{time.number("bytes", 1, 1e18), time.number("us", 0, 1e12)};
    AUTOPAR_RETURN_IF_ERROR(time.finish());
    if (!one.times.empty() && point.first <= one.times.back().first)
      return Status::badInput(here + ".bytes: expected more than in the measurement before");
    if (!one.times.empty() && point.second < one.times.back().second)
      return Status::badInput(here + ".us: is below that of fewer bytes; a search would be misled "
                                     "by the dip: measure again, or leave one of the two out");
    one.times.push_back(point);
  }
  return one;
}

} // namespace

double MeasuredCollective::timeUs(double bytes) const {
  auto above = std::lower_bound(times.begin(), times.end(), std::pair<double, double>(bytes, 0));
  if (above == times.begin())
    return times.front().second;
  auto [lowBytes, lowUs] = *std::prev(above);
  if (above == times.end())
    return lowUs * bytes / lowBytes;
  return lowUs + (above->second - lowUs) * (bytes - lowBytes) / (above->first - lowBytes);
}

Result<std::vector<MeasuredCollective>> readMeasuredCollectives(const nlohmann::json &list,
                                                                const std::string &place) {
  std::vector<MeasuredCollective> collectives;
  for (size_t i = 0; i < list.size(); ++i) {
    std::string here = place + "[" + std::to_string(i) + "]";
    Result<MeasuredCollective> one = read(list[i], here);
    if (!one)
      return one.status();
    for (const MeasuredCollective &other : collectives)
      if (other.kind == one->kind && other.ranksPerNode == one->ranksPerNode &&
          other.nodes == one->nodes)
        return Status::badInput(here + ": " + std::string(name(one->kind)) + " of " +
                                std::to_string(one->ranksPerNode) + " ranks on each of " +
                                std::to_string(one->nodes) + " nodes stands here twice");
    collectives.push_back(one.take());
  }
  return collectives;
}

nlohmann::ordered_json toJson(const std::vector<MeasuredCollective> &collectives) {
  auto list = nlohmann::ordered_json::array();
  for (const MeasuredCollective &one : collectives) {
    auto times = nlohmann::ordered_json::array();
    for (auto [bytes, us] : one.times)
      times.push_back({{"bytes", bytes}, {"us", us}});
    list.push_back({{"kind", name(one.kind)},
                    {"ranks_per_node", one.ranksPerNode},
                    {"nodes", one.nodes},
                    {"times", times}});
  }
  return list;
}

} // namespace autopar
