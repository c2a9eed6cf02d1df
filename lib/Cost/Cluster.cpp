// SPDX-License-Identifier: Apache-2.0
// Questions about a cluster and the rules it must keep.
#include "autopar/Cost/Cluster.h"
#include "autopar/Cost/CostModel.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace autopar {
namespace {

Status bad(const std::string &place, const std::string &what) {
  return Status::badInput(place + ": " + what);
}

std::string indexed(const char *list, size_t i) {
  return std::string(list) + "[" + std::to_string(i) + "]";
}

bool positive(double value) { return std::isfinite(value) && value > 0; }
bool fraction(double value) { return positive(value) && value <= 1; }

Status verifyDeviceType(const DeviceType &type, const std::string &place) {
  if (type.name.empty())
    return bad(place + ".name", "must not be empty");
  if (type.peakFlopsPerSecond.empty())
    return bad(place + ".peak_flops_per_s", "names no element type; give at least f32");
  for (const auto &[dataType, rate] : type.peakFlopsPerSecond)
    if (!positive(rate))
      return bad(place + ".peak_flops_per_s." + std::string(name(dataType)), "must be above 0");
  if (!fraction(type.computeEfficiency))
    return bad(place + ".compute_efficiency", "must be above 0 and at most 1");
  if (!(type.attentionEfficiency == 0 || fraction(type.attentionEfficiency)))
    return bad(place + ".attention_efficiency", "must be above 0 and at most 1");
  if (!(type.attentionGradientEfficiency == 0 || fraction(type.attentionGradientEfficiency)))
    return bad(place + ".attention_gradient_efficiency", "must be above 0 and at most 1");
  if (!fraction(type.memoryEfficiency))
    return bad(place + ".memory_efficiency", "must be above 0 and at most 1");
  if (!positive(type.memoryBytesPerSecond))
    return bad(place + ".memory_bytes_per_s", "must be above 0");
  if (type.memoryBytes <= 0)
    return bad(place + ".memory_bytes", "must be above 0");
  if (type.reservedBytes < 0 || type.reservedBytes >= type.memoryBytes)
    return bad(place + ".reserved_bytes", "must be at least 0 and below memory_bytes");
  if (!std::isfinite(type.launchUs) || type.launchUs < 0)
    return bad(place + ".launch_us", "must be at least 0");
  return Status::ok();
}

Status verifyLink(const Link &link, const std::string &place) {
  if (!std::isfinite(link.latencyUs) || link.latencyUs < 0)
    return bad(place + ".latency_us", "must be at least 0");
  if (!positive(link.bytesPerSecond))
    return bad(place + ".bytes_per_s", "must be above 0");
  if (!std::isfinite(link.computeLoss) || link.computeLoss < 0)
    return bad(place + ".compute_loss", "must be at least 0");
  return Status::ok();
}

Status verifyLevels(const Cluster &cluster) {
  if (cluster.levels.empty())
    return bad("levels", "is empty; level 0 is the link inside a node");
  if (cluster.nodeCount() > 1 && cluster.levels.size() < 2)
    return bad("levels", "has one level, but there are " + std::to_string(cluster.nodeCount()) +
                             " nodes; add the link between nodes");
  int64_t before = 0;
  for (size_t i = 0; i < cluster.levels.size(); ++i) {
    const LinkLevel &level = cluster.levels[i];
    AUTOPAR_RETURN_IF_ERROR(verifyLink(level.link, indexed("levels", i)));
    bool last = i + 1 == cluster.levels.size();
    if (i == 0 && level.nodes != 1)
      return bad("levels[0].nodes", "must be 1: level 0 is inside a node");
    if (i > 0 && last && level.nodes != 0)
      return bad(indexed("levels", i) + ".nodes", "must be absent: the last level joins all nodes");
    if (i > 0 && !last && (level.nodes <= before || level.nodes % before != 0))
      return bad(indexed("levels", i) + ".nodes",
                 "must be a larger multiple of the level below, found " +
                     std::to_string(level.nodes));
    before = level.nodes;
  }
  return Status::ok();
}

} // namespace

