// SPDX-License-Identifier: Apache-2.0
// See the header.
#include "autopar/Cost/MeasuredOperation.h"

#include <algorithm>
#include <charconv>
#include <cstdio>

#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

constexpr double kMost = 1e18;

/// Where an extent lies between two values of the grid.
struct Position {
  size_t low = 0, high = 0;
  double part = 0;   ///< of the way from low to high
  double factor = 1; ///< for what lies beyond the grid
};

std::optional<Position> locate(const MeasuredExtent &extent, double at) {
  const std::vector<double> &values = extent.values;
  if (at > values.back() * extent.reach)
    return std::nullopt;
  auto above = std::lower_bound(values.begin(), values.end(), at);
  if (above == values.begin())
    return Position{};
  size_t high = size_t(above - values.begin());
  if (above == values.end())
    return Position{high - 1, high - 1, 0, at / values.back()};
  double low = values[high - 1];
  return Position{high - 1, high, (at - low) / (*above - low), 1};
}

Result<MeasuredExtent> readExtent(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  MeasuredExtent extent;
  extent.name = fields.text("name");
  extent.reach = fields.number("reach", 1, kMost, 1);
  const nlohmann::json &values = fields.array("values");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  for (size_t i = 0; i < values.size(); ++i) {
    std::string here = place + ".values[" + std::to_string(i) + "]";
    if (!values[i].is_number() || values[i].get<double>() <= 0)
      return Status::badInput(here + ": expected a number above 0");
    if (i > 0 && values[i].get<double>() <= extent.values.back())
      return Status::badInput(here + ": expected more than the value before");
    extent.values.push_back(values[i].get<double>());
  }
  if (extent.values.empty())
    return Status::badInput(place + ".values: expected at least one");
  return extent;
}

/// Where a point of the grid is, in words: "rows 32, columns 64".
std::string describe(const MeasuredOperation &operation, size_t index) {
  std::string text;
  for (size_t i = operation.extents.size(); i-- > 0;) {
    const MeasuredExtent &extent = operation.extents[i];
    char value[64];
    std::snprintf(value, sizeof(value), " %.10g", extent.values[index % extent.values.size()]);
    text = extent.name + value + (text.empty() ? "" : ", ") + text;
    index /= extent.values.size();
  }
  return text;
}

/// How far apart neighbours along an extent lie in the list.
size_t strideOf(const MeasuredOperation &operation, size_t extent) {
  size_t stride = 1;
  for (size_t i = extent + 1; i < operation.extents.size(); ++i)
    stride *= operation.extents[i].values.size();
  return stride;
}

Status checkTimes(const MeasuredOperation &operation, const std::string &place) {
  for (size_t i = 0; i < operation.us.size(); ++i)
    for (size_t extent = 0; extent < operation.extents.size(); ++extent) {
      size_t stride = strideOf(operation, extent);
      bool isFirst = i / stride % operation.extents[extent].values.size() == 0;
      if (!isFirst && operation.us[i] < operation.us[i - stride])
        return Status::badInput(place + ".us[" + std::to_string(i) + "] (" +
                                describe(operation, i) + "): is below that of fewer " +
                                operation.extents[extent].name +
                                "; a search would be misled by the dip: measure again");
    }
  return Status::ok();
}

Result<MeasuredOperation> read(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  MeasuredOperation operation;
  operation.kind = fields.text("key");
  const nlohmann::json &extents = fields.array("extents"), &times = fields.array("us");
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  size_t points = 1;
  for (size_t i = 0; i < extents.size(); ++i) {
    auto extent = readExtent(extents[i], place + ".extents[" + std::to_string(i) + "]");
    if (!extent)
      return extent.status();
    operation.extents.push_back(extent.take());
    points *= operation.extents.back().values.size();
  }
  for (size_t i = 0; i < times.size(); ++i) {
    if (!times[i].is_number() || times[i].get<double>() <= 0)
      return Status::badInput(place + ".us[" + std::to_string(i) +
                              "]: expected microseconds above 0");
    operation.us.push_back(times[i].get<double>());
  }
  if (operation.extents.empty() || times.size() < points)
    return Status::badInput(place + ".us: no time for \"" + operation.kind + "\" with " +
                            describe(operation, times.size()) + "; the grid has " +
                            std::to_string(points) + " points");
  if (times.size() > points)
    return Status::badInput(place + ".us: " + std::to_string(times.size()) +
                            " times for a grid of " + std::to_string(points) + " points");
  AUTOPAR_RETURN_IF_ERROR(checkTimes(operation, place));
  return operation;
}

} // namespace

