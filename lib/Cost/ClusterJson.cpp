// SPDX-License-Identifier: Apache-2.0
// Clusters as JSON files (schema in docs/CostModel.md).
#include "autopar/Cost/Cluster.h"

#include <limits>

#include "autopar/Base/InputFile.h"
#include "autopar/Cost/JsonFields.h"

namespace autopar {
namespace {

using Json = nlohmann::ordered_json;

/// Rates are per second: below 1 nothing takes a time that can be told, above kMost none.
constexpr double kLeastRate = 1, kMost = 1e30;
constexpr double kMostLoss = 100;
constexpr int64_t kMostBytes = std::numeric_limits<int64_t>::max();

Json toJsonValue(const Link &link) {
  return {{"latency_us", link.latencyUs}, {"bytes_per_s", link.bytesPerSecond}};
}

Json toJsonValue(const DeviceType &type) {
  Json peaks = Json::object();
  for (const auto &[dataType, rate] : type.peakFlopsPerSecond)
    peaks[std::string(name(dataType))] = rate;
  Json json = {{"name", type.name},
               {"peak_flops_per_s", peaks},
               {"compute_efficiency", type.computeEfficiency},
               {"memory_bytes_per_s", type.memoryBytesPerSecond},
               {"memory_efficiency", type.memoryEfficiency},
               {"memory_bytes", type.memoryBytes},
               {"reserved_bytes", type.reservedBytes},
               {"launch_us", type.launchUs}};
  if (type.attentionEfficiency != 0)
    json["attention_efficiency"] = type.attentionEfficiency;
  if (type.attentionGradientEfficiency != 0)
    json["attention_gradient_efficiency"] = type.attentionGradientEfficiency;
  if (type.cudaChip != 0)
    json["cuda_chip"] = type.cudaChip;
  if (type.hostLink.bytesPerSecond != 0)
    json["host_link"] = toJsonValue(type.hostLink);
  if (type.hostMemoryBytes != 0)
    json["host_memory_bytes"] = type.hostMemoryBytes;
  if (type.communicatesWhileIdle)
    json["communicates_while_idle"] = true;
  if (!type.measured.list.empty()) {
    json["measured"] = autopar::toJson(type.measured.list);
    json["estimates_others"] = type.measured.estimatesOthers;
  }
  return json;
}

Result<Link> readLink(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  Link link{fields.number("latency_us", 0, kMost), fields.number("bytes_per_s", kLeastRate, kMost)};
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return link;
}

Result<DeviceType> readDeviceType(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  DeviceType type;
  type.name = fields.text("name");
  const nlohmann::json &peaks = fields.object("peak_flops_per_s");
  AUTOPAR_RETURN_IF_ERROR(fields.status());
  JsonFields rates(peaks, fields.placeOf("peak_flops_per_s"));
  for (const auto &[key, value] : peaks.items()) {
    std::optional<DataType> dataType = dataTypeFromName(key);
    if (!dataType)
      rates.fail(key, "unknown element type");
    else
      type.peakFlopsPerSecond[*dataType] = rates.number(key.c_str(), kLeastRate, kMost);
  }
  AUTOPAR_RETURN_IF_ERROR(rates.status());
  type.computeEfficiency = fields.number("compute_efficiency", 0, 1, 1);
  type.attentionEfficiency = fields.number("attention_efficiency", 0, 1, 0);
  type.attentionGradientEfficiency = fields.number("attention_gradient_efficiency", 0, 1, 0);
  type.memoryBytesPerSecond = fields.number("memory_bytes_per_s", kLeastRate, kMost);
  type.memoryEfficiency = fields.number("memory_efficiency", 0, 1, 1);
  type.memoryBytes = fields.integer("memory_bytes", 0, kMostBytes);
  type.reservedBytes = fields.integer("reserved_bytes", 0, kMostBytes, 0);
  type.launchUs = fields.number("launch_us", 0, kMost, 0);
  type.cudaChip = int(fields.integer("cuda_chip", 0, 1000, 0));
  type.hostMemoryBytes = fields.integer("host_memory_bytes", 0, kMostBytes, 0);
  if (fields.has("host_link")) {
    const nlohmann::json &hostLink = fields.object("host_link");
    AUTOPAR_RETURN_IF_ERROR(fields.status());
    Result<Link> link = readLink(hostLink, fields.placeOf("host_link"));
    if (!link)
      return link.status();
    type.hostLink = *link;
  }
  type.communicatesWhileIdle = fields.truth("communicates_while_idle", false);
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json &measured = fields.has("measured") ? fields.array("measured") : none;
  type.measured.estimatesOthers = fields.truth("estimates_others", false);
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  auto operations = readMeasuredOperations(measured, place + ".measured");
  if (!operations)
    return operations.status();
  type.measured.list = operations.take();
  return type;
}

Result<NodeGroup> readNodeGroup(const nlohmann::json &json, const std::string &place) {
  JsonFields fields(json, place);
  NodeGroup group;
  group.count = fields.integer("count", 1, int64_t(1) << 24);
  group.devicesPerNode = fields.integer("devices_per_node", 1, int64_t(1) << 24);
  group.deviceType = fields.text("device_type");
  if (fields.has("inside_link")) {
    const nlohmann::json &inside = fields.object("inside_link");
    AUTOPAR_RETURN_IF_ERROR(fields.status());
    Result<Link> link = readLink(inside, fields.placeOf("inside_link"));
    if (!link)
      return link.status();
    group.insideLink = *link;
  }
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return group;
}

Result<LinkLevel> readLevel(const nlohmann::json &json, const std::string &place, bool first) {
  JsonFields fields(json, place);
  LinkLevel level;
  level.name = fields.text("name", "");
  level.link = {fields.number("latency_us", 0, kMost),
                fields.number("bytes_per_s", kLeastRate, kMost)};
  level.nodes = fields.integer("nodes", 1, int64_t(1) << 24, first ? 1 : 0);
  if (!first)
    level.link.computeLoss = fields.number("compute_loss", 0, kMostLoss, 0);
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  return level;
}

std::string placeIn(const char *list, size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

} // namespace

std::string Cluster::toJson() const {
  Json json = {{"kind", "autopar.cluster"}, {"version", 1}, {"name", name}};
  json["device_types"] = Json::array();
  for (const DeviceType &type : deviceTypes)
    json["device_types"].push_back(toJsonValue(type));
  json["nodes"] = Json::array();
  for (const NodeGroup &group : nodes) {
    Json one = {{"count", group.count},
                {"devices_per_node", group.devicesPerNode},
                {"device_type", group.deviceType}};
    if (group.insideLink.bytesPerSecond != 0)
      one["inside_link"] = toJsonValue(group.insideLink);
    json["nodes"].push_back(one);
  }
  json["levels"] = Json::array();
  for (const LinkLevel &level : levels) {
    Json one = {{"name", level.name}};
    one.update(toJsonValue(level.link));
    if (level.link.computeLoss != 0)
      one["compute_loss"] = level.link.computeLoss;
    if (level.nodes > 1)
      one["nodes"] = level.nodes;
    json["levels"].push_back(one);
  }
  if (!collectives.empty())
    json["collectives"] = autopar::toJson(collectives);
  return json.dump(2) + "\n";
}

Result<Cluster> Cluster::fromJson(std::string_view text) {
  Result<nlohmann::json> parsed = parseJson(text);
  if (!parsed)
    return parsed.status();
  JsonFields fields(*parsed, "");
  fields.header("autopar.cluster", 1);
  Cluster cluster;
  cluster.name = fields.text("name", "");
  const nlohmann::json &types = fields.array("device_types");
  const nlohmann::json &groups = fields.array("nodes");
  const nlohmann::json &levels = fields.array("levels");
  static const nlohmann::json none = nlohmann::json::array();
  const nlohmann::json &measured = fields.has("collectives") ? fields.array("collectives") : none;
  AUTOPAR_RETURN_IF_ERROR(fields.finish());
  for (size_t i = 0; i < types.size(); ++i) {
    Result<DeviceType> type = readDeviceType(types[i], placeIn("device_types", i));
    if (!type)
      return type.status();
    cluster.deviceTypes.push_back(type.take());
  }
  for (size_t i = 0; i < groups.size(); ++i) {
    Result<NodeGroup> group = readNodeGroup(groups[i], placeIn("nodes", i));
    if (!group)
      return group.status();
    cluster.nodes.push_back(group.take());
  }
  for (size_t i = 0; i < levels.size(); ++i) {
    Result<LinkLevel> level = readLevel(levels[i], placeIn("levels", i), i == 0);
    if (!level)
      return level.status();
    cluster.levels.push_back(level.take());
  }
  Result<std::vector<MeasuredCollective>> collectives =
      readMeasuredCollectives(measured, "collectives");
  if (!collectives)
    return collectives.status();
  cluster.collectives = collectives.take();
  AUTOPAR_RETURN_IF_ERROR(cluster.verify());
  return cluster;
}

Result<Cluster> Cluster::load(const std::string &path) {
  if (path.starts_with("presets:"))
    return preset(path);
  if (path.starts_with("{"))
    return fromJson(path);
  Result<std::string> text = readWholeFile(path);
  if (!text)
    return text.status();
  Result<Cluster> cluster = fromJson(*text);
  if (!cluster)
    return cluster.status().at(path);
  return cluster;
}

} // namespace autopar