double DeviceType::peakFor(DataType type) const {
  if (auto found = peakFlopsPerSecond.find(type); found != peakFlopsPerSecond.end())
    return found->second;
  // What multiplies no floats of 8 bits multiplies what they are in bf16.
  if (auto found = peakFlopsPerSecond.find(DataType::BF16);
      isByteFloat(type) && found != peakFlopsPerSecond.end())
    return found->second;
  if (auto found = peakFlopsPerSecond.find(DataType::F32); found != peakFlopsPerSecond.end())
    return found->second;
  double slowest = 0;
  for (const auto &[dataType, rate] : peakFlopsPerSecond)
    slowest = slowest == 0 ? rate : std::min(slowest, rate);
  return slowest == 0 ? 1 : slowest;
}

double DeviceType::efficiencyOf(Work work) const {
  double own = 0;
  if (work == Work::Attention)
    own = attentionEfficiency;
  else if (work == Work::AttentionGradient)
    own = attentionGradientEfficiency;
  return own == 0 ? computeEfficiency : own;
}

int64_t Cluster::deviceCount() const {
  int64_t count = 0;
  for (const NodeGroup &group : nodes)
    count += group.count * group.devicesPerNode;
  return count;
}

int64_t Cluster::nodeCount() const {
  int64_t count = 0;
  for (const NodeGroup &group : nodes)
    count += group.count;
  return count;
}

int64_t Cluster::nodeOfDevice(int64_t device) const {
  int64_t node = 0;
  if (device < 0)
    return -1;
  for (const NodeGroup &group : nodes) {
    int64_t held = group.count * group.devicesPerNode;
    if (device < held)
      return node + device / group.devicesPerNode;
    device -= held;
    node += group.count;
  }
  return -1;
}

const DeviceType &Cluster::typeOfDevice(int64_t device) const {
  for (const NodeGroup &group : nodes) {
    int64_t held = group.count * group.devicesPerNode;
    if (device < held)
      if (const DeviceType *type = findDeviceType(group.deviceType))
        return *type;
    device -= held;
  }
  return deviceTypes.front();
}

const DeviceType &Cluster::slowestOf(const std::vector<int64_t> &devices) const {
  auto rate = [](const DeviceType &type) {
    return type.computeEfficiency * type.peakFor(DataType::F32);
  };
  const DeviceType *slowest = &typeOfDevice(devices.front());
  for (int64_t device : deviceTypes.size() > 1 ? devices : std::vector<int64_t>())
    if (rate(typeOfDevice(device)) < rate(*slowest))
      slowest = &typeOfDevice(device);
  return *slowest;
}

int64_t Cluster::usableBytes(const std::vector<int64_t> &devices) const {
  int64_t least = typeOfDevice(devices.front()).usableBytes();
  for (int64_t device : deviceTypes.size() > 1 ? devices : std::vector<int64_t>())
    least = std::min(least, typeOfDevice(device).usableBytes());
  return least;
}

int64_t Cluster::mostUsableBytes() const {
  int64_t most = 0;
  for (const NodeGroup &group : nodes)
    most = std::max(most, findDeviceType(group.deviceType)->usableBytes());
  return most;
}

const DeviceType *Cluster::findDeviceType(std::string_view typeName) const {
  for (const DeviceType &type : deviceTypes)
    if (type.name == typeName)
      return &type;
  return nullptr;
}

Link Cluster::linkOfDevice(int64_t device, int64_t level) const {
  if (level == 0)
    for (const NodeGroup &group : nodes) {
      int64_t held = group.count * group.devicesPerNode;
      if (device < held && group.insideLink.bytesPerSecond > 0)
        return group.insideLink;
      if (device < held)
        break;
      device -= held;
    }
  size_t at = std::min(static_cast<size_t>(level), levels.size() - 1);
  return levels[at].link;
}