std::optional<ProfileKey> ProfileKey::parse(std::string_view text) {
  size_t colon = text.rfind(':');
  if (colon == std::string_view::npos)
    return std::nullopt;
  ProfileKey key{text.substr(0, colon), {}};
  const char *at = text.data() + colon + 1, *end = text.data() + text.size();
  while (true) {
    double extent = 0;
    auto [next, error] = std::from_chars(at, end, extent);
    if (error != std::errc())
      return std::nullopt;
    key.extents.push_back(extent);
    if (next == end)
      return key;
    if (*next != 'x')
      return std::nullopt;
    at = next + 1;
  }
}

std::optional<double> MeasuredOperation::timeUs(const std::vector<double> &at) const {
  if (at.size() != extents.size())
    return std::nullopt;
  std::vector<Position> positions;
  double factor = 1;
  for (size_t i = 0; i < at.size(); ++i) {
    auto position = locate(extents[i], at[i]);
    if (!position)
      return std::nullopt;
    positions.push_back(*position);
    factor *= position->factor;
  }
  double sum = 0;
  for (size_t corner = 0; corner < size_t{1} << at.size(); ++corner) {
    double weight = 1;
    size_t index = 0;
    for (size_t i = 0; i < at.size(); ++i) {
      bool isHigh = corner >> i & 1;
      weight *= isHigh ? positions[i].part : 1 - positions[i].part;
      index = index * extents[i].values.size() + (isHigh ? positions[i].high : positions[i].low);
    }
    sum += weight * us[index];
  }
  return factor * sum;
}

void MeasuredOperation::makeMonotone() {
  for (size_t extent = 0; extent < extents.size(); ++extent) {
    size_t stride = strideOf(*this, extent);
    for (size_t i = stride; i < us.size(); ++i)
      if (i / stride % extents[extent].values.size() != 0)
        us[i] = std::max(us[i], us[i - stride]);
  }
}

const MeasuredOperation *MeasuredOperations::find(std::string_view kind) const {
  for (const MeasuredOperation &operation : list)
    if (operation.kind == kind)
      return &operation;
  return nullptr;
}

Result<std::optional<double>> MeasuredOperations::timeUs(std::string_view key) const {
  auto parsed = ProfileKey::parse(key);
  const MeasuredOperation *operation = parsed ? find(parsed->kind) : nullptr;
  if (operation)
    if (auto us = operation->timeUs(parsed->extents))
      return us;
  if (estimatesOthers)
    return std::optional<double>();
  std::string why = operation ? "its sizes lie outside of what was measured"
                              : "nobody measured operations of this kind";
  return Status::badInput("the profile database has no time for \"" + std::string(key) +
                          "\": " + why +
                          "; measure it, or allow formulas with --profile-fallback analytical");
}

Result<std::vector<MeasuredOperation>> readMeasuredOperations(const nlohmann::json &list,
                                                              const std::string &place) {
  std::vector<MeasuredOperation> operations;
  for (size_t i = 0; i < list.size(); ++i) {
    std::string here = place + "[" + std::to_string(i) + "]";
    auto one = read(list[i], here);
    if (!one)
      return one.status();
    for (const MeasuredOperation &other : operations)
      if (other.kind == one->kind)
        return Status::badInput(here + ".key: \"" + one->kind + "\" stands in the file twice");
    operations.push_back(one.take());
  }
  return operations;
}

nlohmann::ordered_json toJson(const std::vector<MeasuredOperation> &operations) {
  auto list = nlohmann::ordered_json::array();
  for (const MeasuredOperation &one : operations) {
    auto extents = nlohmann::ordered_json::array();
    for (const MeasuredExtent &extent : one.extents)
      extents.push_back(
          {{"name", extent.name}, {"values", extent.values}, {"reach", extent.reach}});
    list.push_back({{"key", one.kind}, {"extents", extents}, {"us", one.us}});
  }
  return list;
}

} // namespace autopar
