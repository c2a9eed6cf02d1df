// SPDX-License-Identifier: Apache-2.0
// Meshes and the rank groups that their axes form.
#include "autopar/Cost/Mesh.h"

#include <algorithm>
#include <map>
#include <set>

#include "autopar/Cost/CostModel.h"

namespace autopar {

std::string shapeText(const std::vector<MeshAxis> &axes) {
  std::string text;
  for (const MeshAxis &axis : axes)
    text += (text.empty() ? "" : ",") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string shapeText(const std::vector<Mesh> &meshes) {
  bool areAlike = std::all_of(meshes.begin(), meshes.end(),
                              [&](const Mesh &mesh) { return mesh.axes == meshes.front().axes; });
  std::string text;
  for (const Mesh &mesh : meshes) {
    if (areAlike && !text.empty())
      break;
    text += (text.empty() ? "" : "/") + shapeText(mesh.axes);
  }
  return text;
}

int64_t Mesh::axisIndex(std::string_view axisName) const {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i].name == axisName)
      return static_cast<int64_t>(i);
  return -1;
}

int64_t Mesh::axisSize(std::string_view axisName) const {
  int64_t at = axisIndex(axisName);
  return at < 0 ? 0 : axes[static_cast<size_t>(at)].size;
}

Status Mesh::verify(const Cluster &cluster) const {
  std::string place = "mesh '" + name + "'";
  std::set<std::string> names;
  int64_t product = 1;
  for (const MeshAxis &axis : axes) {
    if (axis.name.empty() || axis.name == "time")
      return Status::badInput(place + ": '" + axis.name + "' is not a name for an axis");
    if (!names.insert(axis.name).second)
      return Status::badInput(place + ": axis '" + axis.name + "' appears twice");
    if (axis.size < 1 || axis.size > (int64_t(1) << 24) || product > (int64_t(1) << 30))
      return Status::badInput(place + ": axis '" + axis.name + "' has size " +
                              std::to_string(axis.size) + ", expected 1 to 2^24");
    product *= axis.size;
  }
  if (product != deviceCount())
    return Status::badInput(place + ": axes make " + std::to_string(product) + " points, but " +
                            std::to_string(deviceCount()) + " devices are listed");
  std::set<int64_t> seen;
  for (int64_t device : devices) {
    if (device < 0 || device >= cluster.deviceCount())
      return Status::badInput(place + ": device " + std::to_string(device) +
                              " is not in the cluster of " + std::to_string(cluster.deviceCount()) +
                              " devices");
    if (!seen.insert(device).second)
      return Status::badInput(place + ": device " + std::to_string(device) + " is listed twice");
  }
  return Status::ok();
}

Mesh Mesh::over(std::string name, std::vector<MeshAxis> axes) {
  Mesh mesh{std::move(name), std::move(axes), {}};
  int64_t product = 1;
  for (const MeshAxis &axis : mesh.axes)
    product *= axis.size;
  for (int64_t i = 0; i < product; ++i)
    mesh.devices.push_back(i);
  return mesh;
}

int64_t MeshGroup::size() const {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

bool MeshGroup::spansNodes() const {
  for (size_t level = 1; level < extents.size(); ++level)
    if (extents[level] > 1)
      return true;
  return false;
}

double MeshGroup::computeLoss() const {
  double most = 0;
  for (size_t level = 1; level < extents.size(); ++level)
    if (extents[level] > 1)
      most = std::max(most, links[level].computeLoss);
  return most;
}

/// What was measured for a group of this shape.
static MeshGroup withMeasured(MeshGroup group, const Cluster &cluster) {
  for (const MeasuredCollective &one : cluster.collectives)
    if (one.ranksPerNode == group.extents[0] && one.nodes == group.size() / group.extents[0])
      group.measured.push_back(one);
  return group;
}

MeshGroup meshGroup(const Cluster &cluster, int64_t ranksPerNode, int64_t nodes) {
  MeshGroup group;
  for (const LinkLevel &level : cluster.levels) {
    group.extents.push_back(1);
    group.links.push_back(level.link);
  }
  group.extents[0] = ranksPerNode;
  // Nodes fill the lowest levels first.
  int64_t left = nodes, held = 1;
  for (size_t level = 1; level < group.extents.size() && left > 1; ++level) {
    int64_t room = cluster.levels[level].nodes == 0 ? left : cluster.levels[level].nodes / held;
    group.extents[level] = std::min(left, room);
    left = (left + room - 1) / room;
    held = cluster.levels[level].nodes == 0 ? held : cluster.levels[level].nodes;
  }
  for (const NodeGroup &node : cluster.nodes)
    if (node.insideLink.bytesPerSecond > 0 &&
        node.insideLink.bytesPerSecond < group.links[0].bytesPerSecond)
      group.links[0] = node.insideLink;
  return withMeasured(std::move(group), cluster);
}

MeshGroup meshGroup(const Cluster &cluster, const std::vector<int64_t> &devices) {
  MeshGroup group;
  size_t levels = cluster.levels.size();
  for (size_t level = 0; level < levels; ++level) {
    // Distinct groups of the level below per group of this level; the widest one counts.
    std::map<int64_t, std::set<int64_t>> parts;
    Link worst{0, 0};
    for (int64_t device : devices) {
      int64_t node = cluster.nodeOfDevice(device);
      int64_t below = level == 0 ? device : node / cluster.levels[level - 1].nodes;
      int64_t nodesHere = cluster.levels[level].nodes;
      parts[nodesHere == 0 ? 0 : node / nodesHere].insert(below);
      Link link = cluster.linkOfDevice(device, static_cast<int64_t>(level));
      worst.latencyUs = std::max(worst.latencyUs, link.latencyUs);
      worst.computeLoss = std::max(worst.computeLoss, link.computeLoss);
      if (worst.bytesPerSecond == 0 || link.bytesPerSecond < worst.bytesPerSecond)
        worst.bytesPerSecond = link.bytesPerSecond;
    }
    size_t widest = 1;
    for (const auto &[part, members] : parts)
      widest = std::max(widest, members.size());
    group.extents.push_back(static_cast<int64_t>(widest));
    group.links.push_back(worst);
  }
  return withMeasured(std::move(group), cluster);
}

MeshGroup meshGroup(const Cluster &cluster, const Mesh &mesh, std::span<const std::string> axes) {
  std::vector<bool> varies(mesh.axes.size(), false);
  for (const std::string &axis : axes)
    if (int64_t at = mesh.axisIndex(axis); at >= 0)
      varies[static_cast<size_t>(at)] = true;
  // Points of the mesh that agree on all other axes form one group.
  std::map<int64_t, std::vector<int64_t>> groups;
  for (int64_t point = 0; point < mesh.deviceCount(); ++point) {
    int64_t rest = point, key = 0, scale = 1;
    for (size_t axis = mesh.axes.size(); axis-- > 0;) {
      int64_t coordinate = rest % mesh.axes[axis].size;
      rest /= mesh.axes[axis].size;
      if (!varies[axis]) {
        key += coordinate * scale;
        scale *= mesh.axes[axis].size;
      }
    }
    groups[key].push_back(mesh.devices[static_cast<size_t>(point)]);
  }
  MeshGroup worst = meshGroup(cluster, 1, 1);
  double most = -1;
  for (const auto &[key, devices] : groups) {
    MeshGroup group = meshGroup(cluster, devices);
    if (double slowness = slownessOf(group); slowness > most) {
      worst = std::move(group);
      most = slowness;
    }
  }
  return worst;
}

} // namespace autopar