int64_t Cluster::levelBetween(int64_t a, int64_t b) const {
  int64_t nodeA = nodeOfDevice(a), nodeB = nodeOfDevice(b);
  for (size_t i = 0; i < levels.size(); ++i)
    if (levels[i].nodes == 0 || nodeA / levels[i].nodes == nodeB / levels[i].nodes)
      return static_cast<int64_t>(i);
  return static_cast<int64_t>(levels.size()) - 1;
}

Status Cluster::verify() const {
  std::set<std::string> names;
  if (deviceTypes.empty())
    return bad("device_types", "is empty");
  for (size_t i = 0; i < deviceTypes.size(); ++i) {
    AUTOPAR_RETURN_IF_ERROR(verifyDeviceType(deviceTypes[i], indexed("device_types", i)));
    if (!names.insert(deviceTypes[i].name).second)
      return bad(indexed("device_types", i) + ".name",
                 "'" + deviceTypes[i].name + "' appears twice");
  }
  if (nodes.empty())
    return bad("nodes", "is empty");
  constexpr int64_t most = int64_t(1) << 24;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const NodeGroup &group = nodes[i];
    if (group.count < 1 || group.count > most)
      return bad(indexed("nodes", i) + ".count", "must be in [1, 2^24]");
    if (group.devicesPerNode < 1 || group.devicesPerNode > most)
      return bad(indexed("nodes", i) + ".devices_per_node", "must be in [1, 2^24]");
    if (!findDeviceType(group.deviceType))
      return bad(indexed("nodes", i) + ".device_type",
                 "'" + group.deviceType + "' is not among device_types");
    if (group.insideLink.bytesPerSecond != 0)
      AUTOPAR_RETURN_IF_ERROR(verifyLink(group.insideLink, indexed("nodes", i) + ".inside_link"));
  }
  if (deviceCount() > kMostDevices)
    return bad("nodes", "have " + std::to_string(deviceCount()) +
                            " devices together; expected at most " + std::to_string(kMostDevices));
  return verifyLevels(*this);
}

Status Cluster::checkHostMemory() const {
  for (size_t i = 0; i < deviceTypes.size(); ++i) {
    const char *missing = deviceTypes[i].hostMemoryBytes == 0           ? ".host_memory_bytes"
                          : deviceTypes[i].hostLink.bytesPerSecond == 0 ? ".host_link"
                                                                        : nullptr;
    if (missing)
      return Status::badInput("cluster \"" + name + "\": " + indexed("device_types", i) + missing +
                              " is not given: nothing can lie in host memory");
  }
  return Status::ok();
}

Status Cluster::checkCollectives() const {
  auto has = [&](CollectiveKind kind, int64_t ranks, int64_t on) {
    for (const MeasuredCollective &one : collectives)
      if (one.kind == kind && one.ranksPerNode == ranks && one.nodes == on)
        return true;
    return false;
  };
  int64_t most = 1;
  for (const NodeGroup &group : nodes)
    most = std::max(most, group.devicesPerNode);
  for (int64_t on = 1; on <= nodeCount(); ++on)
    for (int64_t ranks = 1; ranks <= most; ++ranks) {
      if (nodeCount() % on || most % ranks || on * ranks == 1)
        continue;
      for (CollectiveKind kind : {CollectiveKind::AllReduce, CollectiveKind::AllGather,
                                  CollectiveKind::ReduceScatter, CollectiveKind::AllToAll})
        if (!has(kind, ranks, on))
          return Status::badInput(
              "collectives: no times of " + std::string(autopar::name(kind)) +
              " with ranks_per_node " + std::to_string(ranks) + ", nodes " + std::to_string(on) +
              ", which meshes of cluster \"" + name +
              "\" can have: measure it, leave all collectives out, or say --profile-fallback "
              "interpolate to take it from the cluster's links");
    }
  return Status::ok();
}

} // namespace autopar
